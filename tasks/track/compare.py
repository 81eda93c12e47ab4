"""Compare two runs: settings, rows, code, and numbers on the same rows."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs.run import WeightsConfig
from fkd.core.arrays import Array
from fkd.methods import method
from tasks.plan.training import measure_weights
from tasks.plan.trials import Job, Trial, record_key
from tasks.select.champion import select_champion
from tasks.select.judgement import ScoreIntervals, score_intervals
from tasks.select.results import SCORES, TrialResult, flat, flat_parameters
from tasks.select.selection import NoChampionError
from tasks.select.study import Study
from tasks.storage.environment import MEMORY
from tasks.storage.files import write_atomic

_SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same: what, in the first run, in the second."""

    what: str
    first: str
    second: str


@dataclass(frozen=True)
class PairedTrial:
    """A trial of either run beside one of the other.

    Parameters
    ----------
    title
        What is compared.
    scores
        Numbers of the second run's and of the first's, then second minus first, each with its
        interval; None where predictions of the same rows are not known.
    means
        By measured column and measure: mean over folds in the first run, in the second.
    same
        Whether it is one and the same stored fit.
    """

    title: str
    scores: tuple[ScoreIntervals, ...] | None
    means: Mapping[str, Mapping[str, tuple[float, float]]]
    same: bool = False


def config_differences(first: Study, second: Study) -> list[Difference]:
    """Return the keys of the configurations that differ, under the names that --set takes."""
    plain = [flat(_listless(s.config.model_dump(mode="json"))) for s in (first, second)]
    return _differing(*plain)


def data_differences(first: Study, second: Study) -> list[Difference]:
    """Return how the rows differ: digest, number, columns, ranges."""
    return _differing(*(_told_data(study) for study in (first, second)))


def code_differences(first: Study, second: Study) -> list[Difference]:
    """Return with which versions of methods, packages and kernels the fits were computed."""
    return _differing(*(_told_code(study) for study in (first, second)))


def paired_trials(first: Study, second: Study, *, most: int) -> tuple[list[PairedTrial], str]:
    """Return champions and equal trials of two runs side by side, with why there is no interval.

    Parameters
    ----------
    first, second
        The runs.
    most
        So many trials at most, champions first.
    """
    results = [
        {r.trial.parameters_json + r.trial.method: r for r in s.results()} for s in (first, second)
    ]
    pairs = [
        (first.title(result.trial), result, results[1][name])
        for name, result in results[0].items()
        if name in results[1]
    ]
    champions = [
        _champion(study, found) for study, found in zip((first, second), results, strict=True)
    ]
    if champions[0] is not None and champions[1] is not None:
        titles = (first.title(champions[0].trial), second.title(champions[1].trial))
        title = titles[0] if titles[0] == titles[1] else " → ".join(titles)
        pairs.insert(0, (f"champion: {title}", champions[0], champions[1]))
    reason = _unpaired(first, second)
    return [_paired(first, second, *pair, reason=reason) for pair in pairs[:most]], reason


def _paired(
    first: Study, second: Study, title: str, one: TrialResult, other: TrialResult, *, reason: str
) -> PairedTrial:
    columns = [c for c in first.inputs.measure_on if c in second.inputs.measure_on]
    means = {
        column: {
            measure: (one.mean(measure, column), other.mean(measure, column)) for measure in SCORES
        }
        for column in columns
    }
    same = [r.key for r in one.records] == [r.key for r in other.records]
    scores = None
    if not reason and not same:
        before, after = (_pooled(s, r.trial) for s, r in ((first, one), (second, other)))
        if before is not None and after is not None:
            rows = np.flatnonzero(~np.isnan(before) & ~np.isnan(after))
            rng = np.random.default_rng(first.config.seed)
            test = first.loaded.table.take(rows)
            w = measure_weights(first.loaded.table, _common_weights(first, second))
            w = None if w is None else w[rows]
            scores = score_intervals(test, after[rows], before[rows], columns, rng, w)
    return PairedTrial(title, scores, means, same)


def _common_weights(first: Study, second: Study) -> WeightsConfig | None:
    """Return the weights by which both were measured; unlike ones would be compared by neither."""
    both = {study.config.weights for study in (first, second)}
    return both.pop() if len(both) == 1 else None


