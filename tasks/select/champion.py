"""Select the champion by its scores on inner folds, refit it, and judge it on held-out rows."""

import json
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from configs.errors import UserError
from configs.run import SelectConfig
from fkd import __version__, measures
from fkd.core.arrays import Array
from fkd.measures.pareto import knee, select
from fkd.measures.resampling import FEWEST_ROWS
from fkd.methods import method
from fkd.problems.bundle import Bundle
from tasks.fit.job import is_counted
from tasks.plan.training import measure_weights
from tasks.plan.trials import Trial
from tasks.select.judgement import VERSION, Judgement, Refitted, judge, probed_rows, recover, refit
from tasks.select.results import MAE, TrialResult, collect
from tasks.select.study import Study, cached_on_study
from tasks.storage.environment import blas_threads
from tasks.storage.records import TrialRecord, digest
from tasks.storage.store import open_store

KNEE_VERSION = 2  # to be raised whenever the knee selects otherwise; part of a run's identity
_PERMUTATIONS = 50
# Noise is computed on at most this many rows of a fold, and scaled to the number of its rows.
_NOISE_ROWS = 1000
_CONSTANT = 1e-12  # spread relative to magnitude, as in fkd.measures


class NoChampionError(UserError):
    """No trial satisfies the limits."""


def candidates(study: Study) -> list[TrialResult]:
    """Return the results on inner folds of the trials that succeeded on all folds."""
    whole = {result.trial.key for result in study.results()}
    return [result for result in study.results(inner=True) if result.trial.key in whole]


def select_trial(
    results: Sequence[TrialResult],
    policy: SelectConfig,
    noise: Mapping[str, float] = MappingProxyType({}),
) -> TrialResult:
    """Return the trial that the policy selects from results on inner folds.

    With several measured columns a limit must hold on the worst of them.

    Under `knee_of`, an error that exceeds the least by at most the standard error of this
    difference counts as the least, and a dependence of at most the `noise` of its column counts as
    none. A constant prediction is selected only if every other trial has a greater error.
    """
    if not results:
        raise NoChampionError("There is nothing to choose from: no trial finished on all folds.")
    for name in [policy.knee_of] if policy.knee_of else policy.subject_to:
        if any(np.isnan(worst(result, name)) for result in results):
            raise NoChampionError(
                f"select: {name} is undefined on an inner fold "
                f"({measures.REPORTED[name].undefined}). Select by another measure."
            )
    if policy.knee_of:
        found = _knee(results, policy.knee_of, noise)
        return _knee(_contenders(results), policy.knee_of, noise) if _is_constant(found) else found
    points = {
        name: np.array([worst(result, name) for result in results])
        for name in (MAE, *policy.subject_to)
    }
    try:
        index = select(points, minimise=policy.minimise, subject_to=policy.subject_to)
    except ValueError as error:
        raise NoChampionError(
            f"select.subject_to cannot be met: {error}. Raise the limit by "
            "--set select.subject_to=..., or give the methods a longer grid."
        ) from error
    return results[index]


def worst(result: TrialResult, measure: str) -> float:
    """Return the mean over folds on the column with the greatest one, NaN if one is undefined."""
    means = [result.mean(measure, column) for column in result.records[0].measures]
    return float(np.max(means))


def excess(result: TrialResult, measure: str, noise: Mapping[str, float]) -> tuple[float, float]:
    """Return the excess of a measure over the noise floor of its column, and that floor.

    With several measured columns, this is the column with the greatest excess.
    """
    floors = {column: noise.get(column, 0.0) for column in result.records[0].measures}
    return max((result.mean(measure, column) - floor, floor) for column, floor in floors.items())


def is_most_accurate(selected: TrialResult, results: Sequence[TrialResult]) -> bool:
    """Return whether no trial has a lower error, and the selected one is not a constant."""
    least = min(worst(result, MAE) for result in results)
    return worst(selected, MAE) <= least and not _is_constant(selected)


def _knee(results: Sequence[TrialResult], measure: str, noise: Mapping[str, float]) -> TrialResult:
    """Return the knee of the front, with differences within noise counted as none."""
    # By fold; the error is the same on every measured column.
    columns = list(results[0].records[0].measures)
    mae = np.array([result.values(MAE, columns[0]) for result in results])
    best = int(np.argmin(mae.mean(axis=1)))
    # Trials share folds, so differences by fold have a smaller standard error.
    more = mae - mae[best]
    standard_errors = more.std(axis=1, ddof=1) / np.sqrt(mae.shape[1])
    beyond = np.array([excess(result, measure, noise)[0] for result in results])
    _, floor = excess(results[best], measure, noise)
    points = np.column_stack([more.mean(axis=1), floor + beyond])
    tolerance = np.column_stack([standard_errors, np.full(len(results), floor)])
    return results[knee(points, tolerance=tolerance)]


