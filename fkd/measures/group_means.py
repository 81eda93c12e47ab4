"""Means of columns in groups of rows along one sensitive attribute or a pair of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_numbers, require_length
from fkd.measures.quantile_groups import merged_codes, quantile_codes
from fkd.measures.repeated_rows import weighed
from fkd.measures.strata import LEAST_ROWS, LeftOutStratum

DECILES = 10
THIRDS = 3
# A mean of fewer rows is no group's: they are counted with their neighbours.
LEAST_IN_GROUP = 5


@dataclass(frozen=True)
class GroupMeans:
    """Rows whose s lie between two values, with the mean of each column among them.

    Parameters
    ----------
    ranges
        Least and greatest value of each sensitive column that the group is made by.
    rows
        How many they are.
    mean, low, high
        Of each column (k,), with the ends of its interval (Student's t).
    weight
        How many rows they stand for; None is as many as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import GroupMeans
    >>> young = GroupMeans(((18.0, 30.0),), 40, np.array([2.5]), np.array([2.0]), np.array([3.0]))
    >>> young.ranges[0]
    (18.0, 30.0)
    """

    ranges: tuple[tuple[float, float], ...]
    rows: int
    mean: Array
    low: Array
    high: Array
    weight: float | None = None


def means_by_quantile(
    values: ArrayLike,
    sensitive: ArrayLike,
    *,
    groups: int = DECILES,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[GroupMeans, ...]:
    """Return the mean of every column in groups of like size along s.

    Equal values of s stay together, so that groups may be fewer, or of unlike size.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors.
    sensitive
        One column (n,), n >= 5.
    groups
        How many groups there are at most.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means, groups and windows are those of rows
        that are there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    tuple of GroupMeans
        The groups, from the least s to the greatest, each of at least five rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import means_by_quantile
    >>> age = np.arange(100.0)
    >>> young, old = means_by_quantile(2 * age, age, groups=2)
    >>> print(young.rows, young.ranges, round(young.mean[0], 6))
    50 ((0.0, 49.0),) 49.0
    """
    w, (V, s) = weighed(sample_weight, *_checked(values, [sensitive]))
    if len(s) < LEAST_IN_GROUP:
        raise ValueError(f"sensitive must have at least {LEAST_IN_GROUP} rows, got {len(s)}")
    codes = merged_codes(quantile_codes(s, groups, w), LEAST_IN_GROUP)
    return tuple(
        _group(V, [s], np.flatnonzero(codes == code), level, w)
        for code in range(int(codes.max(axis=0)) + 1)
    )


def means_by_pair(
    values: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: int = THIRDS,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[GroupMeans, ...], tuple[LeftOutStratum, ...]]:
    """Return the mean of every column where both sensitive columns lie in a group of theirs.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors.
    first, second
        Two sensitive columns (n,), each cut by itself.
    groups
        How many groups each column is cut into at most.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means and groups are those of rows that are
        there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    tuple
        The groups of at least 30 rows, those along `second` side by side; then the others with
        what they lack.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import means_by_pair
    >>> age, income = np.repeat(np.arange(20.0), 20), np.tile(np.arange(20.0), 20)
    >>> groups, left_out = means_by_pair(age + income, age, income, groups=2)
    >>> [round(float(group.mean[0]), 6) for group in groups]
    [9.0, 19.0, 19.0, 29.0]
    >>> left_out
    ()
    """
    w, (V, a, b) = weighed(sample_weight, *_checked(values, [first, second]))
    rows, columns = quantile_codes(a, groups, w), quantile_codes(b, groups, w)
    found, left_out = [], []
    for i in range(int(rows.max(axis=0)) + 1):
        for j in range(int(columns.max(axis=0)) + 1):
            index = np.flatnonzero((rows == i) & (columns == j))
            if len(index) >= LEAST_ROWS:
                found.append(_group(V, [a, b], index, level, w))
            else:
                label = " / ".join(
                    _ends(s[codes == code]) for s, codes, code in ((a, rows, i), (b, columns, j))
                )
                left_out.append(LeftOutStratum(label, len(index), f"fewer than {LEAST_ROWS} rows"))
    return tuple(found), tuple(left_out)


def _checked(values: ArrayLike, sensitive: Sequence[ArrayLike]) -> list[Array]:
    """Return the values as a table, then columns of equally many rows."""
    V = as_numbers(values, "values")
    V = V[:, None] if V.ndim == 1 else V
    columns = [as_column(s, "sensitive") for s in sensitive]
    for s in columns:
        require_length(s, len(V), "sensitive")
    return [V, *columns]


def _group(
    V: Array,
    sensitive: Sequence[Array],
    index: NDArray[np.intp],
    level: float,
    w: Array | None,
) -> GroupMeans:
    """Return the means of some rows."""
    own, n = V[index], len(index)
    quantile = stdtrit(n - 1, (1 + level) / 2)
    if w is None:
        weight, mean = None, own.mean(axis=0)
        reach = quantile * own.std(axis=0, ddof=1) / np.sqrt(n)
    else:
        weight = float(w[index].sum(axis=0))
        shares = w[index] / weight
        mean = shares @ own
        # Of equal weights this is the line above.
        reach = quantile * np.sqrt(n / (n - 1) * (shares**2 @ (own - mean) ** 2))
    ranges = tuple((float(s[index].min(axis=0)), float(s[index].max(axis=0))) for s in sensitive)
    return GroupMeans(ranges, n, mean, mean - reach, mean + reach, weight)


def _ends(s: Array) -> str:
    """Return from where to where a group reaches."""
    return f"{s.min(axis=0):g} to {s.max(axis=0):g}"
