"""Confidence intervals of any measure by taking it on random quarters of the rows."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.border import as_numbers, require_length
from fkd.core.cautions import FairnessWarning
from fkd.measures.pair_resampling import pairwise_on_quarters
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.subsamples import FEWEST_ROWS, corrected_draws, ends, quarter, repeated

T = TypeVar("T")
Measure = Callable[..., float | Array]
Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True)
class Interval:
    """A value with an interval around it, read from the value on quarters of the rows.

    Parameters
    ----------
    estimate
        The value on all rows, a float or one per column (l,).
    low, high
        Ends of the interval, which holds the estimate.
    level
        Share of the draws between them.
    replicates
        How many quarters were looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import bootstrap_interval, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = bootstrap_interval(gdp, f, s, rng=rng, replicates=50)
    >>> bool(found.low <= found.estimate <= found.high)
    True
    """

    estimate: float | Array
    low: float | Array
    high: float | Array
    level: float
    replicates: int


@dataclass(frozen=True)
class IntervalPair:
    """One measure of two predictions on the same rows, and the first minus the second.

    Parameters
    ----------
    first, second
        Of either prediction.
    difference
        Of the first minus the second, on the same quarters.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import bootstrap_pair, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> pair = bootstrap_pair(gdp, (f, s), (f - s, s), rng=rng, replicates=50)
    >>> bool(pair.difference.low > 0)
    True
    """

    first: Interval
    second: Interval
    difference: Interval


def bootstrap_interval(
    measure: Measure,
    *columns: ArrayLike,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
) -> Interval:
    """Return measure(*columns) with an interval for its mean over fresh samples of as many rows.

    The measure is taken on random quarters of the rows without replacement: rows that are drawn
    twice, as in the plain bootstrap, look like dependence to HGR. Every row of a quarter counts
    four times, so that bandwidths stay those of all rows. How far the draws lie from their own
    mean, on the scale of n rows (`fkd.measures.subsamples`), is how far the interval reaches from
    the estimate, which is hence always inside.

    Parameters
    ----------
    measure
        Any function of row-aligned arrays, such as `gdp` or `pairwise_fairness`; options go in by
        `functools.partial`.
    columns
        Its positional arguments, all with the same number of rows, at least eight.
    rng
        Source of the quarters.
    replicates
        Number of quarters; 1000 give the ends of a 95 % interval to about a twentieth of its
        length.
    level
        Share of the draws inside the interval, in (0, 1).
    bounds
        Least and greatest value that the measure can have, where the interval ends at the latest.

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import bootstrap_interval, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = bootstrap_interval(gdp, f, s, rng=rng, replicates=50, bounds=(0, np.inf))
    >>> bool(found.low > 0.1)
    True
    """
    checked = _as_rows(columns)

    def statistic(rows: NDArray[np.intp]) -> float | Array:
        return measure(*(column[rows] for column in checked))

    return _on_quarters(statistic, len(checked[0]), rng, replicates, level, bounds)


def bootstrap_difference(
    measure: Measure,
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return measure(*first) - measure(*second) with the interval of `bootstrap_interval`.

    Both sides see the same quarters, so what the two predictions have in common cancels.

    Parameters
    ----------
    measure
        Any function of row-aligned arrays.
    first, second
        Its positional arguments for either prediction, such as (y_pred, sensitive_features).
    rng
        Source of the quarters.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import bootstrap_difference, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = bootstrap_difference(gdp, (f, s), (f - s, s), rng=rng, replicates=50)
    >>> bool(found.low > 0)
    True
    """
    options: dict[str, Any] = {"rng": rng, "replicates": replicates, "level": level}
    return bootstrap_pair(measure, first, second, **options).difference


def bootstrap_pair(
    measure: Measure,
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
) -> IntervalPair:
    """Return either side with its `bootstrap_interval`, and the `bootstrap_difference` of the two.

    All three from the same quarters, at the price of two intervals. `bounds` are those of the
    measure, not of the difference.

    Parameters
    ----------
    measure
        Any function of row-aligned arrays.
    first, second
        Its positional arguments for either prediction, such as (y_pred, sensitive_features).
    rng
        Source of the quarters.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).
    bounds
        Least and greatest value that the measure can have.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import bootstrap_pair, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> pair = bootstrap_pair(gdp, (f, s), (f - s, s), rng=rng, replicates=50)
    >>> bool(pair.first.estimate > pair.second.estimate)
    True
    """
    check_draws(replicates, level)
    checked = _as_rows((*first, *second))
    n = len(checked[0])
    require_rows(n)
    sides = checked[: len(first)], checked[len(first) :]

    def statistic(rows: NDArray[np.intp]) -> list[float | Array]:
        return [measure(*(column[rows] for column in side)) for side in sides]

    estimates = statistic(np.arange(n))
    draws = _drawn(statistic, n, rng, replicates)
    values = [np.array([draw[i] for draw in draws]) for i in range(2)]
    return _pair(estimates, values, n, level, bounds)