def _contenders(results: Sequence[TrialResult]) -> Sequence[TrialResult]:
    """Return the trials no worse than every constant; the constants if there are none."""
    constants = [result for result in results if _is_constant(result)]
    least = min(worst(result, MAE) for result in constants)
    return [r for r in results if not _is_constant(r) and worst(r, MAE) <= least] or constants


def _is_constant(result: TrialResult) -> bool:
    """Return whether the predictions of every fold are constant."""
    predicted = [record.predicted for record in result.records]
    return all(one.std <= _CONSTANT * one.size for one in predicted)


def noise_on_inner_folds(
    study: Study, results: Sequence[TrialResult], measure: str
) -> dict[str, float]:
    """Return the noise floor of a measure on each column, for the most accurate trial.

    It is the 95 % quantile under independence of the mean over inner folds.
    """
    best = min(results, key=lambda result: worst(result, MAE)).trial
    return {column: _noise(study, best, measure, column) for column in study.inputs.measure_on}


@cached_on_study
def _noise(study: Study, trial: Trial, measure: str, column: str) -> float:
    """Return the noise floor on one column.

    Predictions need not be stored: s is shuffled against Gaussian ones of the same standard
    deviation and the same correlation with y. Under independence GDP depends on predictions by the
    former, PF by the latter, HGR hardly.
    """
    table, rng = study.table, np.random.default_rng(study.config.seed)
    weights = measure_weights(table, study.inputs.weights)
    (result,) = collect([trial], study.inputs, table, study.store, inner=True)
    floors = []
    for fold, record in zip(study.inputs.splits.inner(table).values(), result.records, strict=True):
        n = min(len(fold.test), _NOISE_ROWS)
        rows = np.sort(rng.choice(fold.test, n, replace=False))
        test, share = table.take(rows), n / len(fold.test)
        r = _correlation(record, column, table.y[fold.test])
        y = (test.y - test.y.mean(axis=0)) / (test.y.std(axis=0) or 1.0)
        f = record.predicted.std * (r * y + np.sqrt(1 - r**2) * rng.normal(size=n))
        # Each row counts 1 / share times, so that bandwidths are those of the whole fold.
        w = (np.ones(n) if weights is None else weights[rows]) / share
        try:
            floor = measures.noise_floor(
                f,
                test.S([column])[:, 0],
                measure=measures.REPORTED[measure].scaled(),
                y_true=test.y,
                rng=rng,
                permutations=_PERMUTATIONS,
                sample_weight=w,
            )
            ends = float(floor.mean), float(floor.upper)
        except ValueError:  # too few pairs, or one row has most of the weight: all may be noise
            ends = 1.0, 1.0
        floors.append(np.sqrt(share) * np.array(ends))
    mean, upper = np.array(floors).T
    # Folds are independent, so the squares of their distances to the quantile add up.
    return float(mean.mean(axis=0) + np.linalg.norm(upper - mean) / len(mean))


def _correlation(record: TrialRecord, column: str, y: Array) -> float:
    """Return the correlation of a record's predictions with y, from its moments."""
    f, mse = record.predicted, record.measures[column]["mse"]
    product = float(f.std * y.std(axis=0))
    squares = f.std**2 + y.var(axis=0) + (f.mean - y.mean(axis=0)) ** 2
    return float(np.clip((squares - mse) / (2 * product), -1, 1)) if product > 0 else 0.0


_EXAMPLE_ROWS = 5


@dataclass(frozen=True)
class Champion:
    """The selected trial with its model and judgement.

    Parameters
    ----------
    key
        Digest of the selection, the rows and the code.
    trial, title
        The selected trial and its name for people.
    bundle
        The model, fitted to the held-out fold's training rows.
    judgement
        Its scores on the held-out rows.
    example
        A few made-up rows, as the served model takes them.
    policy
        The configured policy.
    within_noise
        True if the trial has the least error and does not depend on s beyond noise.
    """

    key: str
    trial: Trial
    title: str
    bundle: Bundle
    judgement: Judgement
    example: pd.DataFrame
    policy: SelectConfig
    within_noise: bool = False


