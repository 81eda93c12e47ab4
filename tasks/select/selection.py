"""Select the champion by its scores on inner folds."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from configs.errors import UserError
from configs.run import SelectConfig
from fkd import measures
from fkd.core.arrays import Array
from fkd.measures.pareto import knee, select
from tasks.plan.training import measure_weights
from tasks.plan.trials import Trial
from tasks.select.results import MAE, TrialResult, collect
from tasks.select.study import Study, cached_on_study
from tasks.storage.records import TrialRecord

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
