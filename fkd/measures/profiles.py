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
from fkd.measures.strata import LeftOutStratum, why_not

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
        The function of s that is given away most; None for a constant prediction.
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
    """Means by thirds of s within one group of the control columns."""

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
        Predictions of another model on the same rows, such as one with nothing removed.
    draws, level
        Of the bands, see `curves_along`.
    """
    columns = means_of(y_true, y_pred, other)
    s = as_column(sensitive, "sensitive")
    V = np.column_stack(list(columns.values()))
    curves = curves_along(V, s, rng=rng, draws=draws, level=level)
    return Profile(
        dict(zip(columns, curves, strict=True)),
        means_by_quantile(V, s, groups=DECILES, level=level),
        _leak(columns[PREDICTION], s),
        None if other is None else _leak(columns[OTHER_PREDICTION], s),
    )


def profile_within(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    control_features: ArrayLike,
    other: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[tuple[StratumProfile, ...], tuple[LeftOutStratum, ...]]:
    """Return the same means by thirds of s within each group, then the groups left out.

    Parameters
    ----------
    y_true, y_pred, sensitive, other, level
        As in `profile_along`.
    control_features
        As in `by_stratum`.
    """
    V = np.column_stack(list(means_of(y_true, y_pred, other).values()))
    s = as_column(sensitive, "sensitive")
    require_length(s, len(V), "sensitive")
    found, left_out = [], []
    for group in control_groups(control_features, len(s)):
        index, n = group.index, len(group.index)
        if why := why_not(s[index, None]):
            left_out.append(LeftOutStratum(group.label, n, why))
        else:
            thirds = means_by_quantile(V[index], s[index], groups=THIRDS, level=level)
            found.append(StratumProfile(group.label, n, thirds))
    return tuple(found), tuple(left_out)


def profile_of_pair(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    other: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[tuple[GroupMeans, ...], tuple[LeftOutStratum, ...]]:
    """Return the same means by thirds of either of two sensitive columns (n, 2)."""
    columns = means_of(y_true, y_pred, other)
    V = np.column_stack(list(columns.values()))
    S = as_sensitive(sensitive_features, len(V))
    if S.shape[1] != 2:
        raise ValueError(f"sensitive_features must be two columns here, got {S.shape[1]}")
    return means_by_pair(V, S[:, 0], S[:, 1], level=level)


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


def _leak(f: Array, s: Array) -> LeakingFunction | None:
    """Return what a prediction gives away, None where it says the same of all rows."""
    return None if is_constant(f) else leaking_function(f, s)