def select_champion(study: Study) -> Champion:
    """Return the champion of a study, computed once and then read from the store.

    It is selected by scores on inner folds of the held-out fold's training rows, refitted to these
    rows, and judged on the held-out rows.
    """
    policy = study.config.select
    if policy is None:
        raise NoChampionError("No champion is selected: select is null.")
    w = study.held_out_weights()
    rows = len(study.held_out.test) if w is None else int(np.count_nonzero(w))
    if rows < FEWEST_ROWS:
        raise NoChampionError(
            f"folds must hold out at least {FEWEST_ROWS} rows to judge a champion, got {rows}. "
            "Use more rows, fewer folds, or select: null."
        )
    found = candidates(study)
    within_noise = False
    if found and policy.knee_of:
        noise = noise_on_inner_folds(study, found, policy.knee_of)
        selected = select_trial(found, policy, noise)
        fair = excess(selected, policy.knee_of, noise)[0] <= 0
        within_noise = fair and is_most_accurate(selected, found)
    else:
        selected = select_trial(found, policy)
    trial = selected.trial
    key = champion_key(study, trial)
    bundle, judgement = _stored_champion(study, trial, key)
    example = _example(study, bundle.input_columns)
    title = study.title(trial)
    return Champion(key, trial, title, bundle, judgement, example, policy, within_noise)


def champion_key(study: Study, trial: Trial) -> str:
    """Return the digest of the selected trial, the selection and the code."""
    return digest(
        {
            "trial": trial.key,
            "method": method(trial.method).version,
            "inner": study.config.inner_folds,
            "judged": VERSION,
            "code": __version__,
        }
    )


@cached_on_study
def _stored_champion(study: Study, trial: Trial, key: str) -> tuple[Bundle, Judgement]:
    """Return the stored model and judgement, computed if they are absent or damaged."""
    store, name = open_store(study.settings), f"champions/{key}.arrays"
    arrays = store.read_arrays(name)
    if arrays is not None:
        judgement = TypeAdapter(Judgement).validate_json(str(arrays["judgement"]))
        return Bundle.from_arrays(arrays), judgement
    with blas_threads(study.inputs.blas_threads):
        model = refit(study, trial)
        bundle, judgement = _bundle(study, trial, model), _judge(study, trial, model)
    text = np.array(json.dumps(asdict(judgement), allow_nan=False))
    store.write_arrays(name, {"judgement": text, **bundle.arrays()})
    return bundle, judgement


def _bundle(study: Study, trial: Trial, model: Refitted) -> Bundle:
    """Return what predictions from raw columns need, with the range of each numeric input."""
    table, encoder = study.table, model.encoder
    places = [table.numeric_names.index(name) for name in encoder.numeric_names]
    rows = table.numeric[study.held_out.train][:, places]
    ranges = np.stack([np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)], axis=1)
    if not method(trial.method).needs_sensitive:
        return Bundle(encoder, model.predictor, table.target_range, ranges)
    names = study.inputs.sensitive
    units = table.sensitive_range[[table.sensitive_names.index(name) for name in names]]
    return Bundle(encoder, model.predictor, table.target_range, ranges, names, units)


def _judge(study: Study, trial: Trial, model: Refitted) -> Judgement:
    """Return the judgement on held-out rows with the results of probes."""
    test, inputs = study.held_out_rows(), study.inputs

    def probe() -> tuple[measures.Recovery, ...]:
        rows = probed_rows(test, model.training.seed)
        w = measure_weights(rows, inputs.weights)
        with blas_threads(inputs.blas_threads):  # OpenMP counts threads per thread
            X = model.encoder.transform(rows)
            return tuple(recover(trial, model.training, X, rows.S(inputs.measure_on), w))

    if not is_counted(test.n, study.held_out_weights()):
        judgement = judge(study, trial, test, model.y_pred)
        return judgement.with_recovered(inputs.measure_on, probe())
    # Each takes seconds for very many rows, so two threads share the work. Both may change the
    # warning filters, which belong to the whole process: restore them once both have finished.
    with warnings.catch_warnings(), ThreadPoolExecutor(1) as executor:
        probes = executor.submit(probe)
        judgement = judge(study, trial, test, model.y_pred)
        return judgement.with_recovered(inputs.measure_on, probes.result())


@cached_on_study
def _example(study: Study, names: tuple[str, ...]) -> pd.DataFrame:
    """Return a few made-up rows of raw columns, as the served model takes them.

    They are nobody's rows: numbers are deciles of their columns, labels the most common ones.
    """
    table, train = study.table, study.held_out.train
    shares = np.linspace(0.1, 0.9, _EXAMPLE_ROWS)
    columns: dict[str, Any] = {
        # A value of the column, which is written with as few digits as the column.
        name: np.nanquantile(column[train], shares, method="nearest")
        for name, column in (
            *zip(table.numeric_names, table.numeric.T, strict=True),
            *zip(table.sensitive_names, table.sensitive.T, strict=True),
        )
        if name in names
    }
    for i, name in enumerate(table.categorical_names):
        labels = ("", *table.levels[i])  # code -1, missing, is the first one
        counts = np.bincount(table.codes[train, i] + 1)
        common = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        columns[name] = [labels[common[j % len(common)]] for j in range(_EXAMPLE_ROWS)]
    return pd.DataFrame(columns)[list(names)]
