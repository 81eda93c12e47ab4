"""Audit of any model's predictions: error, dependence and curves along sensitive columns."""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import FairnessWarning, as_column, as_sensitive, require_length, warn_user
from fkd.measures.columns import is_constant, mean_error, mean_excess
from fkd.measures.groups import GroupMeans, LeftOutStratum, UndefinedMeasureError, weighed_rows
from fkd.measures.profiles import (
    Profile,
    StratumProfile,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import (
    Bounds,
    Comparison,
    Interval,
    NoiseFloor,
    compare,
    interval,
    noise_floor,
    require_rows,
)

_NOISE = REPORTED["hgr"].scaled()
_POSITIVE: Bounds = (0.0, np.inf)


@dataclass(frozen=True)
class AuditedColumn:
    """What predictions say of one sensitive column.

    Parameters
    ----------
    scores
        hgr, gdp, pf by name, each with its interval; one that is undefined here is left out.
    other_scores, changes
        Those of the other model, then the first minus the other on the same rows; empty without
        one.
    noise
        HGR of independent columns of as many rows.
    profile
        Means along the column, in the unit of the target.
    within
        The measures within groups of the control columns, averaged by rows; empty without any.
    strata, left_out
        Means by thirds of the column within these groups, then the groups left out.
    """

    name: str
    scores: Mapping[str, Interval]
    other_scores: Mapping[str, Interval]
    changes: Mapping[str, Interval]
    noise: NoiseFloor
    profile: Profile
    within: Mapping[str, Interval] = field(default_factory=dict)
    strata: tuple[StratumProfile, ...] = ()
    left_out: tuple[LeftOutStratum, ...] = ()


@dataclass(frozen=True)
class AuditedRows:
    """Truth and the predictions of one or two models on the same rows."""

    y: Array
    f: Array
    g: Array | None
    control: Any
    rng: np.random.Generator
    replicates: int
    level: float
    w: Array | None = None

    def column(self, name: str, s: Array) -> AuditedColumn:
        """Return the results for one sensitive column."""
        found: dict[str, Comparison] = {}
        for measure in REPORTED.values():
            # Without pairs to compare in both directions pairwise fairness is left out.
            with suppress(UndefinedMeasureError):
                sides = [measure.columns(self.y, f, s) for f in (self.f, self.g) if f is not None]
                found[measure.name] = self.compared(measure, *sides)
        strata: tuple[StratumProfile, ...] = ()
        left_out: tuple[LeftOutStratum, ...] = ()
        options: dict[str, Any] = {"other": self.g, "level": self.level, "sample_weight": self.w}
        if self.control is not None:
            strata, left_out = profile_within(
                self.y, self.f, s, control_features=self.control, **options
            )
        audited = self.f if self.g is None else self.g
        two = self.g is not None
        return AuditedColumn(
            name,
            {measure: own.first for measure, own in found.items()},
            {measure: own.second for measure, own in found.items() if two},
            {measure: own.difference for measure, own in found.items() if two},
            noise_floor(audited, s, rng=self.rng, measure=_NOISE, sample_weight=self.w),
            profile_along(self.y, self.f, s, rng=self.rng, **options),
            {} if self.control is None else self._within(s, list(found)),
            strata,
            left_out,
        )

    def compared(
        self, measure: Callable[..., Any], *sides: Sequence[Array], bounds: Bounds | None = None
    ) -> Comparison:
        """Return a measure of one or two models; a single model stands for both."""
        if len(sides) == 2:
            return compare(measure, *sides, bounds=bounds, **self._options)
        alone = interval(measure, *sides[0], bounds=bounds, **self._options)
        return Comparison(alone, alone, alone)

    @property
    def _options(self) -> dict[str, Any]:
        """Options that all intervals of an audit share."""
        return {
            "rng": self.rng,
            "replicates": self.replicates,
            "level": self.level,
            "sample_weight": self.w,
        }

    def _within(self, s: Array, names: list[str]) -> dict[str, Interval]:
        """Return the measures within groups of the control columns, with their intervals."""
        return {
            name: interval(
                REPORTED[name],
                *REPORTED[name].columns(self.y, self.f, s),
                control_features=self.control,
                **self._options,
            )
            for name in names
        }


@dataclass(frozen=True)
class AuditedPair:
    """Means by thirds of two sensitive columns."""

    names: tuple[str, str]
    groups: tuple[GroupMeans, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found, as `audit` returns it.

    Attributes
    ----------
    rows
        How many rows were audited.
    weight
        How many rows they stand for; None without weights.
    mae, error
        Mean absolute error and mean signed error (prediction minus target), in the unit of the
        target, each with its interval.
    columns
        What the predictions say of each sensitive column: `name`, `scores` (hgr, gdp and pf with
        their intervals), `noise` (HGR of independent columns of as many rows), `profile` (curves
        along the column); `other_scores` and `changes` with another model; `within`, `strata` and
        `left_out` with control columns.
    pairs
        For any two sensitive columns: `names`, `groups` (means by thirds of both) and `left_out`.
    other_mae, mae_change
        Mean absolute error of the other model, then that of the first minus that of the other on
        the same rows; None without another model.
    notes
        What the measures had to say of the rows, each also a `FairnessWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import audit
    >>> age = np.linspace(18, 80, 200)
    >>> found = audit(age, age + 5, age, replicates=50)
    >>> print(found.rows, round(found.mae.estimate, 6), round(found.error.estimate, 6))
    200 5.0 5.0
    """

    rows: int
    mae: Interval
    error: Interval
    columns: tuple[AuditedColumn, ...]
    pairs: tuple[AuditedPair, ...]
    other_mae: Interval | None = None
    mae_change: Interval | None = None
    weight: float | None = None
    notes: tuple[str, ...] = ()


def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: Any,
    *,
    other: ArrayLike | None = None,
    control_features: Any = None,
    random_state: int = 0,
    replicates: int = 300,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> Audit:
    """Return error, dependence and curves along every sensitive column, for any predictions.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in the target's own unit.
    sensitive_features
        One column or several, (n,) or (n, l), each of more than two values; a data frame's columns
        keep their names.
    other
        Predictions of another model on the same rows: everything is then compared, row by row.
    control_features
        Legitimate columns (n,) or (n, k): scores, and means by thirds of s, are then also taken
        within each of their groups of rows. Text and up to ten numbers are levels; more numbers
        are cut at their quintiles.
    random_state
        Seed of intervals, bands, noise floor.
    replicates
        How many random quarters of the rows each interval comes from.
    level
        Share of samples in which an interval, or a band, holds what it is for, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0; rows of weight zero are left out. A weight of
        two gives the numbers of a row that is there twice, while intervals, bands and noise take it
        for the one row that it is. `fkd.measures.survey_weights` scales weights of another unit.

    Returns
    -------
    Audit
        Errors of all rows, then scores and curves of each sensitive column, then means of each
        pair of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import audit
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 80, size=200)
    >>> found = audit(age + rng.normal(size=200), 0.5 * age + 25, age, replicates=50)
    >>> (column,) = found.columns
    >>> bool(column.scores["hgr"].low > column.noise.upper)  # it leans on age, by more than noise
    True
    >>> error = column.profile.curves["error"]
    >>> bool(error.lowest[0] > 0 > error.highest[-1])  # too high for the young, too low for the old
    True
    """
    y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
    require_length(y, len(f), "y_true")
    g = None if other is None else as_column(other, "other")
    if g is not None:
        require_length(g, len(f), "other")
    S = as_sensitive(sensitive_features, len(f))
    names = _names(sensitive_features, S.shape[1])
    (g, *rows), control, w = weighed_rows([g, y, f, S], control_features, sample_weight)
    y, f, S = (np.asarray(column) for column in rows)
    require_rows(len(f))
    for name, column in (("y_pred", f), ("other", g)):
        if column is not None:
            _require_varied(column, name)
    _require_values(S, names)
    rng = np.random.default_rng(random_state)
    auditor = AuditedRows(y, f, g, control, rng, replicates, level, w)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairnessWarning)
        warn_sentinels("sensitive_features", S, names)
        warn_sentinels("y_true", y)
        found = _audited(auditor, S, names)
    # A page is made of the value alone, later; whoever called hears of it now.
    told = [one for one in caught if issubclass(one.category, FairnessWarning)]
    notes = tuple(dict.fromkeys(str(one.message) for one in told))
    for note in notes:
        warn_user(note)
    for one in caught:
        if one not in told:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return replace(found, notes=notes)


def _audited(rows: AuditedRows, S: Array, names: list[str]) -> Audit:
    """Return everything on rows that are fit to be audited."""
    y, f, g, w = rows.y, rows.f, rows.g, rows.w
    sides = [(y, predicted) for predicted in (f, g) if predicted is not None]
    mae = rows.compared(mean_error, *sides, bounds=_POSITIVE)
    error = rows.compared(mean_excess, (y, f)).first
    return Audit(
        len(f),
        mae.first,
        error,
        tuple(rows.column(name, s) for name, s in zip(names, S.T, strict=True)),
        tuple(
            AuditedPair(
                (names[i], names[j]),
                *profile_of_pair(y, f, S[:, [i, j]], other=g, level=rows.level, sample_weight=w),
            )
            for i, j in itertools.combinations(range(len(names)), 2)
        ),
        None if g is None else mae.second,
        None if g is None else mae.difference,
        None if w is None else float(w.sum(axis=0)),
    )


def _names(sensitive_features: Any, width: int) -> list[str]:
    """Return what the columns are called: their labels in a data frame, else numbers."""
    labels = getattr(sensitive_features, "columns", None)
    if labels is None and getattr(sensitive_features, "name", None) is not None:
        labels = [sensitive_features.name]
    return (
        [str(label) for label in labels] if labels is not None else [str(j) for j in range(width)]
    )


def _require_varied(column: Array, name: str) -> None:
    """Refuse predictions that tell no two rows apart."""
    if is_constant(column):
        raise ValueError(
            f"{name} must vary to be audited, got {len(column)} times {column[0]:g}: a constant "
            "depends on nothing; name the column that holds the predictions"
        )


def _require_values(S: Array, names: list[str]) -> None:
    """Refuse a column along which there is no curve."""
    for name, s in zip(names, S.T, strict=True):
        values = np.unique(s)
        if len(values) <= 2:
            told = " and ".join(f"{value:g}" for value in values)
            raise ValueError(
                f"sensitive_features column {name} must have more than two values to be followed "
                f"along, got {len(values)} ({told}); pass it as control_features (--group-by) "
                "beside another column, or compare its two groups by fairlearn's MetricFrame"
            )
