"""Confidence intervals and noise floors of any measure.

An interval comes from the measure on random quarters of the rows, drawn without replacement. The
plain bootstrap draws rows twice, and HGR takes repeated rows for dependence. Each row of a quarter
counts four times, so that bandwidths are those of all rows.

For a measure that behaves like a mean of rows, draws of b out of n rows have the variance 1/b - 1/n
and the measure itself has 1/n. Deviations of the draws from their mean are therefore multiplied by
sqrt(b / (n - b)) and added to the estimate. The bias of few rows, such as the noise of HGR, is in
the mean of the draws and cancels.

A noise floor comes from the measure after shuffling s against the predictions.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import FairnessWarning, as_sensitive, weight_vector
from fkd.measures.binned import BinnedRows, RoundedColumn, count_rounded
from fkd.measures.columns import drop_zero_weights, equal_columns, order_statistics, row_arrays
from fkd.measures.groups import (
    StratifiedValue,
    UndefinedMeasureError,
    mean_over_groups,
    measured_groups,
    require_groups,
)
from fkd.measures.hgr import hgr
from fkd.measures.pairwise import pairwise_on_subsamples
from fkd.measures.registry import Measure, get_measure

# With halves intervals are too wide if a measure cannot fall any further (PF of a fair prediction:
# 99.5 % coverage), with eighths they are too narrow in other cases: docs/explanation/measures.md.
PARTS = 4
FEWEST_ROWS = 2 * PARTS
# From so many rows on HGR and GDP of subsamples are computed from counts in cells, if the points of
# both columns are closer than the bandwidth (`RoundedColumn`).
BINNED_FROM = 100_000
# Subsamples of pairwise fairness have at most so many rows, whose pairs are counted in 10 ms.
PAIR_ROWS = 1 << 13
# From so many rows on only those of the quarter are shuffled, which takes a quarter of the time.
_MANY = 1 << 16
# Largest share of the weight for one row: with more, a shuffled column is nearly constant.
_LARGEST_SHARE = 0.5

Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-np.inf, np.inf)
Statistic = Callable[..., Any]


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval.

    Parameters
    ----------
    estimate
        The value on all rows, a float or one per column (l,).
    low, high
        Ends of the interval, which contains the estimate.
    level
        Nominal coverage.
    replicates
        Number of subsamples.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES, interval
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = interval(MEASURES["gdp"], f, s, rng=rng, replicates=50)
    >>> bool(found.low <= found.estimate <= found.high)
    True
    """

    estimate: float | Array
    low: float | Array
    high: float | Array
    level: float
    replicates: int


