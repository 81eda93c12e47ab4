"""Rows in groups of like size along one column."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from fkd.core.arrays import AnyArray, Array
from fkd.core.validation import (
    as_column,
    as_numbers,
    as_sensitive,
    refuse_masked,
    require_length,
    weight_vector,
)
from fkd.measures.columns import is_constant, quantiles_of, require_two, weighed


def quantile_codes(numbers: Array, groups: int, w: Array | None = None) -> NDArray[np.intp]:
    """Return the number of each row's group, from 0 at the least values on.

    Equal numbers stay together, so where many are equal the groups are fewer or of unlike size.

    Parameters
    ----------
    numbers
        One column (n,).
    groups
        How many groups there are at most.
    w
        How many rows each row stands for, (n,): groups are of like size in these.
    """
    edges = quantiles_of(numbers, np.arange(1, groups) / groups, w)
    below = numbers[numbers < numbers.max(axis=0)]
    if not len(below):
        return np.zeros(len(numbers), dtype=np.intp)
    # Where most rows share the greatest value, those below it are still a group of their own.
    edges = np.unique(np.minimum(edges, below.max(axis=0)))
    _, codes = np.unique(np.searchsorted(edges, numbers, side="left"), return_inverse=True)
    return np.asarray(codes, dtype=np.intp)


def merged_codes(codes: NDArray[np.intp], least: int) -> NDArray[np.intp]:
    """Return the groups with those of fewer than `least` rows joined to the one before them.

    Parameters
    ----------
    codes
        Group of each row, numbered from 0 without a gap.
    least
        Rows that a group has at least, unless all rows together are fewer.
    """
    counts = np.bincount(codes)
    names = np.zeros(len(counts), dtype=np.intp)
    held = int(counts[0])
    for i in range(1, len(counts)):
        # The last group may be too small for itself, which the groups before it cannot know.
        enough = held >= least and int(counts[i:].sum(axis=0)) >= least
        names[i] = names[i - 1] + enough
        held = int(counts[i]) if enough else held + int(counts[i])
    return names[codes]


# Numbers with more values than this are no levels: they are cut into groups of like size.
MOST_LEVELS = 10
QUANTILE_GROUPS = 5

_NAME = "control_features"
_CURE = "drop these rows, or give them a level of their own"


@dataclass(frozen=True)
class ControlGroup:
    """The rows, in their own order, that are alike in every control column."""

    label: str
    index: NDArray[np.intp]


def control_groups(control_features: Any, n: int, w: Array | None = None) -> list[ControlGroup]:
    """Return the groups of n rows, in the order of their levels.

    Parameters
    ----------
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    n
        How many rows are expected.
    w
        How many rows each row stands for, (n,): quintiles are of these.
    """
    columns = _columns(control_features, n)
    coded = [_levels(column, j, w) for j, column in enumerate(columns)]
    codes = np.stack([codes for codes, _ in coded], axis=1)
    combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [
        ControlGroup(
            " / ".join(names[code] for code, (_, names) in zip(combination, coded, strict=True)),
            np.flatnonzero(inverse == i),
        )
        for i, combination in enumerate(combinations)
    ]


def kept_control(control_features: Any, kept: NDArray[np.bool_]) -> Any:
    """Return some rows of the control columns, each column with the type that it has by itself."""
    _columns(control_features, len(kept))
    if hasattr(control_features, "iloc"):
        return control_features.iloc[kept]
    return _as_table(control_features)[kept]


def level_names(column: AnyArray) -> list[str]:
    """Return what the group of each row of one column is called."""
    codes, names = _levels(column, 0, None)
    return [names[code] for code in codes]


def _columns(control_features: Any, n: int) -> list[AnyArray]:
    """Return the control columns, each with the type that it has by itself."""
    refuse_masked(_NAME, control_features)
    if hasattr(control_features, "iloc") and control_features.ndim == 2:
        columns = [control_features.iloc[:, j].to_numpy() for j in range(control_features.shape[1])]
    else:
        table = _as_table(control_features)
        columns = list(table.T)
    if not columns:
        raise ValueError(f"{_NAME} must have at least one column, got none")
    for column in columns:
        require_length(column, n, _NAME)
    return columns


def _as_table(values: Any) -> AnyArray:
    """Return what is no data frame as a table (n, k)."""
    try:
        table = np.asarray(values)
        if table.dtype.kind in "US" and not hasattr(values, "dtype"):
            # Numbers beside text in a list would have become text.
            table = np.asarray(values, dtype=object)
    except ValueError as error:
        raise ValueError(
            f"{_NAME} must be a rectangular array, got rows of unequal length"
        ) from error
    if table.ndim not in (1, 2):
        raise ValueError(f"{_NAME} must be one column or a table of columns, got {table.shape}")
    return table[:, None] if table.ndim == 1 else table


def _levels(column: AnyArray, j: int, w: Array | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return the number of each row's level with the levels' names, in order."""
    missing = np.flatnonzero([_is_missing(value) for value in column.tolist()])
    if len(missing):
        raise ValueError(
            f"{_NAME} must have no missing values, got {len(missing)} in column {j}, the first in "
            f"row {missing[0]}; {_CURE}"
        )
    if not _are_numbers(column):
        names, codes = np.unique([str(value) for value in column.tolist()], return_inverse=True)
        return codes, [str(name) for name in names]
    numbers = column.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{_NAME} must be finite, got infinity in column {j}; {_CURE}")
    values, codes = np.unique(numbers, return_inverse=True)
    if len(values) <= MOST_LEVELS:
        return codes, _named([(value, value) for value in values])
    return _cut(numbers, w)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or a frame's own word for missing."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return True


