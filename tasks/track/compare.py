"""Compare runs: two stored ones, or the plan of a run with that of the last run of its name."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fkd.core.arrays import Array
from fkd.methods import method
from tasks.plan.training import measure_weights
from tasks.plan.trials import Job, Trial, record_key
from tasks.select.champion import NoChampionError, select_champion
from tasks.select.judgement import ScoreIntervals, score_intervals
from tasks.select.results import SCORES, TrialResult, flat, flat_parameters
from tasks.select.study import Study
from tasks.storage.environment import MEMORY
from tasks.storage.files import write_atomic

_SHOWN = 5  # entries of a long list
# Parts of the keys of records.
_FIT_PARTS = {
    "data": "the data",
    "sensitive": "the removed columns",
    "scale": "the scaling",
    "seed": "the seed",
    "blas_threads": "the BLAS threads",
    "weights": "the row weights",
    "folds": "the folds",
    "inner_folds": "the inner folds",
    "encoder": "the encoder",
    "record": "the fields of records",
}
# Changes of these need no fit if the predictions were kept.
_MEASURE_PARTS = {
    "measure_on": "the measured columns",
    "measure_weights": "the row weights of measures",
    "measures": "the measures",
}


@dataclass(frozen=True)
class Difference:
    """A difference between two runs, with the value of each."""

    what: str
    first: str
    second: str


@dataclass(frozen=True)
class PairedTrial:
    """A trial of one run with one of another run.

    Parameters
    ----------
    title
        Names of the trials.
    scores
        Scores with intervals of the second run, of the first, and second minus first. None without
        predictions of the same rows.
    means
        By measured column and measure: mean over folds in the first run, in the second.
    same
        True if both are the same stored fits.
    """

    title: str
    scores: tuple[ScoreIntervals, ...] | None
    means: Mapping[str, Mapping[str, tuple[float, float]]]
    same: bool = False


def config_differences(first: Study, second: Study) -> list[Difference]:
    """Return the keys of the configurations that differ, under the names that --set takes."""
    return _differences(
        *(flat(_by_position(study.config.model_dump(mode="json"))) for study in (first, second))
    )


def data_differences(first: Study, second: Study) -> list[Difference]:
    """Return how the rows differ: digest, number, columns, ranges."""
    found = []
    for study in (first, second):
        table, provenance = study.table, study.loaded.provenance
        files = provenance["files"]
        found.append(
            {
                "digest": study.loaded.digest[:12],
                "rows read": provenance["rows_read"],
                "rows used": table.n,
                "target": table.target_name,
                "target range": [float(limit) for limit in table.target_range],
                "sensitive": list(table.sensitive_names),
                "numeric inputs": list(table.numeric_names),
                "label inputs": list(table.categorical_names),
                "files": [str(file.get("sha256", file.get("name")))[:12] for file in files],
            }
        )
    return _differences(*found)


def code_differences(first: Study, second: Study) -> list[Difference]:
    """Return how versions of methods, packages and BLAS differ between the fits of two runs."""
    found = []
    for study in (first, second):
        versions: dict[str, set[str]] = {}
        for record in (record for result in study.results() for record in result.records):
            used = {k: v for k, v in record.environment.items() if k != MEMORY}
            named = flat(_by_position({f"method {record.method}": record.version, **used}))
            for name, value in named.items():
                versions.setdefault(name, set()).add(str(value))
        found.append({name: ", ".join(sorted(values)) for name, values in versions.items()})
    return _differences(*found)


def _by_position(value: Any) -> Any:
    """Return a tree in which lists of mappings are mappings by position, as --set names them."""
    if isinstance(value, Mapping):
        return {key: _by_position(inner) for key, inner in value.items()}
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        return {str(i): _by_position(inner) for i, inner in enumerate(value)}
    return value


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Return the entries that differ; of two long lists the entries that only one of them has."""
    found = []
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        if a == b:
            continue
        if isinstance(a, list) and isinstance(b, list) and len(a) + len(b) > _SHOWN:
            found.append(Difference(name, _only(a, b), _only(b, a)))
        else:
            words = ("absent" if value is None else str(value) for value in (a, b))
            found.append(Difference(name, *words))
    return found


def _only(one: Sequence[Any], other: Sequence[Any]) -> str:
    alone = [str(value) for value in one if value not in other]
    more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
    return f"{len(one)}" + (f", only here: {', '.join(alone[:_SHOWN])}{more}" if alone else "")


def paired_trials(first: Study, second: Study, *, most: int) -> tuple[list[PairedTrial], str]:
    """Return champions and equal trials of two runs, and the reason if there are no intervals.

    Parameters
    ----------
    first, second
        The runs.
    most
        The greatest number of trials. Champions come first.
    """
    results = [
        {(r.trial.method, r.trial.parameters_json): r for r in study.results()}
        for study in (first, second)
    ]
    pairs = [
        (first.title(result.trial), result, results[1][name])
        for name, result in results[0].items()
        if name in results[1]
    ]
    champions = [_champion(first, results[0]), _champion(second, results[1])]
    if champions[0] is not None and champions[1] is not None:
        titles = dict.fromkeys((first.title(champions[0].trial), second.title(champions[1].trial)))
        pairs.insert(0, (f"champion: {' → '.join(titles)}", champions[0], champions[1]))
    reason = _unpaired(first, second)
    return [_paired(first, second, *pair, reason=reason) for pair in pairs[:most]], reason


