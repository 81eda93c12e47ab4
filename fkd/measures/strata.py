"""A measure within groups of a legitimate column: dependence beyond what that column explains."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_numbers, as_sensitive, require_length, weight_vector
from fkd.measures.columns import is_constant
from fkd.measures.control_groups import ControlGroup, control_groups, kept_control
from fkd.measures.repeated_rows import require_two

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
