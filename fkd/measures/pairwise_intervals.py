"""Intervals of pairwise fairness, whose quarters are counted all at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.measures.intervals import (
    Interval,
    IntervalPair,
    as_equal_rows,
    check_draws,
    interval_of_draws,
    pair_of_draws,
    require_rows,
)
from fkd.measures.pair_parts import PART_ROWS, PARTS_FROM, gaps_of, pairwise_on_parts
from fkd.measures.pair_resampling import pairwise_on_quarters
from fkd.measures.repeated_rows import weighed
from fkd.measures.strata import UndefinedMeasureError


def pairwise_interval(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    """Return `bootstrap_interval(pairwise_fairness, ..., bounds=(0, 1))`, tens of times sooner.

    Quarters without pairs to compare are left out, as long as most have some; `replicates` of the
    result says how many were looked at. From 32,768 rows on parts of 8192 rows are drawn instead.

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
    sample_weight
        How many rows each row stands for (n,), >= 0; a quarter takes rows with their weights.

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
    w, (y, f, s) = weighed(sample_weight, *as_equal_rows((y_true, y_pred, sensitive)))
    require_rows(len(f))
    gaps = gaps_of(y, [f], s, w)
    (values,), part = _drawn(y, [f], s, gaps, replicates, rng, w)
    return interval_of_draws(abs(gaps[0]), _defined(values), len(f), level, (0.0, 1.0), part)


def pairwise_pair(
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0; a quarter takes rows with their weights.

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
    w, (y, f, g, s) = weighed(sample_weight, *as_equal_rows((y_true, first, second, sensitive)))
    require_rows(len(f))
    gaps = gaps_of(y, [f, g], s, w)
    values, part = _drawn(y, [f, g], s, gaps, replicates, rng, w)
    estimates = [abs(gap) for gap in gaps]
    return pair_of_draws(estimates, [*_defined(values)], len(f), level, (0.0, 1.0), part)


def _drawn(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    gaps: Sequence[float],
    replicates: int,
    rng: np.random.Generator,
    w: Array | None,
) -> tuple[Array, int | None]:
    """Return the values on quarters, or on parts of very many rows with the number of a part's."""
    if len(y) >= PARTS_FROM:
        return pairwise_on_parts(y, predictions, s, gaps, replicates, rng, w), PART_ROWS
    return pairwise_on_quarters(y, predictions, s, replicates, rng, w), None


def _defined(values: Array) -> Array:
    """Return the values, (..., quarters), of quarters with pairs to compare, which most must be."""
    defined = np.atleast_1d(~np.isnan(np.atleast_2d(values)).any(axis=0))
    if 2 * defined.sum() <= len(defined):
        raise UndefinedMeasureError(
            "sensitive must leave pairs to compare in both directions in most quarters of the "
            f"rows, got {defined.sum()} of {len(defined)}; more rows are needed"
        )
    return np.asarray(values[..., defined])