def _champion(study: Study, results: Mapping[tuple[str, str], TrialResult]) -> TrialResult | None:
    """Return the results of the champion, None without one."""
    try:
        trial = select_champion(study).trial
    except NoChampionError:
        return None
    return results.get((trial.method, trial.parameters_json))


def _unpaired(first: Study, second: Study) -> str:
    """Return the reason why predictions cannot be compared by rows, empty if they can."""
    tables = first.table, second.table
    if tables[0].n != tables[1].n or not np.array_equal(tables[0].target, tables[1].target):
        return "the runs have other rows or another target"
    if tables[0].target_range != tables[1].target_range:
        return "the runs have other units of the target"
    folds = [study.inputs.splits.outer(study.table).values() for study in (first, second)]
    if [f.digest for f in folds[0]] != [f.digest for f in folds[1]]:
        return "the runs test on other folds"
    if not set(first.inputs.measure_on) & set(second.inputs.measure_on):
        return "the runs measure on other columns"
    return ""


def _paired(
    first: Study, second: Study, title: str, one: TrialResult, other: TrialResult, *, reason: str
) -> PairedTrial:
    columns = [c for c in first.inputs.measure_on if c in second.inputs.measure_on]
    means = {c: {m: (one.mean(m, c), other.mean(m, c)) for m in SCORES} for c in columns}
    same = [r.key for r in one.records] == [r.key for r in other.records]
    scores = None
    if not reason and not same:
        before, after = _pooled(first, one.trial), _pooled(second, other.trial)
        if before is not None and after is not None:
            rows = np.flatnonzero(~np.isnan(before) & ~np.isnan(after))
            rng = np.random.default_rng(first.config.seed)
            # Without weights if the runs have different ones.
            equal = first.config.weights == second.config.weights
            w = measure_weights(first.table, first.config.weights if equal else None)
            scores = score_intervals(
                first.table.take(rows),
                after[rows],
                before[rows],
                columns,
                rng,
                None if w is None else w[rows],
            )
    return PairedTrial(title, scores, means, same)


def _pooled(study: Study, trial: Trial) -> Array | None:
    """Return one prediction per row from the outer folds, None if some were not kept."""
    table, splits = study.table, study.inputs.splits
    keys = [record_key(trial, fold, study.inputs) for fold in splits.outer(table).values()]
    kept = [part for key in keys if (part := study.store.predictions(key)) is not None]
    return splits.pool(table, kept) if len(kept) == len(keys) else None


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
    def from_study(cls, study: Study) -> "Plan":
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

    def changes(self, parts: Mapping[str, str], before: "Plan") -> str:
        """Return the parts of the keys that differ from those of another plan."""
        changed = (n for n in parts if self.common.get(n) != before.common.get(n))
        return ", ".join(parts[name] for name in changed)


def read_plan(study: Study) -> Plan | None:
    """Return the plan of the last run of that name, None without a readable one."""
    try:
        return Plan(**json.loads(_path(study).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_plan(study: Study) -> None:
    """Write the plan of this run, with which the next one compares its own."""
    write_atomic(_path(study), json.dumps(asdict(Plan.from_study(study))).encode())


def _path(study: Study) -> Path:
    return study.folder / "plan.json"


def reasons(
    study: Study, jobs: Sequence[Job], before: Plan | None, failed: Collection[str]
) -> Counter[str]:
    """Return the numbers of fits of these jobs by the reason why they are computed.

    Parameters
    ----------
    study, jobs
        A study with its missing jobs.
    before
        The plan of the last run. A first run has no reasons.
    failed
        Keys of the fits that failed before.
    """
    found: Counter[str] = Counter()
    if before is None:
        return found
    now = Plan.from_study(study)
    refitted = now.changes(_FIT_PARTS, before)
    remeasured = "" if refitted else now.changes(_MEASURE_PARTS, before)
    for job in jobs:
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            if key in failed:
                reason = "failed before"
            elif key in study.store:
                reason = "without the predictions that shall be kept"
            elif remeasured:
                kept = study.store.has_predictions(key)
                how = "measured again" if kept else "fitted again, as predictions were not kept"
                reason = f"{how}, because {remeasured} changed"
            elif refitted:
                reason = f"{refitted} changed"
            else:
                reason = _reason(trial, before, now.versions[trial.method])
            found[reason] += 1
    return found


def _reason(trial: Trial, before: Plan, version: int) -> str:
    """Return the most general reason why a trial has no record, if the data are the same."""
    old = before.versions.get(trial.method)
    if old is not None and old != version:
        return f"{trial.method} is version {version}, was {old}"
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
