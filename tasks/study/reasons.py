"""Why fits are to be computed, told from what the last run of that name had planned."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fkd.methods import method
from tasks.adapters.files import write_atomic
from tasks.planned.trials import Job, Trial
from tasks.study.opening import Study

_WORDS = {
    "data": "the data",
    "sensitive": "the removed columns",
    "measure_on": "the measured columns",
    "scale": "the scaling",
    "seed": "the seed",
    "blas_threads": "the BLAS threads",
    "folds": "the folds",
    "inner_folds": "the inner folds",
    "versions": "the measures, the encoder or the records' form",
}


@dataclass(frozen=True)
class Plan:
    """What decided the keys of a run's trials."""

    common: dict[str, Any]
    versions: dict[str, int]
    trials: tuple[str, ...]

    @classmethod
    def of(cls, study: Study) -> "Plan":
        """Return the plan of a study."""
        folds = study.inputs.splits.folds.model_dump(mode="json")
        inner = study.inputs.splits.inner_folds
        common = {**study.inputs.identity(), "folds": folds, "inner_folds": inner}
        names = sorted({trial.method for trial in study.trials})
        return cls(
            # Through JSON, so that a plan equals itself once it has been read back.
            json.loads(json.dumps(common)),
            {name: method(name).version for name in names},
            tuple(trial.key for trial in study.trials),
        )


def read_plan(study: Study) -> Plan | None:
    """Return what the last run of that name planned, None where there was none."""
    try:
        plain = json.loads(_path(study).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return Plan(**{**plain, "trials": tuple(plain["trials"])})


def write_plan(study: Study) -> None:
    """Keep what this run plans for the next one to compare itself with."""
    write_atomic(_path(study), json.dumps(asdict(Plan.of(study))).encode())


def reasons(
    study: Study, jobs: Sequence[Job], before: Plan | None, failed: Collection[str]
) -> Counter[str]:
    """Return how many fits of these jobs are to be computed for which reason.

    Parameters
    ----------
    before
        What the last run planned; a first run needs no reasons.
    failed
        Keys of the fits that had failed and are tried again.
    """
    found: Counter[str] = Counter()
    if before is None:
        return found
    now = Plan.of(study)
    for job in jobs:
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            if key in failed:
                found["failed before"] += 1
            elif key in study.store:
                found["without the predictions that shall be kept"] += 1
            else:
                found[_reason(trial, before, now)] += 1
    return found


def _reason(trial: Trial, before: Plan, now: Plan) -> str:
    """Return why one trial has no record, the most general reason first."""
    changed = [_WORDS[name] for name in _WORDS if now.common.get(name) != before.common.get(name)]
    if changed:
        return f"{', '.join(changed)} changed"
    old, new = before.versions.get(trial.method), now.versions[trial.method]
    if old is not None and old != new:
        return f"{trial.method} is version {new}, was {old}"
    return "not finished before" if trial.key in before.trials else "new settings"


def _path(study: Study) -> Path:
    """Return where the plan of a run's name is kept."""
    return study.folder / "plan.json"
