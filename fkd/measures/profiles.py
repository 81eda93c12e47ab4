"""Means of predictions, truth and errors along a sensitive column, with confidence bands.

A measure is one number. A profile shows which values of s get higher predictions or larger errors:

- `curves_along` smooths each column along s and adds two bands: one per point, and one for the
  whole curve.
- `profile_along` does so for prediction, truth and errors of one or two models, and adds means by
  deciles of s and the functions behind HGR (`leaking_function`).
- `profile_within` and `profile_of_pair` return means by thirds of s within groups of control
  columns, and by thirds of two sensitive columns.

The smoothed mean at a point t of s is m(t) = sum_k b_k(t) v_k / sum_k b_k(t). The weight b_k(t) is
Gaussian in the distance of the *ranks* of t and s_k, so that each window contains the same share of
the rows. A column with few levels is not smoothed: b_k(t) is one if s_k = t, otherwise zero.

The error of m(t) has the covariance H(t, u) = sum_k b_k(t) b_k(u) (v_k - m(t)) (v_k - m(u)), up to
the factors sum_k b_k(t) and sum_k b_k(u). The band of the whole curve is a quantile of the largest
standardised error over all points, simulated from this covariance (a multiplier bootstrap with
Gaussian multipliers).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.linalg import rank_cut
from fkd.core.validation import as_column, as_numbers, as_sensitive, require_length, weight_vector
from fkd.measures.columns import (
    by_rank,
    drop_zero_weights,
    equal_columns,
    is_constant,
    order_statistics,
    total_weight,
)
from fkd.measures.gdp import rate
from fkd.measures.groups import (
    DECILES,
    MOST_LEVELS,
    THIRDS,
    GroupMeans,
    LeftOutStratum,
    means_by_pair,
    means_by_quantile,
    measured_groups,
)
from fkd.measures.hgr import LeakingFunction, leaking_function
from fkd.measures.resampling import check_draws

# Points of a smoothed curve. Neighbours are closer than any bandwidth.
POINTS = 41
# Fewer rows have no spread to estimate an interval from.
LEAST_AT_LEVEL = 2
# Rows beyond this number of bandwidths have no weight. Otherwise a single distant row could
# determine a mean, without any spread.
_REACH = 3.0
# Half of the bandwidth of GDP, to show more detail. Ranks are uniform on (0, 1), with a standard
# deviation of sqrt(1/12).
_WINDOW = 0.5 * float(np.sqrt(1 / 12))
TARGET, PREDICTION, ERROR, ABSOLUTE = "target", "prediction", "error", "absolute_error"
OTHER_PREDICTION, OTHER_ERROR = "other_prediction", "other_error"
OTHER_ABSOLUTE = "other_absolute_error"
# Differences between the predictions, and between the absolute errors, of two models.
GAIN, ABSOLUTE_CHANGE = "gain", "absolute_error_change"
# A group is named if it has this multiple of its share of the added error.
_MARKED = 1.5


@dataclass(frozen=True)
class CurveBand:
    """The smoothed mean of a column along s, with its bands.

    Parameters
    ----------
    points
        Mean of s in each window, increasing (g,).
    mean
        Mean of the column in the same window.
    low, high
        Ends of the interval of each single point.
    lowest, highest
        Ends of the band of the whole curve.
    rows
        Effective number of rows at each point.
    level
        Nominal coverage of the intervals and of the band.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import CurveBand
    >>> at, mean = np.array([20.0, 60.0]), np.array([1.0, 3.0])
    >>> curve = CurveBand(at, mean, mean - 1, mean + 1, mean - 2, mean + 2, np.array([9, 9]), 0.95)
    >>> bool((curve.lowest <= curve.low).all())
    True
    """

    points: Array
    mean: Array
    low: Array
    high: Array
    lowest: Array
    highest: Array
    rows: Array
    level: float


@dataclass(frozen=True)
class Profile:
    """Means along one sensitive column.

    Parameters
    ----------
    curves
        Curves by name: target, prediction, error (prediction - target) and absolute_error. With
        another model also other_prediction, other_error, other_absolute_error, gain (prediction -
        other prediction) and absolute_error_change.
    groups
        Means of the same columns by deciles of s, in the order of `curves`.
    leak, other_leak
        Functions behind the HGR of the prediction, and of that of the other model. None for a
        constant prediction, or without another model.

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
        """Names of the columns, in the order of the means in `groups`."""
        return tuple(self.curves)

    @property
    def added_error(self) -> tuple[int, float, float] | None:
        """Index of the group with the greatest increase of the error over the other model.

        The second and third value are its share of the rows and of the whole increase, which is
        above 1 if the error of all other rows together fell. None if there is no other model, if
        the error did not increase, or if the group does not clearly have 1.5 times its share.
        """
        if ABSOLUTE_CHANGE not in self.names:
            return None
        j = self.names.index(ABSOLUTE_CHANGE)
        rows = np.array([group.rows for group in self.groups])
        change = np.array([float(group.mean[j]) for group in self.groups])
        total, most = float(rows @ change), int(change.argmax(axis=0))
        part, share = float(rows[most] * change[most]), float(rows[most] / rows.sum(axis=0))
        if total <= 0 or self.groups[most].low[j] <= 0 or part < _MARKED * share * total:
            return None
        return most, share, part / total


