"""Detection of sentinel values, codes such as 9999 for missing values in a numeric column."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import warn_user

# Common codes for a missing value: -9, 99, 888, 996, 1111, -99.9.
_CODE = re.compile(r"-[789]|-?(?:77+|88+|9[789]|99+[4-9]|([1-9])\1{3,}|99+\.9+)")
_MOST = 8  # most distinct values that are set apart
_TAIL = (20, 100)  # distances of which the log excess is the mean; a tenth of all in between
# Limits from simulations of columns without codes. False alarm rates: docs/explanation/data.md.
_ISOLATED, _ZERO, _CODED = 15.0, 8.0, 4.0
_LEAST_EXCESS = 0.35  # then 4, 8 and 15 units are 4, 16 and 190 times the largest distance
_LEAST_VALUES = 10  # fewest distinct values for limits of values that are not codes
_REPEATED = 3  # fewest rows with a short code
_SHOWN = 5


def sentinel_values(values: ArrayLike) -> tuple[Array, IntArray]:
    """Return the values of a column that look like codes for a missing value, and their rows.

    Up to eight distinct values (at most a third of them), those farthest from the median, are set
    apart one after the other. The distance of each from the median of the rest is compared with the
    largest distance of the rest on a log scale, in units of the mean log excess of the rest's
    largest distances (the Hill estimator, at least 0.35), so that a heavy tail widens the unit.
    A value is suspicious if this quotient exceeds

    - 4 for a code: 7s or 8s (77, 888), 97 to 99, two or more 9s and a last digit from 4 to 9 (996),
      four or more equal digits (1111), two or more 9s with further 9s after the point (99.9), these
      with a minus sign, and -7, -8, -9;
    - 8 for 0, and 15 for any other value, if the rest has at least ten distinct values.

    A value farther away than a suspicious one is suspicious too. If at most eight distinct values
    are negative, all of these are codes and at least two other values exist, they are suspicious at
    any distance. A code between -98 and 99 counts only if three rows hold it; for the quotient, one
    row is enough in a column with decimals.

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
    decimals = bool((u != np.floor(u)).any())
    negative = int(np.searchsorted(u, 0.0))
    low, high = 0, len(u)  # the rest is u[low:high]
    if 0 < negative <= _MOST and negative < len(u) - 1:
        low = negative if all(_is_code(v, column) for v in u[:negative]) else 0
    first, last = low, high
    for _ in range(min(_MOST, len(u) // 3)):
        centre = _median(u[first:last])
        if u[last - 1] - centre >= centre - u[first]:
            last -= 1
            value = u[last]
        else:
            value = u[first]
            first += 1
        if _is_code(value, column, lone=decimals):
            limit = _CODED
        elif last - first >= _LEAST_VALUES:
            limit = _ISOLATED if value else _ZERO
        else:
            continue
        if _isolation(value, u[first:last]) > limit:
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


def _is_code(value: float, column: Array, *, lone: bool = False) -> bool:
    """Return whether a value is a code; a short one counts in three rows, or in one if `lone`."""
    if _CODE.fullmatch(shown_values([value])) is None:
        return False
    short = -99 < value < 100
    return lone or not short or bool(np.count_nonzero(column == value) >= _REPEATED)


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
            warn_user(
                f"{where} holds {shown_values(found)} in {len(rows):,} of {len(column):,} rows, "
                "far from its other values. Drop these rows if the values stand for missing ones: "
                "they hide the dependence among all other rows"
            )
