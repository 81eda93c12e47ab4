"""Values with intervals around them, from draws of the same value on quarters of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_numbers, require_length
from fkd.measures.subsamples import FEWEST_ROWS, corrected_draws, ends

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


def interval_of_draws(
    estimate: float | Array,
    values: Array,
    n: int,
    level: float,
    bounds: Bounds,
    part: int | None = None,
) -> Interval:
    """Return an estimate on n rows with the interval of its values on quarters, or on parts."""
    found = ends(estimate, corrected_draws(estimate, values, n, part), level)
    low, high = (np.clip(end, *bounds) for end in found)
    if values.ndim == 1:
        return Interval(estimate, float(low), float(high), level, len(values))
    return Interval(estimate, low, high, level, len(values))


def pair_of_draws(
    estimates: Sequence[float | Array],
    values: Sequence[Array],
    n: int,
    level: float,
    bounds: Bounds,
    part: int | None = None,
) -> IntervalPair:
    """Return two estimates and their difference, from values on the same quarters, or parts."""
    (a, b), (x, y) = estimates, values
    return IntervalPair(
        interval_of_draws(a, x, n, level, bounds, part),
        interval_of_draws(b, y, n, level, bounds, part),
        interval_of_draws(a - b, x - y, n, level, UNBOUNDED, part),
    )


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


def as_equal_rows(columns: Sequence[ArrayLike]) -> list[Array]:
    """Return the arguments as arrays of equally many rows."""
    if not columns:
        raise ValueError("columns must hold at least one array, got none")
    checked = [as_numbers(column, f"argument {i}") for i, column in enumerate(columns)]
    for i, column in enumerate(checked):
        if column.ndim == 0:
            raise ValueError(f"argument {i} must have rows, got a single number")
        require_length(column, len(checked[0]), f"argument {i}")
    return checked