@dataclass(frozen=True)
class StratumProfile:
    """Means by thirds of s within one group of the control columns.

    Parameters
    ----------
    label
        Label of the group.
    rows
        Number of rows.
    groups
        Thirds of the group, ordered by s, with their means.

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


def curves_along(
    values: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 2000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[CurveBand, ...]:
    """Return E[v | s] as a curve with bands, for each column v of `values`.

    The window is Gaussian in the ranks of s, cut at three bandwidths. A column with at most ten
    levels is not smoothed. The bands cover the smoothed mean, so they do not include the bias of
    smoothing. They use a multiplier bootstrap, with Student's t distribution for points with few
    rows.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors. Pass the difference of two
        predictions to get a paired band.
    sensitive
        One column (n,) that varies.
    rng
        Source of the draws.
    draws
        Number of draws of the multiplier bootstrap.
    level
        Nominal coverage, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Points, windows and means are those of repeated rows. Bands treat a row
        of any weight as one observation.

    Returns
    -------
    tuple of CurveBand
        One curve per column, all at the same points.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import curves_along
    >>> age = np.arange(100.0)
    >>> (curve,) = curves_along(2 * age, age, rng=np.random.default_rng(0))
    >>> print(round(curve.points[20], 6), round(curve.mean[20], 6))
    50.0 100.0
    """
    V = as_numbers(values, "values")
    V = V[:, None] if V.ndim == 1 else V
    s = as_column(sensitive, "sensitive")
    require_length(V, len(s), "values")
    w, (V, s) = drop_zero_weights(sample_weight, V, s)
    check_draws(draws, level)
    if is_constant(s):
        raise ValueError(
            f"sensitive must vary for a curve along it, got {len(s)} times {s[0]:g}. Name another "
            "column"
        )
    smoothing = Smoothing.from_column(s, w)
    positions, index = np.unique(smoothing.row_positions, return_inverse=True)
    levels = LevelSums.from_rows(np.column_stack([V, s]), index, w)
    smoothing = replace(smoothing, row_positions=positions)
    sums, weight, squares = levels.at_points(smoothing)
    # A single row between many equal ones has no spread either.
    some = weight**2 >= LEAST_AT_LEVEL * squares
    smoothing = replace(smoothing, positions=smoothing.positions[some])
    weight, squares = weight[some], squares[some]
    # The mean is drawn at the mean of s in each window. Near the ends of s this differs from the
    # point itself, and a linear curve would appear too flat there.
    *means, mean_s = sums[:, some] / weight
    # All curves share the same multipliers.
    noise = rng.standard_normal((len(mean_s), draws))
    return tuple(
        _with_bands(mean_s, mean, H, weight, squares, noise, level)
        for mean, H in zip(means, levels.spreads(smoothing, means), strict=True)
    )


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
        Truth and prediction (n,), in the unit of all means.
    sensitive
        One column (n,) that varies.
    rng
        Source of the bands.
    other
        Predictions of another model on the same rows, such as one without removal. Its means and
        the differences are then added.
    draws
        Number of draws for the bands.
    level
        Nominal coverage of intervals and bands, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Means and groups are those of repeated rows. Intervals treat a row
        of any weight as one observation.

    Returns
    -------
    Profile
        Curves by name, means by deciles of s, and the functions behind HGR.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_along
    >>> age = np.arange(100.0)
    >>> found = profile_along(age, 0.5 * age + 25, age, rng=np.random.default_rng(0))
    >>> found.names
    ('target', 'prediction', 'error', 'absolute_error')
    >>> [round(float(found.groups[i].mean[2]), 6) for i in (0, -1)]  # errors at smallest, largest s
    [22.75, -22.25]
    """
    columns = profile_columns(y_true, y_pred, other)
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
    """Return means of predictions, truth and errors by thirds of s within control groups.

    A group is left out and reported with the reason if it has fewer than 30 rows, regardless of
    weights, or if s is constant in it.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in the unit of all means.
    sensitive
        One column (n,).
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        distinct numbers are levels. More numbers are cut at their quintiles.
    other
        Predictions of another model on the same rows, such as one without removal. Its means and
        the differences are then added.
    level
        Nominal coverage of the intervals, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Means and groups are those of repeated rows. Intervals treat a row
        of any weight as one observation.

    Returns
    -------
    tuple
        The groups with the means of target, prediction, error (prediction - target) and absolute
        error, in this order, and the groups left out.

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
    V = np.column_stack(list(profile_columns(y_true, y_pred, other).values()))
    s = as_column(sensitive, "sensitive")
    require_length(s, len(V), "sensitive")
    thirds = partial(means_by_quantile, groups=THIRDS, level=level)
    w = weight_vector(sample_weight, len(s))
    found, left_out = measured_groups(thirds, [V, s], control_features, w)
    return tuple(StratumProfile(own.label, own.rows, own.value) for _, own in found), left_out


def profile_of_pair(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    other: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[GroupMeans, ...], tuple[LeftOutStratum, ...]]:
    """Return means of predictions, truth and errors by thirds of two sensitive columns.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in the unit of all means.
    sensitive_features
        Two columns (n, 2), each cut separately.
    other
        Predictions of another model on the same rows, such as one without removal. Its means and
        the differences are then added.
    level
        Nominal coverage of the intervals, in (0, 1).
    sample_weight
        Weights (n,), >= 0. Means and groups are those of repeated rows. Intervals treat a row
        of any weight as one observation.

    Returns
    -------
    tuple
        The groups of at least 30 rows with the means of target, prediction, error (prediction -
        target) and absolute error, in this order, and the groups left out with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_of_pair
    >>> age, income = np.repeat(np.arange(30.0), 30), np.tile(np.arange(30.0), 30)
    >>> groups, left_out = profile_of_pair(age, age + 5, np.column_stack([age, income]))
    >>> print(len(groups), groups[0].rows, groups[0].ranges, round(groups[0].mean[2], 6))
    9 100 ((0.0, 9.0), (0.0, 9.0)) 5.0
    """
    columns = profile_columns(y_true, y_pred, other)
    V = np.column_stack(list(columns.values()))
    S = as_sensitive(sensitive_features, len(V))
    if S.shape[1] != 2:
        raise ValueError(f"sensitive_features must be two columns here, got {S.shape[1]}")
    return means_by_pair(V, S[:, 0], S[:, 1], level=level, sample_weight=sample_weight)


def profile_columns(
    y_true: ArrayLike, y_pred: ArrayLike, other: ArrayLike | None = None
) -> dict[str, Array]:
    """Return the columns of a profile by name, each (n,)."""
    f, y, g = equal_columns(y_pred=y_pred, y_true=y_true, other=other)
    columns = {TARGET: y, PREDICTION: f, ERROR: f - y, ABSOLUTE: np.abs(f - y)}
    if g is None:
        return columns
    return {
        **columns,
        OTHER_PREDICTION: g,
        OTHER_ERROR: g - y,
        OTHER_ABSOLUTE: np.abs(g - y),
        GAIN: f - g,
        ABSOLUTE_CHANGE: np.abs(f - y) - np.abs(g - y),
    }


def _leak(f: Array, s: Array, sample_weight: ArrayLike | None) -> LeakingFunction | None:
    """Return the functions behind HGR, or None for a constant prediction."""
    w, (f, s) = drop_zero_weights(sample_weight, f, s)
    return None if is_constant(f) else leaking_function(f, s, sample_weight=w)


@dataclass(frozen=True)
class Smoothing:
    """Weights of rows at points of s.

    Parameters
    ----------
    positions, row_positions
        Rank of each point (g,) and of each row (n,), or their values if s has few levels.
    window
        Bandwidth in ranks, or 0.0 if rows only count at their level.
    """

    positions: Array
    row_positions: Array
    window: float

    @classmethod
    def from_column(cls, s: Array, w: Array | None = None) -> "Smoothing":
        """Return the smoothing along a column that varies, at no more than 41 points."""
        levels, counts = np.unique(s, return_counts=True)
        if len(levels) <= MOST_LEVELS:
            drawn = levels[counts >= LEAST_AT_LEVEL]
            if not len(drawn):
                raise ValueError(
                    f"sensitive must have a value that {LEAST_AT_LEVEL} rows share, or more than "
                    f"{MOST_LEVELS} values, got {len(s)} rows. Use more rows"
                )
            return cls(drawn, s, 0.0)
        ranks, n = by_rank(s, w), total_weight(w, len(s))
        # Rows at equal steps of the sorted column. Equal values give one point.
        steps = np.linspace(0, n - 1, POINTS).round()
        chosen = np.sort(s)[steps.astype(np.intp)] if w is None else order_statistics(s, w, steps)
        first = np.argsort(s, kind="stable")
        positions = ranks[first][np.searchsorted(s[first], np.unique(chosen))]
        return cls(positions, ranks, rate(n) * _WINDOW)

    def weights(self, rows: slice) -> Array:
        """Return the weight of some rows at each point, (g, rows)."""
        if not self.window:
            same = self.positions[:, None] == self.row_positions[rows]
            return np.asarray(same, dtype=np.float64)
        z = (self.positions[:, None] - self.row_positions[rows]) / self.window
        return np.where(np.abs(z) <= _REACH, np.exp(-0.5 * z**2), 0.0)


@dataclass(frozen=True)
class LevelSums:
    """Sums of columns over the rows at each level of s.

    Rows at one level have the same smoothing weights, so a million rows of eighty ages reduce to
    eighty levels.

    Parameters
    ----------
    weights, weights_squared
        Sums of the weights and of their squares, (levels,).
    totals
        Weighted sums of the columns, (levels, k).
    centers
        Means of the columns, weighted by squared weights, (levels, k).
    scatter
        Sums of squared deviations from them, weighted by squared weights, (levels, k).
    """

    weights: Array
    weights_squared: Array
    totals: Array
    centers: Array
    scatter: Array

    @classmethod
    def from_rows(cls, V: Array, index: NDArray[np.intp], w: Array | None) -> "LevelSums":
        """Return the sums of columns V (n, k), from the index of each row's level."""
        w = np.ones(len(V)) if w is None else w

        def by_level(values: Array) -> Array:
            return np.asarray(np.bincount(index, weights=values), dtype=np.float64)

        squares = by_level(w**2)
        centers = [by_level(w**2 * v) / squares for v in V.T]
        scatter = [by_level(w**2 * (v - c[index]) ** 2) for v, c in zip(V.T, centers, strict=True)]
        return cls(
            by_level(w),
            squares,
            np.column_stack([by_level(w * v) for v in V.T]),
            np.column_stack(centers),
            np.column_stack(scatter),
        )

    def at_points(self, smoothing: Smoothing) -> tuple[Array, Array, Array]:
        """Return the sums of every column (k, g), of the weights and of their squares (g,)."""
        g = len(smoothing.positions)
        sums, weight, squares = np.zeros((self.totals.shape[1], g)), np.zeros(g), np.zeros(g)
        for levels in row_blocks(len(self.weights), BLOCK_ROWS):
            B = smoothing.weights(levels)
            sums += (B @ self.totals[levels]).T
            weight += B @ self.weights[levels]
            squares += B**2 @ self.weights_squared[levels]
        return sums, weight, squares

    def spreads(self, smoothing: Smoothing, means: Sequence[Array]) -> Array:
        """Return H(t, u) at all pairs of points, from the mean of each column, (k, g, g)."""
        g = len(smoothing.positions)
        H = np.zeros((len(means), g, g))
        for levels in row_blocks(len(self.weights), BLOCK_ROWS):
            B = smoothing.weights(levels)
            size = np.sqrt(self.weights_squared[levels])
            for j, mean in enumerate(means):
                # Deviations from the center of a level sum to zero: no mixed terms.
                inner = B * np.sqrt(self.scatter[levels, j])
                outer = B * (size * (self.centers[levels, j] - mean[:, None]))
                H[j] += inner @ inner.T + outer @ outer.T
        return H


