"""Reasons why fits are computed, found by comparing a plan with the last one of that name."""

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
from tasks.study.results import flat_parameters

_WORDS = {
    "data": "the data",
    "sensitive": "the removed columns",
    "measure_on": "the measured columns",
    "scale": "the scaling",
    "seed": "the seed",
    "blas_threads": "the BLAS threads",
    "weights": "the row weights",
    "folds": "the folds",
    "inner_folds": "the inner folds",
    "versions": "the measures, the encoder or the records' form",
}


@dataclass(frozen=True)
class Plan:
    """Everything that determines the keys of a run's trials.

    Parameters
    ----------
    common
        The parts that all keys share.
    versions
        The version of each method.
    trials
        The keys.
    values
        By method and parameter, all values of the trials.
    """

    common: dict[str, Any]
    versions: dict[str, int]
    trials: list[str]
    values: dict[str, dict[str, list[str]]]

    @classmethod
    def of(cls, study: Study) -> "Plan":
        """Return the plan of a study."""
        folds = study.inputs.splits.folds.model_dump(mode="json")
        inner = study.inputs.splits.inner_folds
        common = {**study.inputs.identity(), "folds": folds, "inner_folds": inner}
        names = sorted({trial.method for trial in study.trials})
        values: dict[str, dict[str, list[str]]] = {name: {} for name in names}
        for trial in study.trials:
            for name, value in flat_parameters(trial).items():
                known = values[trial.method].setdefault(name, [])
                if value not in known:
                    known.append(value)
        return cls(
            # Through JSON, so that a plan equals itself once it has been read back.
            json.loads(json.dumps(common)),
            {name: method(name).version for name in names},
            [trial.key for trial in study.trials],
            values,
        )


def read_plan(study: Study) -> Plan | None:
    """Return the plan of the last run of that name, None if there is none that can be read."""
    try:
        return Plan(**json.loads(_path(study).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


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
    if trial.key in before.trials:
        return "not finished before"
    if old is None:
        return f"of the new method {trial.method}"
    known = before.values[trial.method]
    added = [k for k, v in flat_parameters(trial).items() if v not in known.get(k, ())]
    return (
        f"with a new value of {', '.join(added)}"
        if added
        else "with new combinations of parameters"
    )


def _path(study: Study) -> Path:
    """Return where the plan of a run's name is kept."""
    return study.folder / "plan.json"
