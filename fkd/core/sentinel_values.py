"""Detection of codes such as 9999 that stand for missing values in a numeric column."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray
from fkd.core.cautions import caution

# Numbers that people and programs write for a missing value: 99, 998, 7777, -9, -88.
_CODE = re.compile(r"-[789]|-?(?:77+|88+|9+[789])")
_MOST = 5  # distinct values that are set apart
_TAIL = (20, 100)  # distances of which the log excess is the mean; a tenth of all in between
# Quotients from simulations: of honest columns fewer than 1 in 1,000 are stopped, among them
# Pareto columns of tail index 1 with 20 rows.
_ISOLATED, _CODED = 15.0, 4.0
_LEAST_EXCESS = 0.35  # a code is e^1.4 = 4 times as far away as the rest, any other value 190 times
_LEAST_VALUES = 10  # distinct values from which the tail of a column can be judged without a code
_REPEATED = 3  # rows that hold a short code
_SHOWN = 5


def sentinel_values(values: ArrayLike) -> tuple[Array, IntArray]:
    """Return the values of a column that look like codes for a missing value, and their rows.

    Up to five distinct values, those farthest from the median, are set apart one after the other,
    and the distance of each from the median of the rest is compared with the largest distance of
    the rest on a log scale, in units of the mean log excess of the rest's largest distances (the
    Hill estimator, at least 0.35), so that a heavy tail widens the unit. A value is suspicious if
    this quotient exceeds 15, or if it exceeds 4 and the value is a code: 7s, 8s or 9s, or 9s
    followed by a 7 or 8; a value farther away than a suspicious one is suspicious too. A negative
    code is also suspicious if all other values are at least 0, and a code between -98 and 99 counts
    only if three rows hold it or if other values have decimals.

    Parameters
    ----------
    values
        One column (n,); NaN is ignored. Each row counts once, whatever its weight.

    Returns
    -------
    values, rows
        The suspicious values in ascending order, the row numbers that hold them; empty if none.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.core.sentinel_values import sentinel_values
    >>> age = np.append(np.arange(18.0, 80.0), [9999, 40, 99999])
    >>> found, rows = sentinel_values(age)
    >>> print(found, rows)
    [ 9999. 99999.] [62 64]
    """
    column = np.asarray(values, dtype=np.float64)
    u = np.unique(column)
    u = u[np.isfinite(u)]
    negative = int(np.searchsorted(u, 0.0))
    low, high = 0, len(u)  # the rest is u[low:high]
    if 0 < negative <= _MOST and negative < len(u) - 1:
        low = negative if all(_is_code(v, u, column) for v in u[:negative]) else 0
    first, last = low, high
    for _ in range(min(_MOST, len(u) // 3)):
        centre = _median(u[first:last])
        if u[last - 1] - centre >= centre - u[first]:
            last -= 1
            value = u[last]
        else:
            value = u[first]
            first += 1
        quotient = _isolation(value, u[first:last])
        enough = last - first >= _LEAST_VALUES
        if (quotient > _ISOLATED and enough) or (quotient > _CODED and _is_code(value, u, column)):
            low, high = first, last
    found = np.concatenate([u[:low], u[high:]])
    return found, np.flatnonzero(np.isin(column, found)) if len(found) else np.empty(0, np.int64)


def _isolation(value: float, rest: Array) -> float:
    """Return the log distance of a value beyond the rest in units of the rest's log excess."""
    k = len(rest)
    least, most = _TAIL
    m = min(max(least, k // 10), most, k // 2)
    ends = rest if k <= 2 * (m + 1) else np.concatenate([rest[: m + 1], rest[-m - 1 :]])
    centre = _median(rest)
    d = np.sort(np.abs(ends - centre))[::-1][: m + 1]
    logs = np.log(d[d > 0])
    if not len(logs):  # a single value
        return 0.0
    excess = float(np.mean(logs[:-1] - logs[-1])) if len(logs) > 1 else 0.0
    return float(np.log(abs(value - centre)) - logs[0]) / max(excess, _LEAST_EXCESS)


def _median(ascending: Array) -> float:
    k = len(ascending)
    # Halved first: the sum of two large values may overflow.
    return float(0.5 * ascending[(k - 1) // 2] + 0.5 * ascending[k // 2])


def _is_code(value: float, u: Array, column: Array) -> bool:
    """Return whether a value is a code; a short one occurs by chance in counts, hence the rows."""
    if value != np.floor(value) or _CODE.fullmatch(f"{value:.0f}") is None:
        return False
    if not -99 < value < 100:
        return True
    return bool((u != np.floor(u)).any() or np.count_nonzero(column == value) >= _REPEATED)


def shown_values(found: Sequence[float] | Array) -> str:
    """Return a few values as text, with all digits."""
    listed = ", ".join(repr(float(value)).removesuffix(".0") for value in found[:_SHOWN])
    return listed + (", ..." if len(found) > _SHOWN else "")


def warn_sentinels(name: str, data: Any, labels: Sequence[str] = ()) -> None:
    """Warn about each column that holds suspicious values.

    Parameters
    ----------
    name
        The argument that was passed.
    data
        One column (n,), or several (n, l), of finite numbers.
    labels
        Names of the columns, if there are several.
    """
    columns = np.asarray(data).reshape(len(data), -1).T
    for j, column in enumerate(columns):
        found, rows = sentinel_values(column)
        if len(found):
            where = f"{name} column {labels[j]}" if labels else name
            caution(
                f"{where} holds {shown_values(found)} in {len(rows):,} of {len(column):,} rows, "
                "far from its other values. Drop these rows if the values stand for missing ones: "
                "they hide the dependence among all other rows"
            )
