"""Generalised demographic parity (GDP) of Jiang et al. (2022), equation 2.

    GDP(f, s) = E_s | E[f | s] - E[f] |

E[f | s] is a Nadaraya-Watson mean with a Gaussian window of bandwidth h,

    m(t) = sum_k exp(-(t - s_k)² / 2h²) f_k / sum_k exp(-(t - s_k)² / 2h²).

There are two estimators of the mean over s:

- "grid", as published: the points t = 0.001, ..., 0.998 of an s in [0, 1] with h = (3n/4)^(-1/5),
  weighted by the estimated density. It is biased upwards for few rows: noise in m(t) adds to the
  absolute value. On independent rows it is therefore above zero (see `noise_floor`).
- "plugin": the mean of |m(s_k) - mean(f)| over the rows, with h = sd(s) (3n/4)^(-1/5).

Rows with the same s are added first, so the cost depends on the number of different values. If
these are very many, their sums are shared among equidistant points, 128 per bandwidth.

References
----------
Jiang et al. (2022), "Generalized Demographic Parity for Group Fairness", ICLR.
"""

from collections.abc import Iterator
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray, row_blocks
from fkd.core.validation import as_column, as_numbers, as_sensitive, choice
from fkd.core.weights import times_weights, weighted_mean
from fkd.measures.columns import (
    by_range,
    by_rank,
    drop_zero_weights,
    float_or_array,
    is_constant,
    standard_deviation,
    total_weight,
    warn_outliers,
)
from fkd.measures.groups import by_stratum

# Scale of s: by range, by rank, or as given, which must then be within [0, 1].
Margins = Literal["range", "rank", "given"]
Estimator = Literal["grid", "plugin"]
# Below this, squared distances in units of the bandwidth could overflow.
SMALLEST_BANDWIDTH = 1e-50
GRID = np.arange(1, 999) / 1000  # as published
TILE_CELLS = 1 << 17  # 1 MB, which fits the cache
# With more pairs of a point and a level than this, levels are shared among equidistant points.
MOST_CELLS = 1 << 26
# Number of these points per bandwidth.
PER_WINDOW = 128
# Beyond this number of bandwidths a row's weight is below 3e-18 and is left out.
_REACH = 9.0
_TILE_POINTS = 128  # points of one tile of neighbours
# With more points than this, rounding of their positions would be visible.
_MAX_POINTS = 1 << 40


def gdp(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    estimator: Estimator = "grid",
    margins: Margins | None = None,
    bandwidth: float | None = None,
    grid: ArrayLike | None = None,
    control_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the mean over s of |E[y_pred | s] - E[y_pred]|, for each sensitive column.

    The estimators smooth differently: do not compare the values of one with those of the other, nor
    values with different margins. The published estimator "grid" is biased upwards for few rows.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2. The result is in their unit.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    estimator
        "grid" averages over fixed points with density weights, as published. "plugin" averages over
        the rows.
    margins
        Scale of s. "range" scales each column to [0, 1] by the range of these rows. "rank" replaces
        it by its ranks, so that outliers have no effect. "given" uses it unchanged, as published:
        scaled by one range for all rows of a data set, and within [0, 1] for the default grid.
        None is "given" if `grid` or `bandwidth` is set, which are in the unit of s. Otherwise it is
        "range" with a warning if outliers hide the dependence among the other rows.
    bandwidth
        Bandwidth h of the Gaussian window in units of s. Default (3n/4)^(-1/5) for "grid", times
        the standard deviation of s for "plugin".
    grid
        Points at which "grid" evaluates. Default 0.001, 0.002, ..., 0.998.
    control_features
        Conditioning columns (n,) or (n, k). The measure is computed within each of their groups of
        rows and averaged, weighted by rows. `by_stratum` returns the groups.
    sample_weight
        Weights (n,), >= 0. A weight of two counts as two equal rows. Use `survey_weights` to scale
        weights in another unit.

    Returns
    -------
    float or Array
        A value >= 0 per sensitive column, exactly 0.0 for a constant prediction or column.

    References
    ----------
    Jiang et al. (2022), "Generalized Demographic Parity for Group Fairness", ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import gdp
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> bool(0.1 < gdp(f, s) < 0.25)
    True
    >>> gdp(np.ones(400), s)
    0.0
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if control_features is not None:
        within = partial(gdp, estimator=estimator, margins=margins, bandwidth=bandwidth, grid=grid)
        return by_stratum(
            within, f, S, control_features=control_features, sample_weight=sample_weight
        ).mean
    w, (f, S) = drop_zero_weights(sample_weight, f, S)
    choice("estimator", estimator, get_args(Estimator))
    if margins is None:
        margins = "range" if grid is None and bandwidth is None else "given"
        for s in S.T if margins == "range" else ():
            width = float(np.ptp(s)) if estimator == "grid" else standard_deviation(s, w)
            warn_outliers(s, rate(total_weight(w, len(s))) * width, w)
    choice("margins", margins, get_args(Margins))
    if bandwidth is not None and not SMALLEST_BANDWIDTH <= bandwidth < np.inf:
        raise ValueError(f"bandwidth must be at least {SMALLEST_BANDWIDTH}, got {bandwidth}")
    if estimator == "plugin" and grid is not None:
        raise ValueError("grid must be None for estimator='plugin', which evaluates at the rows")
    points = GRID if grid is None else as_numbers(grid, "grid")
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"grid must be a vector of at least one point, got shape {points.shape}")
    # Centring keeps rounding errors independent of the mean of the predictions.
    d = f - weighted_mean(f, w)

    def of_column(s: Array) -> float:
        if is_constant(f) or is_constant(s):
            return 0.0
        if margins != "given":
            s = by_rank(s, w) if margins == "rank" else by_range(s)
        if (h := bandwidth) is None:
            unit = 1.0 if estimator == "grid" else standard_deviation(s, w)
            h = unit * rate(total_weight(w, len(s)))
        if estimator == "plugin":
            return mean_at_levels(*level_totals(d, s, w), h)
        if grid is None:
            require_unit_range(s, h)
        return mean_on_grid(points, *level_totals(d, s, w), h)

    return float_or_array([of_column(s) for s in S.T])