def _are_numbers(column: AnyArray) -> bool:
    """Return whether a column holds numbers; truth values are levels."""
    if column.dtype.kind == "O":
        return all(
            isinstance(value, int | float | np.number) and not isinstance(value, bool)
            for value in column
        )
    return column.dtype.kind in "iuf"


def _cut(numbers: Array, w: Array | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return groups of about a fifth of the rows each; equal numbers stay together."""
    codes = quantile_codes(numbers, QUANTILE_GROUPS, w)
    members = [numbers[codes == i] for i in range(int(codes.max(axis=0)) + 1)]
    return codes, _named([(own.min(axis=0), own.max(axis=0)) for own in members])


def _named(ends: Sequence[tuple[float, float]]) -> list[str]:
    """Return each group by its least and greatest number, with digits that tell groups apart."""
    names: list[str] = []
    for digits in ("g", ".12g", ".17g"):
        names = [
            f"{low:{digits}}" if low == high else f"{low:{digits}} to {high:{digits}}"
            for low, high in ends
        ]
        if len(set(names)) == len(names):
            break
    return names


# Of fewer rows every measure here reads mostly noise.
LEAST_ROWS = 30
# Windows are made for at least so many rows, whatever fractions these are put together from.
_LEAST_WEIGHT = 2
_SHOWN = 3  # groups that an error names


class UndefinedMeasureError(ValueError):
    """A measure has nothing to compare on these rows."""


@dataclass(frozen=True)
class Stratum:
    """A measure on one group of rows.

    Parameters
    ----------
    label
        Of the group.
    rows
        How many it has.
    value
        The measure, a float or one per sensitive column.
    weight
        How many rows they stand for; None is as many as they are.

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
    """A group of rows on which nothing can be measured, with the reason."""

    label: str
    rows: int
    why: str


@dataclass(frozen=True)
class StratifiedValue:
    """A measure group by group, and the groups that it leaves out.

    Parameters
    ----------
    strata
        Groups with their values.
    left_out
        Groups on which nothing can be measured, with the reason.

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
        """How many rows were measured."""
        return sum(stratum.rows for stratum in self.strata)

    @property
    def weights(self) -> tuple[float, ...]:
        """The share of the measured rows, or of what they stand for, that each group has."""
        own = [group.rows if group.weight is None else group.weight for group in self.strata]
        return tuple(rows / sum(own) for rows in own)

    @property
    def mean(self) -> float | Array:
        """The mean over groups, weighted by their rows."""
        return mean_over_groups([stratum.value for stratum in self.strata], self.weights)


def by_stratum(
    measure: Callable[..., float | Array],
    *columns: ArrayLike | None,
    control_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> StratifiedValue:
    """Return a measure within each group of the control columns.

    A group is left out, by name and with the reason, if it has fewer than 30 rows, whatever their
    weights, if a sensitive column is constant in it, or if pairwise fairness finds no pairs in it.

    Parameters
    ----------
    measure
        Any measure, such as `gdp`; options go in by `functools.partial`.
    columns
        Its positional arguments, the sensitive columns last; None where the measure takes it.
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    sample_weight
        How many rows each row stands for (n,), >= 0, for quintiles, groups and the measure, which
        gets its own of them by this keyword.

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
    rows, control, w = weighed_rows(as_rows(columns), control_features, sample_weight)
    found, left_out = measured_groups(measure, rows, control, w)
    return StratifiedValue(tuple(stratum for _, stratum in found), left_out)


def measured_groups(
    measure: Callable[..., float | Array],
    columns: Sequence[Array | None],
    control_features: Any,
    w: Array | None = None,
) -> tuple[list[tuple[ControlGroup, Stratum]], tuple[LeftOutStratum, ...]]:
    """Return each group with its value, then those that are left out; refuse none at all."""
    sensitive = columns[-1]
    assert sensitive is not None
    found, left_out = [], []
    for group in control_groups(control_features, len(sensitive), w):
        n, own = len(group.index), None if w is None else w[group.index]
        why = why_not(sensitive[group.index], own)
        if not why:
            try:
                found.append((group, _stratum(measure, list(taken(columns, group)), group, own)))
                continue
            except UndefinedMeasureError:
                why = "no pairs to compare in both directions"
        left_out.append(LeftOutStratum(group.label, n, why))
    if not found:
        raise ValueError(_nothing_left(left_out))
    return found, tuple(left_out)


def _stratum(
    measure: Callable[..., float | Array],
    columns: Sequence[Array | None],
    group: ControlGroup,
    w: Array | None,
) -> Stratum:
    """Return a measure on a group's rows."""
    if w is None:
        return Stratum(group.label, len(group.index), measure(*columns))
    value = measure(*columns, sample_weight=w)
    return Stratum(group.label, len(w), value, float(w.sum(axis=0)))


def weighed_rows(
    columns: Sequence[Array | None], control_features: Any, sample_weight: ArrayLike | None
) -> tuple[list[Array | None], Any, Array | None]:
    """Return the rows of weights above zero, of every argument, then the weights if there are."""
    assert columns[-1] is not None
    w = weight_vector(sample_weight, len(columns[-1]))
    if w is None or (w > 0).all():
        return [*columns], control_features, w
    require_two(w)
    rows = [None if column is None else column[w > 0] for column in columns]
    control = None if control_features is None else kept_control(control_features, w > 0)
    return rows, control, w[w > 0]


def as_rows(columns: Sequence[ArrayLike | None]) -> list[Array | None]:
    """Return the arguments of a measure as arrays of equally many rows, the last as a table."""
    if not columns or columns[-1] is None:
        raise ValueError("columns must end with the sensitive ones, got none")
    last = as_numbers(columns[-1], "sensitive_features")
    n = len(last) if last.ndim else 0
    checked = [
        None if column is None else np.atleast_1d(as_numbers(column, f"argument {i}"))
        for i, column in enumerate(columns[:-1])
    ]
    for i, column in enumerate(checked):
        if column is not None:
            require_length(column, n, f"argument {i}")
    return [*checked, as_sensitive(last, n)]


def taken(columns: Sequence[Array | None], group: ControlGroup) -> Iterator[Array | None]:
    """Yield a group's rows of each argument."""
    return (None if column is None else column[group.index] for column in columns)


def mean_over_groups(values: Sequence[float | Array], weights: Sequence[float]) -> float | Array:
    """Return the sum of weight times value; a single value of weight one keeps every bit."""
    first, *others = [weight * value for weight, value in zip(weights, values, strict=True)]
    return sum(others, start=first)


def why_not(S: Array, w: Array | None = None) -> str:
    """Return why nothing can be measured on these rows, nothing where something can."""
    if len(S) < LEAST_ROWS:
        return f"fewer than {LEAST_ROWS} rows"
    if w is not None and w.sum(axis=0) < _LEAST_WEIGHT:
        return f"weights that sum to less than {_LEAST_WEIGHT}"
    if any(is_constant(s) for s in S.T):
        return "sensitive column constant"
    return ""


def _nothing_left(left_out: Sequence[LeftOutStratum]) -> str:
    """Say why no group could be measured, and what helps."""
    reasons = dict.fromkeys(group.why for group in left_out)
    told = []
    for why in reasons:
        names = [repr(group.label) for group in left_out if group.why == why]
        more = ", ..." if len(names) > _SHOWN else ""
        told.append(f"{len(names)} with {why} ({', '.join(names[:_SHOWN])}{more})")
    return (
        f"control_features must leave a group of at least {LEAST_ROWS} rows in which "
        f"sensitive_features vary, got none of {len(left_out)}: {'; '.join(told)}; take fewer or "
        "coarser groups, more rows, or a column that does not determine sensitive_features"
    )


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
