"""What predictions do along a sensitive attribute, beside the truth or another model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.measures.columns import is_constant
from fkd.measures.control_groups import control_groups
from fkd.measures.curves_along import CurveBand, curves_along
from fkd.measures.group_means import (
    DECILES,
    THIRDS,
    GroupMeans,
    means_by_pair,
    means_by_quantile,
)
from fkd.measures.leaking_function import LeakingFunction, leaking_function
from fkd.measures.repeated_rows import weighed
from fkd.measures.strata import LeftOutStratum, weighed_rows, why_not

TARGET, PREDICTION, ERROR, ABSOLUTE = "target", "prediction", "error", "absolute_error"
OTHER_PREDICTION, OTHER_ERROR = "other_prediction", "other_error"
OTHER_ABSOLUTE = "other_absolute_error"
# What the prediction differs by from that of the other model, row by row.
GAIN, ABSOLUTE_CHANGE = "gain", "absolute_error_change"


@dataclass(frozen=True)
class Profile:
    """Means along one sensitive column.

    Parameters
    ----------
    curves
        By name: target, prediction, error (prediction minus target) and absolute error; of another
        model the same with `other_` before it, `gain` (how much more is predicted than by the
        other), `absolute_error_change`.
    groups
        The same means by deciles, each column at the place of its name in `curves`.
    leak, other_leak
        The function of s that is given away most, by the prediction and by that of the other
        model; None for a constant prediction, or without another model.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import Profile, curves_along, means_by_quantile
    >>> age = np.arange(100.0)
    >>> (curve,) = curves_along(2 * age, age, rng=np.random.default_rng(0))
    >>> profile = Profile({"prediction": curve}, means_by_quantile(2 * age, age), None)
    >>> profile.names
    ('prediction',)
    """

    curves: Mapping[str, CurveBand]
    groups: tuple[GroupMeans, ...]
    leak: LeakingFunction | None
    other_leak: LeakingFunction | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order in which groups hold their means."""
        return tuple(self.curves)


@dataclass(frozen=True)
class StratumProfile:
    """Means by thirds of s within one group of the control columns.

    Parameters
    ----------
    label
        Of the group.
    rows
        How many it has.
    groups
        Its thirds, from the least s to the greatest, with their means.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import StratumProfile, means_by_quantile
    >>> age = np.arange(90.0)
    >>> cooks = StratumProfile("cooks", 90, means_by_quantile(2 * age, age, groups=3))
    >>> [third.rows for third in cooks.groups]
    [30, 30, 30]
    """

    label: str
    rows: int
    groups: tuple[GroupMeans, ...]