def require_unit_range(s: Array, h: float) -> None:
    """Raise if s lies more than one bandwidth outside of [0, 1], the range of the default grid."""
    low, high = float(s.min(axis=0)), float(s.max(axis=0))
    if low < -h or high > 1 + h:
        raise ValueError(
            f"sensitive_features must be scaled to [0, 1] for margins='given', got [{low:g}, "
            f"{high:g}]; use margins='range', or pass grid="
        )


def rate(n: float) -> float:
    """Return (3n/4)^(-1/5), Silverman's rate in one dimension, without the scale."""
    return float((3 * n / 4) ** (-1 / 5))


def level_totals(d: Array, s: Array, w: Array | None = None) -> tuple[Array, Array]:
    """Return the levels of s with the sum of d and the number of rows at each, (levels, 2)."""
    levels, inverse = np.unique(s, return_inverse=True)
    sums, counts = (np.bincount(inverse, weights=v) for v in (times_weights(d, w), w))
    return levels, np.stack([sums, counts], axis=1)


def mean_on_grid(grid: Array, levels: Array, totals: Array, h: float) -> float:
    """Return the density-weighted mean of |m(t)| over the grid, from `level_totals`."""
    smooth, log_density = smooth_at_points(grid, levels, totals, h)
    weights = np.exp(log_density - log_density.max(axis=0))
    return float(np.abs(smooth) @ weights / weights.sum(axis=0))


def mean_at_levels(levels: Array, totals: Array, h: float) -> float:
    """Return the mean of |m(s)| over the rows, from `level_totals`."""
    if len(levels) ** 2 <= MOST_CELLS:
        mean, _ = smooth(levels, levels, totals, h)
    else:
        if nodes := _nodes(levels, totals, h):
            points, shared, lower, share = nodes
            at_nodes = _sums_of_neighbours(points, shared, _narrowed(h, shares=2))
            sums = (1 - share)[:, None] * at_nodes[lower] + share[:, None] * at_nodes[lower + 1]
        else:
            sums = _sums_of_neighbours(levels, totals, h)
        mean = sums[:, 0] / sums[:, 1]
    counts = totals[:, 1].copy()  # contiguous: products of strided arrays round differently
    return float(np.abs(mean) @ counts / counts.sum(axis=0))


def smooth_at_points(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return m(t) at any points, and the log of the density up to a constant."""
    if len(points) * len(levels) > MOST_CELLS and (nodes := _nodes(levels, totals, h)):
        levels, totals, h = nodes[0], nodes[1], _narrowed(h, shares=1)
    return smooth(points, levels, totals, h)


def smooth(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return m(t) and the log density, from the weight of every level at every point."""
    mean, log_density = np.empty(len(points)), np.empty(len(points))
    for tile in row_blocks(len(points), max(1, TILE_CELLS // len(levels))):
        halves = points[tile, None] - levels
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        nearest = halves.min(axis=1)
        # The largest weight of each point is one, so that no sum underflows to zero.
        weights = np.exp(np.subtract(nearest[:, None], halves, out=halves), out=halves)
        sums = weights @ totals
        mean[tile] = sums[:, 0] / sums[:, 1]
        log_density[tile] = np.log(sums[:, 1]) - nearest
    return mean, log_density


def _nodes(levels: Array, totals: Array, h: float) -> tuple[Array, Array, IntArray, Array] | None:
    """Share the totals of the levels among equidistant points, and drop points without rows.

    Returns
    -------
    tuple or None
        The points, their totals, the index of the point below each level, and the share of the
        point above. None if there would be as many points as levels.
    """
    step = h / PER_WINDOW
    positions = (levels - levels[0]) / step
    if positions[-1] >= _MAX_POINTS:
        return None
    below = positions.astype(np.int64)
    share = positions - below
    used = np.unique(below)
    used = np.unique(np.concatenate([used, used + 1]))
    if len(used) >= len(levels):
        return None
    lower = np.searchsorted(used, below)
    shared = np.stack(
        [
            np.bincount(lower, weights=column * (1 - share), minlength=len(used))
            + np.bincount(lower + 1, weights=column * share, minlength=len(used))
            for column in totals.T
        ],
        axis=1,
    )
    return levels[0] + step * used, shared, lower, share


def _narrowed(h: float, *, shares: int) -> float:
    """Return the bandwidth at equidistant points that corresponds to h at the levels.

    Sharing a level between its neighbours adds step²/6 to the variance of the window, `shares`
    times.
    """
    return float(h * np.sqrt(1 - shares / 6 / PER_WINDOW**2))


def _sums_of_neighbours(points: Array, totals: Array, h: float) -> Array:
    """Return weighted sums at each point, over all points within reach."""
    sums = np.empty_like(totals)
    for tile, near in _neighbours(points, _REACH * h):
        halves = points[tile, None] - points[near]
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        sums[tile] = np.exp(np.negative(halves, out=halves), out=halves) @ totals[near]
    return sums


def _neighbours(points: Array, reach: float) -> Iterator[tuple[slice, slice]]:
    """Yield tiles of the points, each with the points within reach of the tile."""
    for tile in row_blocks(len(points), _TILE_POINTS):
        first = np.searchsorted(points, points[tile.start] - reach)
        stop = np.searchsorted(points, points[tile.stop - 1] + reach, side="right")
        yield tile, slice(int(first), int(stop))
