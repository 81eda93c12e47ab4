"""Audit of the predictions of any model.

`audit` needs truth, predictions and sensitive columns, but no model. It returns the mean errors
and, for each sensitive column, the reported measures, the noise floor of HGR, and curves along the
column, with intervals. With a second model everything is also compared on the same rows. With
control columns the measures are also computed within their groups.
"""

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
from fkd.measures.columns import is_constant, mean_absolute_error, mean_signed_error
from fkd.measures.groups import (
    GroupMeans,
    LeftOutStratum,
    UndefinedMeasureError,
    drop_zero_weight_rows,
)
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
    """Results for one sensitive column.

    Parameters
    ----------
    scores
        hgr, gdp and pf by name, with intervals. An undefined measure is left out.
    other_scores, changes
        Values of the other model, and first minus other on the same rows. Empty without one.
    noise
        Noise floor of HGR.
    profile
        Means along the column, in the unit of the target.
    within
        Measures within groups of the control columns, averaged by rows. Empty without any.
    strata, left_out
        Means by thirds of the column within these groups, and the groups left out.
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
class AuditedPair:
    """Means by thirds of two sensitive columns."""

    names: tuple[str, str]
    groups: tuple[GroupMeans, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class Audit:
    """Result of `audit`.

    Attributes
    ----------
    rows
        Number of rows.
    weight
        Sum of the weights. None without weights.
    mae, error
        Mean absolute error and mean signed error (prediction - target), in the unit of the target,
        with intervals.
    columns
        Results for each sensitive column: `name`, `scores` (hgr, gdp and pf with intervals),
        `noise` (noise floor of HGR), `profile` (curves along the column). With another model also
        `other_scores` and `changes`. With control columns also `within`, `strata` and `left_out`.
    pairs
        For any two sensitive columns: `names`, `groups` (means by thirds of both) and `left_out`.
    other_mae, mae_change
        Mean absolute error of the other model, and first minus other on the same rows. None without
        another model.
    notes
        Messages of all warnings about the rows, each also raised as a `FairnessWarning`.

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
    """Return errors, dependence and curves along every sensitive column, for any predictions.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in the unit of the target.
    sensitive_features
        One column or several, (n,) or (n, l), each with more than two values. Columns of a data
        frame keep their names.
    other
        Predictions of another model on the same rows, to compare with.
    control_features
        Conditioning columns (n,) or (n, k). Measures, and means by thirds of s, are then also
        computed within each of their groups of rows. Text and up to ten distinct numbers are
        levels. More numbers are cut at their quintiles.
    random_state
        Seed of intervals, bands and noise floor.
    replicates
        Number of random quarters of the rows for each interval.
    level
        Nominal coverage of intervals and bands, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Rows of weight zero are left out. A weight of two gives the values of
        two equal rows, while intervals, bands and noise floor count the row once. Use
        `fkd.measures.survey_weights` to scale weights in another unit.

    Returns
    -------
    Audit
        Errors of all rows, measures and curves of each sensitive column, and means of each pair of
        them.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import audit
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 80, size=200)
    >>> found = audit(age + rng.normal(size=200), 0.5 * age + 25, age, replicates=50)
    >>> (column,) = found.columns
    >>> bool(column.scores["hgr"].low > column.noise.upper)  # it depends on age, beyond noise
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
    (g, *rows), control, w = drop_zero_weight_rows([g, y, f, S], control_features, sample_weight)
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
    # Notes are stored in the result for reports, and raised once for the caller.
    ours = [one for one in caught if issubclass(one.category, FairnessWarning)]
    notes = tuple(dict.fromkeys(str(one.message) for one in ours))
    for note in notes:
        warn_user(note)
    for one in caught:
        if one not in ours:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return replace(found, notes=notes)


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
            # Pairwise fairness is undefined without pairs in both directions.
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
            {name: comparison.first for name, comparison in found.items()},
            {name: comparison.second for name, comparison in found.items() if two},
            {name: comparison.difference for name, comparison in found.items() if two},
            noise_floor(audited, s, rng=self.rng, measure=_NOISE, sample_weight=self.w),
            profile_along(self.y, self.f, s, rng=self.rng, **options),
            {} if self.control is None else self._within(s, list(found)),
            strata,
            left_out,
        )

    def compared(
        self, measure: Callable[..., Any], *sides: Sequence[Array], bounds: Bounds | None = None
    ) -> Comparison:
        """Return a measure of one or two models. With one model all three parts are equal."""
        if len(sides) == 2:
            return compare(measure, *sides, bounds=bounds, **self._options)
        alone = interval(measure, *sides[0], bounds=bounds, **self._options)
        return Comparison(alone, alone, alone)

    @property
    def _options(self) -> dict[str, Any]:
        """Options shared by all intervals of an audit."""
        return {
            "rng": self.rng,
            "replicates": self.replicates,
            "level": self.level,
            "sample_weight": self.w,
        }

    def _within(self, s: Array, names: list[str]) -> dict[str, Interval]:
        """Return the measures within groups of the control columns, with their intervals."""
        with warnings.catch_warnings(action="ignore", category=FairnessWarning):
            # Warnings about the rows were given for all of them.
            return {
                name: interval(
                    REPORTED[name],
                    *REPORTED[name].columns(self.y, self.f, s),
                    control_features=self.control,
                    **self._options,
                )
                for name in names
            }


def _audited(rows: AuditedRows, S: Array, names: list[str]) -> Audit:
    """Return the audit of checked rows."""
    y, f, g, w = rows.y, rows.f, rows.g, rows.w
    sides = [(y, predicted) for predicted in (f, g) if predicted is not None]
    mae = rows.compared(mean_absolute_error, *sides, bounds=_POSITIVE)
    error = rows.compared(mean_signed_error, (y, f)).first
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
    """Return the column labels of a data frame, otherwise column numbers."""
    labels = getattr(sensitive_features, "columns", None)
    if labels is None and getattr(sensitive_features, "name", None) is not None:
        labels = [sensitive_features.name]
    return (
        [str(label) for label in labels] if labels is not None else [str(j) for j in range(width)]
    )


def _require_varied(column: Array, name: str) -> None:
    """Raise for constant predictions."""
    if is_constant(column):
        raise ValueError(
            f"{name} must vary to be audited, got {len(column)} times {column[0]:g}: a constant "
            "is independent of every column. Check that this is the column of predictions"
        )


def _require_values(S: Array, names: list[str]) -> None:
    """Raise for a column with fewer than three values, along which there is no curve."""
    for name, s in zip(names, S.T, strict=True):
        values = np.unique(s)
        if len(values) <= 2:
            listed = " and ".join(f"{value:g}" for value in values)
            raise ValueError(
                f"sensitive_features column {name} must have more than two values for a curve "
                f"along it, got {len(values)} ({listed}); pass it as control_features (--group-by) "
                "with another sensitive column, or use fairlearn's MetricFrame for its two groups"
            )