def profile_along(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    other: ArrayLike | None = None,
    draws: int = 2000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> Profile:
    """Return means of predictions, truth and errors along one sensitive column, with bands.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive
        One column (n,) that varies.
    rng
        Source of the bands.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    draws
        How many draws the bands come from.
    level
        Share of samples in which an interval, or a band, holds what it is for, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means, groups and windows are those of rows
        that are there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    Profile
        Curves by name, the same means by deciles of s, and what the prediction gives away most.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_along
    >>> age = np.arange(100.0)
    >>> found = profile_along(age, 0.5 * age + 25, age, rng=np.random.default_rng(0))
    >>> found.names
    ('target', 'prediction', 'error', 'absolute_error')
    >>> [round(float(found.groups[i].mean[2]), 6) for i in (0, -1)]  # error of least and greatest s
    [22.75, -22.25]
    """
    columns = means_of(y_true, y_pred, other)
    s = as_column(sensitive, "sensitive")
    V = np.column_stack(list(columns.values()))
    w = sample_weight
    curves = curves_along(V, s, rng=rng, draws=draws, level=level, sample_weight=w)
    return Profile(
        dict(zip(columns, curves, strict=True)),
        means_by_quantile(V, s, groups=DECILES, level=level, sample_weight=w),
        _leak(columns[PREDICTION], s, w),
        None if other is None else _leak(columns[OTHER_PREDICTION], s, w),
    )


def profile_within(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    control_features: ArrayLike,
    other: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[StratumProfile, ...], tuple[LeftOutStratum, ...]]:
    """Return means of predictions, truth and errors by thirds of s within groups of other columns.

    A group is left out, by name and with the reason, if it has fewer than 30 rows or if s is
    constant in it.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive
        One column (n,).
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means and groups are those of rows that are
        there so often; an interval takes a heavy row for the one row that it is;
        a group is left out by its rows, not by their weights.

    Returns
    -------
    tuple
        The groups with their means, target, prediction, error (prediction minus target) and
        absolute error in this order; then the groups left out.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_within
    >>> age, job = np.arange(100.0), np.repeat(["cook", "pilot"], [90, 10])
    >>> (cooks,), (pilots,) = profile_within(age, age + 5, age, control_features=job)
    >>> [round(float(third.mean[2]), 6) for third in cooks.groups]
    [5.0, 5.0, 5.0]
    >>> pilots.why
    'fewer than 30 rows'
    """
    V = np.column_stack(list(means_of(y_true, y_pred, other).values()))
    s = as_column(sensitive, "sensitive")
    require_length(s, len(V), "sensitive")
    rows, control, w = weighed_rows([V, s], control_features, sample_weight)
    V, s = (np.asarray(column) for column in rows)
    found, left_out = [], []
    for group in control_groups(control, len(s), w):
        index, n = group.index, len(group.index)
        own = None if w is None else w[index]
        if why := why_not(s[index, None], own):
            left_out.append(LeftOutStratum(group.label, n, why))
        else:
            thirds = means_by_quantile(
                V[index], s[index], groups=THIRDS, level=level, sample_weight=own
            )
            found.append(StratumProfile(group.label, n, thirds))
    return tuple(found), tuple(left_out)


def profile_of_pair(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    other: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[GroupMeans, ...], tuple[LeftOutStratum, ...]]:
    """Return means of predictions, truth and errors by thirds of two sensitive columns at once.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive_features
        Two columns (n, 2), each cut by itself.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means and groups are those of rows that are
        there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    tuple
        The groups of at least 30 rows with their means, target, prediction, error (prediction
        minus target) and absolute error in this order; then the others with what they lack.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_of_pair
    >>> age, income = np.repeat(np.arange(30.0), 30), np.tile(np.arange(30.0), 30)
    >>> groups, left_out = profile_of_pair(age, age + 5, np.column_stack([age, income]))
    >>> print(len(groups), groups[0].rows, groups[0].ranges, round(groups[0].mean[2], 6))
    9 100 ((0.0, 9.0), (0.0, 9.0)) 5.0
    """
    columns = means_of(y_true, y_pred, other)
    V = np.column_stack(list(columns.values()))
    S = as_sensitive(sensitive_features, len(V))
    if S.shape[1] != 2:
        raise ValueError(f"sensitive_features must be two columns here, got {S.shape[1]}")
    return means_by_pair(V, S[:, 0], S[:, 1], level=level, sample_weight=sample_weight)


def means_of(
    y_true: ArrayLike, y_pred: ArrayLike, other: ArrayLike | None = None
) -> dict[str, Array]:
    """Return by name the columns whose means a profile holds, each (n,)."""
    y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
    require_length(y, len(f), "y_true")
    columns = {TARGET: y, PREDICTION: f, ERROR: f - y, ABSOLUTE: np.abs(f - y)}
    if other is None:
        return columns
    g = as_column(other, "other")
    require_length(g, len(f), "other")
    return {
        **columns,
        OTHER_PREDICTION: g,
        OTHER_ERROR: g - y,
        OTHER_ABSOLUTE: np.abs(g - y),
        GAIN: f - g,
        ABSOLUTE_CHANGE: np.abs(f - y) - np.abs(g - y),
    }


def _leak(f: Array, s: Array, sample_weight: ArrayLike | None) -> LeakingFunction | None:
    """Return what a prediction gives away, None where it says the same of all rows."""
    w, (f, s) = weighed(sample_weight, f, s)
    return None if is_constant(f) else leaking_function(f, s, sample_weight=w)