def _pooled(study: Study, trial: Trial) -> Array | None:
    """Return one prediction per row from the folds that tested it, None where some is not kept."""
    table, splits = study.loaded.table, study.inputs.splits
    keys = [record_key(trial, fold, study.inputs) for fold in splits.outer(table).values()]
    found = [study.store.predictions(key) for key in keys]
    kept = [part for part in found if part is not None]
    return splits.pool(table, kept) if len(kept) == len(found) else None


def _champion(study: Study, results: Mapping[str, TrialResult]) -> TrialResult | None:
    """Return the results of the champion, None where there is none."""
    try:
        chosen = select_champion(study).trial
    except NoChampionError:
        return None
    return results.get(chosen.parameters_json + chosen.method)


def _unpaired(first: Study, second: Study) -> str:
    """Return why predictions cannot be compared row by row, empty where they can."""
    tables = first.loaded.table, second.loaded.table
    if tables[0].n != tables[1].n or not np.array_equal(tables[0].target, tables[1].target):
        return "the runs have other rows or another target"
    if tables[0].target_range != tables[1].target_range:
        return "the runs have other units of the target"
    folds = [study.inputs.splits.outer(study.loaded.table) for study in (first, second)]
    if [f.digest for f in folds[0].values()] != [f.digest for f in folds[1].values()]:
        return "the runs test on other folds"
    if not set(first.inputs.measure_on) & set(second.inputs.measure_on):
        return "the runs measure on other columns"
    return ""


def _listless(value: Any) -> Any:
    """Return a tree in which lists of trees are trees by position, as --set names them."""
    if isinstance(value, Mapping):
        return {key: _listless(inner) for key, inner in value.items()}
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        return {str(i): _listless(inner) for i, inner in enumerate(value)}
    return value


def _told_data(study: Study) -> dict[str, Any]:
    table, story = study.loaded.table, study.loaded.provenance
    return {
        "digest": study.loaded.digest[:12],
        "rows read": story["rows_read"],
        "rows used": table.n,
        "target": table.target_name,
        "target range": [float(limit) for limit in table.target_range],
        "sensitive": list(table.sensitive_names),
        "numeric inputs": list(table.numeric_names),
        "label inputs": list(table.categorical_names),
        "files": [str(file.get("sha256", file.get("name")))[:12] for file in story["files"]],
    }


def _told_code(study: Study) -> dict[str, Any]:
    """Return versions of what has computed a run; several where its fits differ."""
    found: dict[str, set[str]] = {}
    for result in study.results():
        for record in result.records:
            used = {k: v for k, v in record.environment.items() if k != MEMORY}
            told = {f"method {record.method}": record.version, **used}
            for name, value in flat(_listless(told)).items():
                found.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    return [
        Difference(name, *_told(first.get(name), second.get(name)))
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _told(first: Any, second: Any) -> tuple[str, str]:
    """Return two values in words; of two long lists what only one of them has."""
    if isinstance(first, list) and isinstance(second, list) and len(first) + len(second) > _SHOWN:
        return _only(first, second), _only(second, first)
    words = ["absent" if value is None else str(value) for value in (first, second)]
    return words[0], words[1]


def _only(one: Sequence[Any], other: Sequence[Any]) -> str:
    alone = [str(value) for value in one if value not in other]
    more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
    return f"{len(one)}" + (f", only here: {', '.join(alone[:_SHOWN])}{more}" if alone else "")


_WORDS = {
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
_MEASURED = {
    "measure_on": "the measured columns",
    "measure_weights": "the row weights of measures",
    "measures": "the measures",
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
    remeasured = "" if _changed(_WORDS, before, now) else _changed(_MEASURED, before, now)
    for job in jobs:
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            if key in failed:
                found["failed before"] += 1
            elif key in study.store:
                found["without the predictions that shall be kept"] += 1
            elif remeasured:
                kept = study.store.has_predictions(key)
                how = "measured again" if kept else "fitted again, as predictions were not kept"
                found[f"{how}, because {remeasured} changed"] += 1
            else:
                found[_reason(trial, before, now)] += 1
    return found


def _changed(names: Mapping[str, str], before: Plan, now: Plan) -> str:
    """Return the parts of the keys that differ between two plans."""
    return ", ".join(w for n, w in names.items() if now.common.get(n) != before.common.get(n))


def _reason(trial: Trial, before: Plan, now: Plan) -> str:
    """Return why one trial has no record, the most general reason first."""
    if changed := _changed(_WORDS, before, now):
        return f"{changed} changed"
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
