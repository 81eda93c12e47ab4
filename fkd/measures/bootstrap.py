"""Confidence intervals of any measure by taking it on random quarters of the rows."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.cautions import FairnessWarning
from fkd.measures.intervals import (
    UNBOUNDED,
    Bounds,
    Interval,
    IntervalPair,
    as_equal_rows,
    check_draws,
    interval_of_draws,
    pair_of_draws,
    require_rows,
)
from fkd.measures.pairwise_intervals import pairwise_interval, pairwise_pair
from fkd.measures.repeated_rows import weighed
from fkd.measures.subsamples import measured_on, quarter, repeated

# Those that stand in modules of their own were here once.
__all__ = [
    "UNBOUNDED",
    "Bounds",
    "Interval",
    "IntervalPair",
    "Measure",
    "bootstrap_difference",
    "bootstrap_interval",
    "bootstrap_pair",
    "check_draws",
    "interval_of_draws",
    "pairwise_interval",
    "pairwise_pair",
    "require_rows",
]

T = TypeVar("T")
Measure = Callable[..., float | Array]


def bootstrap_interval(
    measure: Measure,
    *columns: ArrayLike,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0, which the measure gets by this keyword. Rows
        are drawn with their weights, a heavy one as one row; those of a quarter are scaled to the
        sum of all, so that bandwidths stay.

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
    w, checked = weighed(sample_weight, *as_equal_rows(columns))

    def statistic(rows: NDArray[np.intp]) -> float | Array:
        return cast("float | Array", measured_on(measure, checked, rows, w))

    n = len(checked[0])
    check_draws(replicates, level)
    require_rows(n)
    estimate = statistic(np.arange(n))
    draws = np.array(_drawn(statistic, n, rng, replicates, w))
    return interval_of_draws(estimate, draws, n, level, bounds)


def bootstrap_difference(
    measure: Measure,
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0, which the measure gets by this keyword; rows
        are drawn with their weights, a heavy one as one row.

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
    return bootstrap_pair(measure, first, second, sample_weight=sample_weight, **options).difference


def bootstrap_pair(
    measure: Measure,
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0, which the measure gets by this keyword; rows
        are drawn with their weights, a heavy one as one row.

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
    w, checked = weighed(sample_weight, *as_equal_rows((*first, *second)))
    n = len(checked[0])
    require_rows(n)
    sides = checked[: len(first)], checked[len(first) :]

    def statistic(rows: NDArray[np.intp]) -> list[float | Array]:
        return [measured_on(measure, side, rows, w) for side in sides]

    estimates = statistic(np.arange(n))
    draws = _drawn(statistic, n, rng, replicates, w)
    values = [np.array([draw[i] for draw in draws]) for i in range(2)]
    return pair_of_draws(estimates, values, n, level, bounds)


def _drawn(
    statistic: Callable[[NDArray[np.intp]], T],
    n: int,
    rng: np.random.Generator,
    replicates: int,
    w: Array | None,
) -> list[T]:
    """Return a statistic of row numbers on random quarters of n rows."""
    with warnings.catch_warnings():
        # What there is to say of the rows was said of all of them.
        warnings.simplefilter("ignore", FairnessWarning)
        return [statistic(repeated(quarter(n, rng), w)) for _ in range(replicates)]
