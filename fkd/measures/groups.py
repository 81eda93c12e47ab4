"""Groups of rows: measures within groups, and means by quantiles of a sensitive column.

A prediction may depend on s through columns that are allowed to decide, such as hours worked.
Within groups of rows that agree in these control columns, only the dependence beyond them is left.
`by_stratum` computes a measure in each group and the mean over groups, weighted by rows. Groups
that are too small to measure are left out and reported.

`means_by_quantile` and `means_by_pair` cut one or two sensitive columns into groups of equal size
and return the mean of other columns, such as errors, in each of them, with Student's t intervals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from fkd.core.arrays import AnyArray, Array
from fkd.core.validation import (
    as_column,
    as_numbers,
    is_missing,
    refuse_masked,
    require_length,
    weight_vector,
)
from fkd.measures.columns import drop_zero_weights, is_constant, quantiles_of, row_arrays

# Numbers with more distinct values than this are cut into quantile groups.
MOST_LEVELS = 10
QUANTILE_GROUPS = 5
DECILES = 10
THIRDS = 3
# With fewer rows the value of every measure is mostly noise.
LEAST_ROWS = 30
# Smaller quantile groups are merged with the previous one.
LEAST_IN_GROUP = 5
# Smallest sum of weights for which bandwidths are defined.
_LEAST_WEIGHT = 2
_SHOWN = 3  # number of groups listed in an error
_NAME = "control_features"
_REMEDY = "drop these rows, or assign them a separate level"


class UndefinedMeasureError(ValueError):
    """The measure is undefined on these rows."""


@dataclass(frozen=True)
class ControlGroup:
    """Positions of the rows that have the same level in every control column."""

    label: str
    index: NDArray[np.intp]

    def rows(self, *columns: Array | None) -> list[Any]:
        """Return the rows of the group, for each column. None stays None."""
        return [None if column is None else column[self.index] for column in columns]


@dataclass(frozen=True)
class Stratum:
    """A measure on one group of rows.

    Parameters
    ----------
    label
        Label of the group.
    rows
        Number of rows.
    value
        The measure, a float or one per sensitive column.
    weight
        Sum of the weights. None without weights.

    Examples
    --------
    >>> from fkd.measures import Stratum
    >>> Stratum("cooks", 120, 0.25).rows
    120
    """

    label: str
    rows: int
    value: float | Array
    weight: float | None = None


@dataclass(frozen=True)
class LeftOutStratum:
    """A group of rows on which the measure is undefined, with the reason."""

    label: str
    rows: int
    why: str


@dataclass(frozen=True)
class StratifiedValue:
    """A measure within each group, and the groups that are left out.

    Parameters
    ----------
    strata
        Groups with their values.
    left_out
        Groups on which the measure is undefined, with the reason.

    Examples
    --------
    >>> from fkd.measures import StratifiedValue, Stratum
    >>> groups = StratifiedValue((Stratum("a", 100, 0.5), Stratum("b", 300, 0.1)), ())
    >>> round(groups.mean, 9)
    0.2
    """

    strata: tuple[Stratum, ...]
    left_out: tuple[LeftOutStratum, ...]

    @property
    def rows(self) -> int:
        """Number of rows in all measured groups."""
        return sum(stratum.rows for stratum in self.strata)

    @property
    def weights(self) -> tuple[float, ...]:
        """Share of each group in the measured rows, or in their weights."""
        sizes = [group.rows if group.weight is None else group.weight for group in self.strata]
        return tuple(size / sum(sizes) for size in sizes)

    @property
    def mean(self) -> float | Array:
        """The mean over groups, weighted by their rows."""
        return mean_over_groups([stratum.value for stratum in self.strata], self.weights)


@dataclass(frozen=True)
class GroupMeans:
    """Means of columns over the rows whose s lies between two values.

    Parameters
    ----------
    ranges
        Smallest and largest value of each sensitive column that defines the group.
    rows
        Number of rows.
    mean, low, high
        Mean of each column (k,), with the ends of its interval (Student's t).
    weight
        Sum of the weights. None without weights.

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


def by_stratum(
    measure: Callable[..., float | Array],
    *columns: ArrayLike | None,
    control_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> StratifiedValue:
    """Return a measure within each group of the control columns.

    A group is left out and reported with the reason if it has fewer than 30 rows, regardless of
    weights, if a sensitive column is constant in it, or if pairwise fairness finds no pairs in it.

    Parameters
    ----------
    measure
        Any measure, such as `gdp`. Options are set with `functools.partial`.
    columns
        Its positional arguments, the sensitive columns last. None is passed on as None.
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        distinct numbers are levels. More numbers are cut at their quintiles.
    sample_weight
        Weights (n,), >= 0, used for quintiles and group weights, and passed to the measure as this
        keyword.

    Returns
    -------
    StratifiedValue
        Label, rows and value of each group, the groups left out, and `mean`, weighted by rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import by_stratum, gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> job = rng.integers(2, size=400)
    >>> found = by_stratum(gdp, f, s, control_features=job)
    >>> [stratum.label for stratum in found.strata]
    ['0', '1']
    """
    rows = row_arrays(columns)
    w = weight_vector(sample_weight, len(rows[-1]))
    found, left_out = measured_groups(measure, rows, control_features, w)
    require_groups(found, left_out)
    return StratifiedValue(tuple(stratum for _, stratum in found), left_out)


def means_by_quantile(
    values: ArrayLike,
    sensitive: ArrayLike,
    *,
    groups: int = DECILES,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[GroupMeans, ...]:
    """Return the mean of every column in quantile groups of s.

    Equal values of s are never split, so there may be fewer groups, of different sizes.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors.
    sensitive
        One column (n,), n >= 5.
    groups
        Largest number of groups.
    level
        Nominal coverage of the intervals, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Means and groups are those of repeated rows. Intervals treat a row
        of any weight as one observation.

    Returns
    -------
    tuple of GroupMeans
        Groups of at least five rows, ordered by s.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import means_by_quantile
    >>> age = np.arange(100.0)
    >>> young, old = means_by_quantile(2 * age, age, groups=2)
    >>> print(young.rows, young.ranges, round(young.mean[0], 6))
    50 ((0.0, 49.0),) 49.0
    """
    w, (V, s) = drop_zero_weights(sample_weight, *_as_columns(values, [sensitive]))
    if len(s) < LEAST_IN_GROUP:
        raise ValueError(f"sensitive must have at least {LEAST_IN_GROUP} rows, got {len(s)}")
    codes = _merged_codes(quantile_codes(s, groups, w))
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
    """Return the mean of every column in each combination of quantile groups of two columns.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors.
    first, second
        Two sensitive columns (n,), each cut separately.
    groups
        Largest number of groups per column.
    level
        Nominal coverage of the intervals, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Means and groups are those of repeated rows. Intervals treat a row
        of any weight as one observation.

    Returns
    -------
    tuple
        The groups of at least 30 rows, ordered by `first`, then by `second`, and the groups left
        out with the reason.

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
    w, (V, a, b) = drop_zero_weights(sample_weight, *_as_columns(values, [first, second]))
    rows, columns = quantile_codes(a, groups, w), quantile_codes(b, groups, w)
    found, left_out = [], []
    for i in range(int(rows.max(axis=0)) + 1):
        for j in range(int(columns.max(axis=0)) + 1):
            index = np.flatnonzero((rows == i) & (columns == j))
            if len(index) >= LEAST_ROWS:
                found.append(_group(V, [a, b], index, level, w))
            else:
                parts = (a[rows == i], b[columns == j])
                label = " / ".join(f"{s.min(axis=0):g} to {s.max(axis=0):g}" for s in parts)
                left_out.append(LeftOutStratum(label, len(index), f"fewer than {LEAST_ROWS} rows"))
    return tuple(found), tuple(left_out)


def measured_groups(
    measure: Callable[..., Any], columns: Sequence[Any], control_features: Any, w: Array | None
) -> tuple[list[tuple[ControlGroup, Any]], tuple[LeftOutStratum, ...]]:
    """Return each group with its `Stratum`, and the groups on which the measure is undefined.

    Parameters
    ----------
    measure, columns, control_features
        As for `by_stratum`; the columns are arrays or None. The measure may return any value.
    w
        Weights (n,), or None.
    """
    found, left_out = [], []
    for group in control_groups(control_features, len(columns[-1]), w):
        *rows, group_w = group.rows(*columns, w)
        n, weight = len(group.index), None if group_w is None else float(group_w.sum(axis=0))
        why = _undefined_reason(rows[-1], weight)
        if not why:
            try:
                value = measure(*rows) if w is None else measure(*rows, sample_weight=group_w)
                found.append((group, Stratum(group.label, n, value, weight)))
                continue
            except UndefinedMeasureError:
                why = "no pairs to compare in both directions"
        left_out.append(LeftOutStratum(group.label, n, why))
    return found, tuple(left_out)


def _undefined_reason(S: Array, weight: float | None) -> str:
    """Return why measures are undefined on the rows of a group, or an empty string."""
    if len(S) < LEAST_ROWS:
        return f"fewer than {LEAST_ROWS} rows"
    if weight is not None and weight < _LEAST_WEIGHT:
        return f"weights that sum to less than {_LEAST_WEIGHT}"
    if any(is_constant(s) for s in S.reshape(len(S), -1).T):
        return "sensitive column constant"
    return ""


def require_groups(found: Sequence[Any], left_out: Sequence[LeftOutStratum]) -> None:
    """Raise if all groups are left out."""
    if found:
        return
    reasons = []
    for why in dict.fromkeys(group.why for group in left_out):
        names = [repr(group.label) for group in left_out if group.why == why]
        more = ", ..." if len(names) > _SHOWN else ""
        reasons.append(f"{len(names)} with {why} ({', '.join(names[:_SHOWN])}{more})")
    raise ValueError(
        f"control_features must leave a group of at least {LEAST_ROWS} rows in which "
        f"sensitive_features vary, got none of {len(left_out)}: {'; '.join(reasons)}. Use fewer "
        "or coarser groups, more rows, or a column that does not determine sensitive_features"
    )


def mean_over_groups(values: Sequence[float | Array], weights: Sequence[float]) -> float | Array:
    """Return the sum of weight times value. A single value of weight one is returned exactly."""
    first, *others = [weight * value for weight, value in zip(weights, values, strict=True)]
    return sum(others, start=first)


def control_groups(control_features: Any, n: int, w: Array | None = None) -> list[ControlGroup]:
    """Return the groups of n rows, in the order of their levels.

    Parameters
    ----------
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        distinct numbers are levels. More numbers are cut at their quintiles.
    n
        Expected number of rows.
    w
        Weights (n,), used for the quintiles. Rows of weight zero belong to no group.
    """
    kept = np.arange(n) if w is None else np.flatnonzero(w)
    columns = [column[kept] for column in _columns(control_features, n)]
    w = None if w is None else w[kept]
    coded = [_levels(column, j, w) for j, column in enumerate(columns)]
    codes = np.stack([codes for codes, _ in coded], axis=1)
    combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
    return [
        ControlGroup(
            " / ".join(names[code] for code, (_, names) in zip(combination, coded, strict=True)),
            kept[inverse.reshape(-1) == i],
        )
        for i, combination in enumerate(combinations)
    ]


def level_names(column: AnyArray) -> list[str]:
    """Return the label of each row's group in one column."""
    codes, names = _levels(column, 0, None)
    return [names[code] for code in codes]


def _columns(control_features: Any, n: int) -> list[AnyArray]:
    """Return the control columns as arrays. Each keeps its type."""
    refuse_masked(_NAME, control_features)
    if hasattr(control_features, "iloc") and control_features.ndim == 2:
        columns = [control_features.iloc[:, j].to_numpy() for j in range(control_features.shape[1])]
    else:
        try:
            table = np.asarray(control_features)
            if table.dtype.kind in "US" and not hasattr(control_features, "dtype"):
                # Keeps numbers that are next to text in a list.
                table = np.asarray(control_features, dtype=object)
        except ValueError as error:
            raise ValueError(
                f"{_NAME} must be a rectangular array, got rows of unequal length"
            ) from error
        if table.ndim not in (1, 2):
            raise ValueError(f"{_NAME} must be one column or a table of columns, got {table.shape}")
        columns = [table] if table.ndim == 1 else list(table.T)
    if not columns:
        raise ValueError(f"{_NAME} must have at least one column, got none")
    for column in columns:
        require_length(column, n, _NAME)
    return columns


def _levels(column: AnyArray, j: int, w: Array | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return the level index of each row, and the names of the levels in order."""
    missing = np.flatnonzero([is_missing(value) for value in column.tolist()])
    if len(missing):
        raise ValueError(
            f"{_NAME} must have no missing values, got {len(missing)} in column {j}, the first in "
            f"row {missing[0]}; {_REMEDY}"
        )
    if not _are_numbers(column):
        names, codes = np.unique([str(value) for value in column.tolist()], return_inverse=True)
        return codes, [str(name) for name in names]
    numbers = column.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{_NAME} must be finite, got infinity in column {j}; {_REMEDY}")
    values, codes = np.unique(numbers, return_inverse=True)
    if len(values) <= MOST_LEVELS:
        return codes, _range_names([(value, value) for value in values])
    codes = quantile_codes(numbers, QUANTILE_GROUPS, w)
    members = [numbers[codes == i] for i in range(int(codes.max(axis=0)) + 1)]
    return codes, _range_names([(part.min(axis=0), part.max(axis=0)) for part in members])


def _are_numbers(column: AnyArray) -> bool:
    """Return whether a column contains numbers. Booleans are levels."""
    if column.dtype.kind == "O":
        return all(
            isinstance(value, int | float | np.number) and not isinstance(value, bool)
            for value in column
        )
    return column.dtype.kind in "iuf"


def _range_names(ends: Sequence[tuple[float, float]]) -> list[str]:
    """Return group names from their smallest and largest number, with enough digits to differ."""
    names: list[str] = []
    for digits in ("g", ".12g", ".17g"):
        names = [
            f"{low:{digits}}" if low == high else f"{low:{digits}} to {high:{digits}}"
            for low, high in ends
        ]
        if len(set(names)) == len(names):
            break
    return names


def quantile_codes(numbers: Array, groups: int, w: Array | None = None) -> NDArray[np.intp]:
    """Return the index of each row's quantile group, from 0 for the smallest values.

    Equal numbers are never split, so there may be fewer groups, of different sizes.

    Parameters
    ----------
    numbers
        One column (n,).
    groups
        Largest number of groups.
    w
        Weights (n,). Groups have about equal weight.
    """
    edges = quantiles_of(numbers, np.arange(1, groups) / groups, w)
    below = numbers[numbers < numbers.max(axis=0)]
    if not len(below):
        return np.zeros(len(numbers), dtype=np.intp)
    # If most rows have the largest value, the rows below it still form a group.
    edges = np.unique(np.minimum(edges, below.max(axis=0)))
    _, codes = np.unique(np.searchsorted(edges, numbers, side="left"), return_inverse=True)
    return np.asarray(codes, dtype=np.intp)


def _merged_codes(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Merge groups of fewer than five rows with the previous group."""
    counts = np.bincount(codes)
    names = np.zeros(len(counts), dtype=np.intp)
    size = int(counts[0])
    for i in range(1, len(counts)):
        # A new group starts only if the remaining rows suffice for it.
        enough = size >= LEAST_IN_GROUP and int(counts[i:].sum(axis=0)) >= LEAST_IN_GROUP
        names[i] = names[i - 1] + enough
        size = int(counts[i]) if enough else size + int(counts[i])
    return names[codes]


def _as_columns(values: ArrayLike, sensitive: Sequence[ArrayLike]) -> list[Array]:
    """Return the values as a table, and the sensitive columns, with equal row counts."""
    V = as_numbers(values, "values")
    V = V[:, None] if V.ndim == 1 else V
    columns = [as_column(s, "sensitive") for s in sensitive]
    for s in columns:
        require_length(s, len(V), "sensitive")
    return [V, *columns]


def _group(
    V: Array, sensitive: Sequence[Array], index: NDArray[np.intp], level: float, w: Array | None
) -> GroupMeans:
    """Return the means of some rows, with their intervals."""
    rows, n = V[index], len(index)
    weights = np.ones(n) if w is None else w[index]
    weight = float(weights.sum(axis=0))
    mean = weights @ rows / weight
    # A row of any weight is one observation.
    variance = n / (n - 1) * (weights**2 @ (rows - mean) ** 2) / weight**2
    reach = stdtrit(n - 1, (1 + level) / 2) * np.sqrt(variance)
    ranges = tuple((float(s[index].min(axis=0)), float(s[index].max(axis=0))) for s in sensitive)
    return GroupMeans(ranges, n, mean, mean - reach, mean + reach, None if w is None else weight)