def pairwise_interval(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return `bootstrap_interval(pairwise_fairness, ..., bounds=(0, 1))`, tens of times sooner.

    Quarters without pairs to compare are left out, as long as most have some; `replicates` of the
    result says how many were looked at.

    Parameters
    ----------
    y_true, y_pred, sensitive
        Truth, predictions, one sensitive column, each (n,), n >= 8.
    rng
        Source of the quarters.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import pairwise_interval
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = pairwise_interval(rng.normal(size=400), f, s, rng=rng, replicates=50)
    >>> bool(found.low > 0.5)
    True
    """
    check_draws(replicates, level)
    y, f, s = _as_rows((y_true, y_pred, sensitive))
    require_rows(len(f))
    estimate = pairwise_fairness(y, f, s)
    (values,) = pairwise_on_quarters(y, [f], s, replicates, rng)
    return interval_of_draws(estimate, _defined(values), len(f), level, (0.0, 1.0))


def pairwise_pair(
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> IntervalPair:
    """Return `bootstrap_pair` of pairwise fairness of two predictions, tens of times sooner.

    Quarters without pairs to compare are left out, as in `pairwise_interval`.

    Parameters
    ----------
    y_true
        Truth (n,).
    first, second
        Two predictions (n,).
    sensitive
        One sensitive column (n,).
    rng
        Source of the quarters.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import pairwise_pair
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> y = rng.normal(size=400)
    >>> pair = pairwise_pair(y, f, y, s, rng=rng, replicates=50)
    >>> bool(pair.difference.low > 0)
    True
    """
    check_draws(replicates, level)
    y, f, g, s = _as_rows((y_true, first, second, sensitive))
    require_rows(len(f))
    values = pairwise_on_quarters(y, [f, g], s, replicates, rng)
    estimates = [pairwise_fairness(y, one, s) for one in (f, g)]
    return _pair(estimates, [*_defined(values)], len(f), level, (0.0, 1.0))


def _pair(
    estimates: Sequence[float | Array],
    values: Sequence[Array],
    n: int,
    level: float,
    bounds: Bounds,
) -> IntervalPair:
    """Return two estimates and their difference, from values on the same quarters."""
    return IntervalPair(
        interval_of_draws(estimates[0], values[0], n, level, bounds),
        interval_of_draws(estimates[1], values[1], n, level, bounds),
        interval_of_draws(estimates[0] - estimates[1], values[0] - values[1], n, level, UNBOUNDED),
    )


def _defined(values: Array) -> Array:
    """Return the values, (..., quarters), of quarters with pairs to compare, which most must be."""
    defined = np.atleast_1d(~np.isnan(np.atleast_2d(values)).any(axis=0))
    if 2 * defined.sum() <= len(defined):
        raise ValueError(
            "sensitive must leave pairs to compare in both directions in most quarters of the "
            f"rows, got {defined.sum()} of {len(defined)}; more rows are needed"
        )
    return np.asarray(values[..., defined])


def check_draws(replicates: int, level: float) -> None:
    """Refuse what gives no interval."""
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def require_rows(n: int) -> None:
    """Refuse rows whose quarters are too small to measure anything."""
    if n < FEWEST_ROWS:
        raise ValueError(f"argument 0 must have at least {FEWEST_ROWS} rows to resample, got {n}")


def _on_quarters(
    statistic: Callable[[NDArray[np.intp]], float | Array],
    n: int,
    rng: np.random.Generator,
    replicates: int,
    level: float,
    bounds: Bounds,
) -> Interval:
    """Interval of a statistic of row numbers."""
    check_draws(replicates, level)
    require_rows(n)
    estimate = statistic(np.arange(n))
    return interval_of_draws(
        estimate, np.array(_drawn(statistic, n, rng, replicates)), n, level, bounds
    )


def _drawn(
    statistic: Callable[[NDArray[np.intp]], T], n: int, rng: np.random.Generator, replicates: int
) -> list[T]:
    """Return a statistic of row numbers on random quarters of n rows."""
    with warnings.catch_warnings():
        # What there is to say of the rows was said of all of them.
        warnings.simplefilter("ignore", FairnessWarning)
        return [statistic(repeated(quarter(n, rng))) for _ in range(replicates)]


def interval_of_draws(
    estimate: float | Array, values: Array, n: int, level: float, bounds: Bounds
) -> Interval:
    """Return an estimate on n rows with the interval that its values on quarters give."""
    found = ends(estimate, corrected_draws(estimate, values, n), level)
    low, high = (np.clip(end, *bounds) for end in found)
    if values.ndim == 1:
        return Interval(estimate, float(low), float(high), level, len(values))
    return Interval(estimate, low, high, level, len(values))


def _as_rows(columns: Sequence[ArrayLike]) -> list[Array]:
    """Return the arguments as arrays of equally many rows."""
    if not columns:
        raise ValueError("columns must hold at least one array, got none")
    checked = [as_numbers(column, f"argument {i}") for i, column in enumerate(columns)]
    for i, column in enumerate(checked):
        if column.ndim == 0:
            raise ValueError(f"argument {i} must have rows, got a single number")
        require_length(column, len(checked[0]), f"argument {i}")
    return checked