def _with_bands(
    mean_s: Array, mean: Array, H: Array, weight: Array, squares: Array, noise: Array, level: float
) -> CurveBand:
    """Return the curve of one column with its bands, from H(t, u)."""
    rows = weight**2 / squares
    spread = np.sqrt(np.diagonal(H))
    # Residuals from an estimated mean are too small by this factor, (n - 1) / n for equal weights.
    error = spread / np.sqrt(1 - 1 / rows) / weight
    known = spread > rank_cut(len(mean), float(spread.max(axis=0)))
    H = H[np.ix_(known, known)] / spread[known, None] / spread[known]
    # The Gaussian quantile of the supremum as a level, for the t distribution of each point.
    joint_level = 2 * ndtr(_supremum(H, noise[known], level)) - 1
    pointwise, joint = (
        stdtrit(rows - 1, (1 + share) / 2) * error for share in (level, joint_level)
    )
    return CurveBand(
        mean_s, mean, mean - pointwise, mean + pointwise, mean - joint, mean + joint, rows, level
    )


def _supremum(H: Array, noise: Array, level: float) -> float:
    """Return the quantile of the largest absolute value of Gaussians with correlations H."""
    if not len(H):
        return 0.0  # the column is constant at every point
    eigenvalues, Q = np.linalg.eigh((H + H.T) / 2)
    drawn = (Q * np.sqrt(np.maximum(eigenvalues, 0.0))) @ noise
    return float(np.quantile(np.abs(drawn).max(axis=0), level))
