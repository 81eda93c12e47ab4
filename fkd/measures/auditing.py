"""Audit of the predictions of any model.

`audit` needs truth, predictions and sensitive columns, but no model. It returns the mean errors
and, for each sensitive column, the reported measures, the noise floor of HGR, and curves along the
column, with intervals. With a second model everything is also compared on the same rows. With
control columns the measures are also computed within their groups.
"""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import (
    FairnessWarning,
    as_sensitive,
    column_labels,
    warn_user,
    weight_vector,
)
from fkd.measures.columns import equal_columns, is_constant, mean_absolute_error, mean_signed_error
from fkd.measures.groups import GroupMeans, LeftOutStratum, UndefinedMeasureError
from fkd.measures.profiles import (
    Profile,
    StratumProfile,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import (
    Interval,
    NoiseFloor,
    Statistic,
    compare,
    interval,
    noise_floor,
    require_rows,
)


@dataclass(frozen=True)
class AuditedColumn:
    """Results for one sensitive column.

    Parameters
    ----------
    name
        Name of the column.
    scores
        hgr, gdp and pf by name, with intervals. An undefined measure is left out.
    other_scores, changes
        Values of the other model, and first minus other on the same rows. Empty without one.
    noise
        Noise floors by measure.
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
    noise: Mapping[str, NoiseFloor]
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
        `noise` (noise floors), `profile` (curves along the column). With another model also
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
    >>> bool(column.scores["hgr"].low > column.noise["hgr"].upper)
    True
    >>> error = column.profile.curves["error"]
    >>> bool(error.lowest[0] > 0 > error.highest[-1])  # too high for the young, too low for the old
    True
    """
    f, y, g = equal_columns(y_pred=y_pred, y_true=y_true, other=other)
    predictions = [f] if g is None else [f, g]
    S = as_sensitive(sensitive_features, len(f))
    names = [str(label) for label in column_labels(sensitive_features, S.shape[1])]
    w = weight_vector(sample_weight, len(f))
    kept = np.ones(len(f), dtype=bool) if w is None else w > 0
    rows = int(np.count_nonzero(kept))
    require_rows(rows)
    for name, column in zip(("y_pred", "other"), predictions, strict=False):
        if is_constant(column[kept]):
            raise ValueError(
                f"{name} must vary to be audited, got the constant {column[kept][0]:g}, which is "
                "independent of every column. Check that this is the column of predictions"
            )
    _require_values(S[kept], names)
    options: dict[str, Any] = {
        "rng": np.random.default_rng(random_state),
        "replicates": replicates,
        "level": level,
        "sample_weight": w,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairnessWarning)
        warn_sentinels("sensitive_features", S[kept], names)
        warn_sentinels("y_true", y[kept])
        sides = [(y, own) for own in predictions]
        mae = _compared(mean_absolute_error, sides, {**options, "bounds": (0.0, np.inf)})
        error = interval(mean_signed_error, y, f, **options)
        columns = tuple(
            _audited_column(name, y, predictions, s, control_features, options)
            for name, s in zip(names, S.T, strict=True)
        )
        means: dict[str, Any] = {"other": g, "level": level, "sample_weight": w}
        pairs = tuple(
            AuditedPair((names[i], names[j]), *profile_of_pair(y, f, S[:, [i, j]], **means))
            for i, j in itertools.combinations(range(len(names)), 2)
        )
    # Notes are stored in the result for reports, and raised once for the caller.
    ours = [one for one in caught if issubclass(one.category, FairnessWarning)]
    notes = tuple(dict.fromkeys(str(one.message) for one in ours))
    for note in notes:
        warn_user(note)
    for one in caught:
        if one not in ours:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    weight = None if w is None else float(w.sum(axis=0))
    return Audit(rows, mae[0], error, columns, pairs, *mae[1:], weight, notes)


def _compared(
    measure: Statistic, sides: Sequence[Sequence[Any]], options: Mapping[str, Any]
) -> tuple[Interval, Interval | None, Interval | None]:
    """Return a measure of one or two models and of their difference, each with its interval."""
    if len(sides) == 1:
        return interval(measure, *sides[0], **options), None, None
    found = compare(measure, *sides, **options)
    return found.first, found.second, found.difference


def _audited_column(
    name: str,
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    control: Any,
    options: Mapping[str, Any],
) -> AuditedColumn:
    """Return the results for one sensitive column."""
    found = {}
    for measure in REPORTED.values():
        # Pairwise fairness is undefined without pairs in both directions.
        with suppress(UndefinedMeasureError):
            sides = [measure.columns(y, own, s) for own in predictions]
            found[measure.name] = _compared(measure, sides, options)
    f, other = predictions[0], predictions[1] if len(predictions) == 2 else None
    rng, w = options["rng"], options["sample_weight"]
    means: dict[str, Any] = {"other": other, "level": options["level"], "sample_weight": w}
    column = AuditedColumn(
        name,
        {key: first for key, (first, _, _) in found.items()},
        {key: second for key, (_, second, _) in found.items() if second is not None},
        {key: change for key, (_, _, change) in found.items() if change is not None},
        {
            key: noise_floor(
                predictions[-1], s, rng=rng, measure=measure.scaled(), y_true=y, sample_weight=w
            )
            for key, measure in REPORTED.items()
            if measure.noise_floor
        },
        profile_along(y, f, s, rng=rng, **means),
    )
    if control is None:
        return column
    # Warnings about the rows were given for all of them.
    with warnings.catch_warnings(action="ignore", category=FairnessWarning):
        within = {
            key: interval(
                REPORTED[key], *REPORTED[key].columns(y, f, s), control_features=control, **options
            )
            for key in found
        }
    strata, left_out = profile_within(y, f, s, control_features=control, **means)
    return replace(column, within=within, strata=strata, left_out=left_out)


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