@dataclass(frozen=True)
class Comparison:
    """A measure of two predictions on the same rows.

    Parameters
    ----------
    first, second
        The measure of either prediction.
    difference
        The first minus the second, on the same subsamples.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES, compare
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = compare(MEASURES["gdp"], (f, s), (f - s, s), rng=rng, replicates=50)
    >>> bool(found.difference.low > 0)
    True
    """

    first: Interval
    second: Interval
    difference: Interval


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and upper quantile of a measure under independence.

    Parameters
    ----------
    mean
        Mean of the measure after shuffling, a float or one per column (l,).
    upper
        Quantile of the measure after shuffling.
    quantile
        Its level.
    permutations
        Number of permutations.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> floor = noise_floor(f, s, rng=rng, permutations=20)
    >>> bool(floor.mean < floor.upper)
    True
    """

    mean: float | Array
    upper: float | Array
    quantile: float
    permutations: int


def interval(
    measure: Statistic | str,
    *columns: ArrayLike | None,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds | None = None,
    control_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    """Return measure(*columns) with a confidence interval.

    Parameters
    ----------
    measure
        A declared measure (`fkd.measures.MEASURES`) or its name, or any function of row-aligned
        arrays. Options of a function are set with `functools.partial`.
    columns
        Its positional arguments, all with the same number of rows, at least eight. The first may
        be None if the measure accepts it.
    rng
        Source of the subsamples.
    replicates
        Number of subsamples. With 1000 the ends of a 95 % interval vary by about a twentieth of its
        length.
    level
        Nominal coverage, in (0, 1).
    bounds
        Smallest and largest possible value, to which the interval is clipped. Declared measures
        have their own.
    control_features
        Columns (n,) or (n, k). The measure is taken within each of their groups of rows, as by
        `by_stratum`, and the interval is that of the mean over groups. The groups and their weights
        are fixed; subsamples are drawn within each group.
    sample_weight
        Weights (n,), >= 0, passed to the measure as this keyword. A row is drawn with its weight.
        The weights of a subsample are scaled to the sum of all, so that bandwidths stay the same.

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays. Subsamples on which the measure is
        undefined are left out if most are defined; `replicates` counts the others.

    Notes
    -----
    HGR and GDP of at least 100,000 rows without weights are computed on subsamples from counts in
    cells (`BinnedRows`), unless a column has so long tails that 512 points are farther apart than
    the bandwidth. Pairwise fairness of at least 32,768 rows uses subsamples of 8,192 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES, interval
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = interval(MEASURES["pf"], rng.normal(size=400), f, s, rng=rng, replicates=50)
    >>> bool(found.low > 0.5)
    True
    """
    check_draws(replicates, level)
    statistic, limits = _declared(measure, bounds, columns)
    rows = row_arrays(columns)
    if control_features is not None:
        w = weight_vector(sample_weight, len(rows[-1]))
        estimate, draws = _draw_within(statistic, rows, control_features, w, rng, replicates)
    else:
        w, rows = drop_zero_weights(sample_weight, *rows)
        require_rows(len(rows[-1]))
        (estimate,), (draws,) = _draw(statistic, [rows], w, rng, replicates)
    return _interval(estimate, draws, level, limits)


def compare(
    measure: Statistic | str,
    first: Sequence[ArrayLike | None],
    second: Sequence[ArrayLike | None],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds | None = None,
    sample_weight: ArrayLike | None = None,
) -> Comparison:
    """Return a measure of two predictions and of their difference, each with an interval.

    Both sides are evaluated on the same subsamples, so that common variation cancels in the
    difference.

    Parameters
    ----------
    measure
        A declared measure or its name, or any function of row-aligned arrays.
    first, second
        Its positional arguments for either prediction, such as (y_pred, sensitive_features).
    rng
        Source of the subsamples.
    replicates
        Number of subsamples.
    level
        Nominal coverage, in (0, 1).
    bounds
        Smallest and largest possible value of the measure. The difference is not clipped.
    sample_weight
        Weights (n,), >= 0, as in `interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES, compare
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = compare(MEASURES["gdp"], (f, s), (f - s, s), rng=rng, replicates=50)
    >>> bool(found.first.estimate > found.second.estimate)
    True
    """
    check_draws(replicates, level)
    statistic, limits = _declared(measure, bounds, first, second)
    w, rows = drop_zero_weights(sample_weight, *row_arrays((*first, *second)))
    require_rows(len(rows[-1]))
    sides = [rows[: len(first)], rows[len(first) :]]
    (a, b), (x, y) = _draw(statistic, sides, w, rng, replicates)
    return Comparison(
        _interval(a, x, level, limits),
        _interval(b, y, level, limits),
        _interval(a - b, x - y, level, UNBOUNDED),
    )


def noise_floor(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    rng: np.random.Generator,
    measure: Statistic | str = hgr,
    y_true: ArrayLike | None = None,
    permutations: int = 200,
    quantile: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> NoiseFloor:
    """Return the values of a measure after shuffling s against the predictions.

    No method can be expected below the mean. Independent rows exceed the upper quantile with
    probability 1 - quantile.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l); their rows stay together.
    rng
        Source of the permutations.
    measure
        A declared measure or its name, or a function of (y_pred, sensitive_features).
    y_true
        Truth (n,), for a declared measure that needs it. Other measures ignore it.
    permutations
        Number of permutations.
    quantile
        Level of the upper quantile, in (0, 1).
    sample_weight
        Weights (n,), >= 0, passed to the measure as this keyword. Predictions keep their weights.
        The n values of s that are shuffled contain each value in proportion to its weight, rounded.

    Returns
    -------
    NoiseFloor
        Floats for one sensitive column, arrays (l,) for several.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import hgr, noise_floor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> floor = noise_floor(f, s, rng=rng, permutations=20)
    >>> bool(hgr(f, s) > floor.upper)
    True
    """
    f, y = equal_columns(y_pred=y_pred, y_true=y_true)
    S = as_sensitive(sensitive_features, len(f))
    statistic, _ = _declared(measure, UNBOUNDED)
    if y is not None and not isinstance(statistic, Measure):
        raise ValueError(
            "y_true must be None if measure is a function of (y_pred, sensitive_features), got an "
            "array. Use a declared measure, such as MEASURES['pf']"
        )
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie between 0 and 1, got {quantile}")
    w, (y, f, S) = drop_zero_weights(sample_weight, y, f, S)
    weights = {} if w is None else {"sample_weight": w}

    def value(S: Array) -> Any:
        columns = statistic.columns(y, f, S) if isinstance(statistic, Measure) else (f, S)
        return statistic(*columns, **weights)

    value(S)  # warnings about the rows are given once
    rounded = _rounded(statistic, [(f, S.T[0] if S.shape[1] == 1 else S)], w)
    if rounded is not None:
        ((own, s),) = rounded
        shuffled = (replace(s, index=rng.permutation(s.index)) for _ in range(permutations))
        values = np.array([statistic.of_bins(count_rounded(own, other)) for other in shuffled])
    else:
        S = S if w is None else S[_drawn_evenly(w)]
        with warnings.catch_warnings(action="ignore", category=FairnessWarning):
            values = np.array([value(S[rng.permutation(len(f))]) for _ in range(permutations)])
    mean, upper = values.mean(axis=0), np.quantile(values, quantile, axis=0)
    if values.ndim == 1:
        mean, upper = float(mean), float(upper)
    return NoiseFloor(mean, upper, quantile, permutations)


class SharedSubsamples:
    """Quarters of one sensitive column, drawn once and used for many predictions.

    Parameters
    ----------
    s
        The column (n,), n >= 8.
    quarters
        Positions of the rows of each quarter (`quarter`), at least two.
    """

    def __init__(self, s: Array, quarters: Sequence[NDArray[np.intp]]) -> None:
        self.s, self.quarters = s, quarters
        self._rounded = RoundedColumn.from_column(s)

    def deviations(self, measures: Sequence[Measure], f: Array) -> dict[str, float]:
        """Return the standard error of each measure of predictions f, by name.

        With 25 quarters its own relative standard error is about 1/7.
        """
        own, s = RoundedColumn.from_column(f), self._rounded
        if own is not None and s is not None:
            counts = (_binned([(own, s)], q)[0] for q in self.quarters)
            draws = [[measure.of_bins(binned) for measure in measures] for binned in counts]
        else:
            columns = ((f[rows], self.s[rows]) for rows in map(repeated, self.quarters))
            draws = [[float(measure(*pair)) for measure in measures] for pair in columns]
        spread = rescaled_draws(0.0, np.array(draws), len(f)).std(axis=0, ddof=1)
        return {m.name: float(value) for m, value in zip(measures, spread, strict=True)}


def quarter(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return n // 4 different numbers below n."""
    if n >= _MANY:
        return rng.choice(n, n // PARTS, replace=False, shuffle=False)
    rows: NDArray[np.intp] = rng.permutation(n)[: n // PARTS]
    return rows


def repeated(rows: NDArray[np.intp], w: Array | None = None) -> NDArray[np.intp]:
    """Return the rows of a quarter four times, or once if weights can express it.

    A measure of equally repeated rows is that of the rows, except for bandwidths and grids, which
    become those of n rows.
    """
    return np.tile(rows, PARTS) if w is None else rows


def rescaled_draws(estimate: float | Array, draws: Array, n: int, part: int | None = None) -> Array:
    """Return estimate + sqrt(b / (n - b)) (draw - mean of draws), with b rows in a draw.

    Parameters
    ----------
    estimate
        The measure on all n rows, a number or (l,).
    draws
        The measure on subsamples, (replicates,) or (replicates, l).
    part
        Rows of a subsample; None is a quarter.
    """
    b = n // PARTS if part is None else part
    rescaled: Array = estimate + np.sqrt(b / (n - b)) * (draws - draws.mean(axis=0))
    return rescaled


def ends(estimate: float | Array, draws: Array, level: float) -> tuple[Array, Array]:
    """Return the central quantiles of rescaled draws, widened to contain the estimate."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.minimum(low, estimate), np.maximum(high, estimate)


def require_rows(n: int) -> None:
    """Raise if quarters of n rows are too small to measure anything."""
    if n < FEWEST_ROWS:
        raise ValueError(f"argument 0 must have at least {FEWEST_ROWS} rows to resample, got {n}")


def check_draws(replicates: int, level: float) -> None:
    """Raise for a number of draws or a level that gives no interval."""
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def _declared(
    measure: Statistic | str, bounds: Bounds | None, *sides: Sequence[Any]
) -> tuple[Any, Bounds]:
    """Return the measure of a name, and its bounds. Check the columns of a declared measure."""
    if isinstance(measure, str | Measure):
        measure = get_measure(measure)
        names = measure.columns("y_true", "y_pred", "sensitive_features")
        for columns in sides:
            if len(columns) != len(names):
                raise ValueError(
                    f"columns of {measure.name} must be ({', '.join(names)}), got {len(columns)} "
                    "arrays"
                )
    if bounds is None:
        bounds = measure.range if isinstance(measure, Measure) else UNBOUNDED
    if not bounds[0] <= bounds[1]:
        raise ValueError(f"bounds must be (smallest, largest), got {bounds}")
    return measure, bounds


def _interval(estimate: Any, draws: Array, level: float, bounds: Bounds) -> Interval:
    """Return the estimate with its interval from draws of its error, clipped to the bounds."""
    clipped = (np.clip(end, *bounds) for end in ends(estimate, estimate + draws, level))
    low, high = (float(end) if draws.ndim == 1 else end for end in clipped)
    return Interval(estimate, low, high, level, len(draws))


def _draw(
    measure: Any,
    sides: Sequence[Sequence[Any]],
    w: Array | None,
    rng: np.random.Generator,
    replicates: int,
    known: Sequence[Any] | None = None,
) -> tuple[list[Any], list[Array]]:
    """Return the measure of every side on all rows, and draws of its error, (draws, ...).

    All sides are evaluated on the same subsamples. `known` are the values on all rows if they were
    computed before.
    """
    n = len(sides[0][-1])
    part = n // PARTS
    if _counts_pairs(measure, sides):
        estimates, values, part = _draw_pairs(sides, w, rng, replicates)
    else:
        estimates = list(known or [_on_rows(measure, side, slice(None), w) for side in sides])
        quarters = (quarter(n, rng) for _ in range(replicates))
        rounded = _rounded(measure, sides, w)
        if rounded is None:
            values = _draw_rows(measure, sides, quarters, w, estimates)
        else:
            draws = [[measure.of_bins(binned) for binned in _binned(rounded, q)] for q in quarters]
            values = [*np.array(draws).T]
    defined = ~np.any([np.isnan(v.reshape(len(v), -1)).any(axis=1) for v in values], axis=0)
    if 2 * defined.sum() <= replicates:
        raise UndefinedMeasureError(
            f"the measure must be defined in most of {replicates} subsamples of the rows, got "
            f"{defined.sum()} (pairwise fairness needs pairs to compare). Use more rows"
        )
    return estimates, [rescaled_draws(0.0, v[defined], n, part) for v in values]


def _draw_within(
    measure: Statistic,
    columns: Sequence[Any],
    control_features: Any,
    w: Array | None,
    rng: np.random.Generator,
    replicates: int,
) -> tuple[Any, Array]:
    """Return the mean of a measure over groups, and draws of its error."""
    found, left_out = measured_groups(measure, columns, control_features, w)
    require_groups(found, left_out)
    value = StratifiedValue(tuple(stratum for _, stratum in found), left_out)
    errors = []
    for group, stratum in found:
        *own, own_w = group.rows(*columns, w)
        try:
            _, (draws,) = _draw(measure, [own], own_w, rng, replicates, [stratum.value])
        except UndefinedMeasureError as error:
            raise ValueError(
                "control_features must leave pairs to compare in most subsamples of every group, "
                f"got too few in {stratum.label!r} ({stratum.rows} rows). Use fewer or coarser "
                "groups, or more rows"
            ) from error
        errors.append(draws)
    # Groups are drawn independently, so any draw of one may be combined with any of another.
    fewest = min(map(len, errors))
    draws = np.asarray(mean_over_groups([draws[:fewest] for draws in errors], value.weights))
    return value.mean, draws


def _draw_rows(
    measure: Statistic,
    sides: Sequence[Sequence[Any]],
    quarters: Iterable[NDArray[np.intp]],
    w: Array | None,
    estimates: Sequence[Any],
) -> list[Array]:
    """Return the measure of every side on the rows of each quarter, NaN if undefined."""
    draws = []
    # Warnings about the rows were given for all of them.
    with warnings.catch_warnings(action="ignore", category=FairnessWarning):
        for rows in quarters:
            try:
                draws.append([_on_rows(measure, side, repeated(rows, w), w) for side in sides])
            except UndefinedMeasureError:
                draws.append([np.full(np.shape(estimate), np.nan) for estimate in estimates])
    return [np.array(values, dtype=np.float64) for values in zip(*draws, strict=True)]


def _draw_pairs(
    sides: Sequence[Sequence[Any]], w: Array | None, rng: np.random.Generator, replicates: int
) -> tuple[list[float], list[Array], int]:
    """Return pairwise fairness of every side on all rows and on subsamples, and their size."""
    y, _, s = sides[0]
    n, predictions = len(y), [f for _, f, _ in sides]
    few = n < PARTS * PAIR_ROWS
    part = n // PARTS if few else PAIR_ROWS
    draws: Iterable[IntArray] = (
        quarter(n, rng) if few else rng.choice(n, part, replace=False, shuffle=False)
        for _ in range(replicates)
    )
    gaps = pairwise_on_subsamples(y, predictions, s, chain([slice(None)], draws), w)
    estimates, values = np.abs(gaps[:, 0]).tolist(), np.abs(gaps[:, 1:])
    if not few:
        # The absolute gap of a small subsample would fold noise at zero that all rows do not have.
        values = np.copysign(1.0, gaps[:, :1]) * gaps[:, 1:]
    return estimates, [*values], part


def _counts_pairs(measure: Any, sides: Sequence[Sequence[Any]]) -> bool:
    """Return whether pairs of all subsamples are counted at once.

    All sides must have the same truth and the same single sensitive column, and the measure must
    have the default options of `pairwise_fairness`.
    """
    if not isinstance(measure, Measure) or measure.interval != "pairs" or measure.options:
        return False
    y, _, s = sides[0]
    if any(column is None or column.ndim != 1 for side in sides for column in side):
        return False
    return all(np.array_equal(y, own_y) and np.array_equal(s, own_s) for own_y, _, own_s in sides)


def _rounded(
    measure: Any, sides: Sequence[Sequence[Any]], w: Array | None
) -> list[tuple[RoundedColumn, RoundedColumn]] | None:
    """Return the rounded columns of every side, or None if rows are evaluated instead."""
    if w is not None or not isinstance(measure, Measure) or not measure.can_bin:
        return None
    found = []
    for f, s in sides:
        if len(f) < BINNED_FROM or f.ndim != 1 or s.ndim != 1:
            return None
        own, other = RoundedColumn.from_column(f), RoundedColumn.from_column(s)
        if own is None or other is None:
            return None
        found.append((own, other))
    return found


def _binned(
    sides: Sequence[tuple[RoundedColumn, RoundedColumn]], rows: NDArray[np.intp]
) -> list[BinnedRows]:
    """Return the counts of the rows of a quarter, each four times, for every side."""
    return [count_rounded(f.take(rows), s.take(rows), PARTS) for f, s in sides]


def _on_rows(
    measure: Statistic, columns: Sequence[Array | None], rows: IntArray | slice, w: Array | None
) -> Any:
    """Return a measure of some rows, whose weights are scaled to the sum of all."""
    own = [None if column is None else column[rows] for column in columns]
    if w is None:
        return measure(*own)
    scale = w.sum(axis=0) / w[rows].sum(axis=0)
    return measure(*own, sample_weight=scale * w[rows])


def _drawn_evenly(w: Array) -> IntArray:
    """Return as many row numbers as there are rows, each in proportion to its weight, rounded."""
    share = float(w.max() / w.sum(axis=0))
    if share > _LARGEST_SHARE:
        raise ValueError(
            f"sample_weight must not give more than {_LARGEST_SHARE:.0%} of all weight to one row "
            f"if rows are shuffled, got {share:.1%}. Clip the largest weights, or use none."
        )
    middles = (np.arange(len(w)) + 0.5) * (w.sum(axis=0) / len(w))
    return order_statistics(np.arange(len(w), dtype=np.float64), w, middles).astype(np.intp)
