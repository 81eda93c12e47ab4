"""Generalised demographic parity of Jiang et al. (2022), equation 2, by kernel regression."""

from collections.abc import Iterator
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray, row_blocks
from fkd.core.validation import as_column, as_numbers, as_sensitive, choice
from fkd.core.weights import weighted_mean
from fkd.measures.columns import (
    GdpMargins,
    by_range,
    by_rank,
    deviation_of,
    is_constant,
    per_column,
    rows_in_all,
    warn_of_outliers,
    weighed,
)
from fkd.measures.groups import by_stratum

# Below this, distances in units of the bandwidth could overflow when squared.
SMALLEST_BANDWIDTH = 1e-50
GRID = np.arange(1, 999) / 1000  # as published


def gdp(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    estimator: Literal["grid", "plugin"] = "grid",
    margins: GdpMargins | None = None,
    bandwidth: float | None = None,
    grid: ArrayLike | None = None,
    control_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the mean over s of |E[y_pred | s] - E[y_pred]|, for each sensitive column.

    Neither unit nor offset of s changes the value. The two estimators smooth differently, so their
    values must never share one figure; nor must values with different margins.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2; the result is in their unit.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    estimator
        "grid" averages over fixed points with density weights, as published;
        "plugin" averages over the rows themselves.
    margins
        The unit of s. "range" scales each column to [0, 1] by the range of these rows, "rank" takes
        its ranks, which no outlier moves. "given" takes it as it is: as published, by one range for
        all rows of a data set, which must lie in [0, 1] under the default grid. None is "range",
        but "given" where `grid` or `bandwidth` say something in the unit of s; it warns of
        outliers, which would hide dependence among all other rows.
    bandwidth
        Width h of the Gaussian window in units of s. Default (3n/4)^(-1/5) for "grid", the same
        times the standard deviation of s for "plugin".
    grid
        Points where "grid" evaluates; default 0.001, 0.002, ..., 0.998.
    control_features
        Legitimate columns (n,) or (n, k): the measure is taken within each of their groups of rows,
        and the mean weighted by rows returned. See `by_stratum`, which tells the groups apart.
    sample_weight
        How many rows each row stands for (n,), >= 0; a weight of two is a row that is there twice.
        See `survey_weights` for weights in another unit.

    Returns
    -------
    float or Array
        A value >= 0, one per sensitive column; exactly 0.0 for a constant prediction or column.

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
        own = partial(gdp, estimator=estimator, margins=margins, bandwidth=bandwidth, grid=grid)
        return by_stratum(
            own, f, S, control_features=control_features, sample_weight=sample_weight
        ).mean
    w, (f, S) = weighed(sample_weight, f, S)
    if margins is None:
        margins = "range" if grid is None and bandwidth is None else "given"
        for s in S.T if margins == "range" else ():
            width = float(np.ptp(s)) if estimator == "grid" else deviation_of(s, w)
            warn_of_outliers(s, rate(rows_in_all(w, len(s))) * width, w)
    choice("margins", margins, get_args(GdpMargins))
    if estimator not in ("grid", "plugin"):
        raise ValueError(f"estimator must be 'grid' or 'plugin', got {estimator!r}")
    if bandwidth is not None and not SMALLEST_BANDWIDTH <= bandwidth < np.inf:
        raise ValueError(f"bandwidth must be at least {SMALLEST_BANDWIDTH}, got {bandwidth}")
    if estimator == "plugin" and grid is not None:
        raise ValueError("grid must be None for estimator='plugin', which evaluates at the rows")
    points = None if grid is None else _as_grid(grid)
    # Centred predictions: the answer does not depend on the level, nor should its rounding.
    d = f - weighted_mean(f, w)
    if is_constant(f):
        return per_column(lambda s: 0.0, S)
    if estimator == "plugin":
        return per_column(lambda s: _plugin(d, _seen(s, margins, w), bandwidth, w), S)
    return per_column(lambda s: _on_grid(d, _seen(s, margins, w), bandwidth, points, w), S)


def _seen(s: Array, margins: str, w: Array | None) -> Array:
    """Return a column in the unit in which it is measured."""
    if margins == "given" or is_constant(s):
        return s
    return by_rank(s, w) if margins == "rank" else by_range(s)


def _on_grid(
    d: Array, s: Array, bandwidth: float | None, grid: Array | None, w: Array | None
) -> float:
    """Density-weighted mean of |smoothed d| over the grid."""
    if is_constant(s):
        return 0.0
    h = rate(rows_in_all(w, len(s))) if bandwidth is None else bandwidth
    if grid is None:
        grid = GRID
        require_unit_range(s, h)
    return mean_on_grid(grid, *level_totals(d, s, w), h)


def _plugin(d: Array, s: Array, bandwidth: float | None, w: Array | None) -> float:
    """Mean of |smoothed d| over the rows."""
    if is_constant(s):
        return 0.0
    h = bandwidth
    if h is None:
        h = deviation_of(s, w) * rate(rows_in_all(w, len(s)))
    return mean_at_levels(*level_totals(d, s, w), h)


def mean_on_grid(grid: Array, levels: Array, totals: Array, h: float) -> float:
    """Density-weighted mean over the grid, of totals at the levels of s as `level_totals` has."""
    smooth, log_density = on_points(grid, levels, totals, h)
    weights = np.exp(log_density - log_density.max(axis=0))
    return float(np.abs(smooth) @ weights / weights.sum(axis=0))


def mean_at_levels(levels: Array, totals: Array, h: float) -> float:
    """Mean over the rows, of totals at the levels of s as `level_totals` has."""
    counts = totals[:, 1].copy()  # side by side: a product of strided numbers rounds differently
    return float(np.abs(at_levels(levels, totals, h)) @ counts / counts.sum(axis=0))


def rate(n: float) -> float:
    """Silverman's rate for one dimension, without the scale."""
    return float((3 * n / 4) ** (-1 / 5))


def _as_grid(grid: ArrayLike) -> Array:
    """Return the caller's points as a vector."""
    points = as_numbers(grid, "grid")
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"grid must be a vector of at least one point, got shape {points.shape}")
    return points


def require_unit_range(s: Array, h: float) -> None:
    """Raise where the default grid would look beside the data; one bandwidth is still seen."""
    low, high = float(s.min(axis=0)), float(s.max(axis=0))
    if low < -h or high > 1 + h:
        raise ValueError(
            f"sensitive_features must be scaled to [0, 1] for margins='given', got [{low:g}, "
            f"{high:g}]; use margins='range', or pass grid="
        )


TILE_CELLS = 1 << 17  # 1 MB, worked in place: several times faster than a tile beyond the cache
# More pairs of a point and a level than this go by way of points at fixed distances.
MOST_CELLS = 1 << 26
# So many of them lie within one window.
PER_WINDOW = 128
# Rows farther than so many windows weigh less than 3e-18 of one at the point itself.
_REACH = 9.0
_POINTS = 128  # of one tile of neighbours
# Places of a narrower window could not be told apart.
_MOST_PLACES = 1 << 40


def level_totals(d: Array, s: Array, w: Array | None = None) -> tuple[Array, Array]:
    """Return the levels of s with the sum of d and the number of rows at each, (levels, 2)."""
    # Rows that share s share their weight: ages cost as many columns as there are ages.
    levels, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    if w is not None:
        return levels, np.stack([np.bincount(inverse, weights=v) for v in (w * d, w)], axis=1)
    return levels, np.stack([np.bincount(inverse, weights=d), counts], axis=1)


def on_points(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return the smoothed mean at any points, with the log of the density up to a constant."""
    if len(points) * len(levels) > MOST_CELLS and (nodes := _nodes(levels, totals, h)):
        levels, totals, h = nodes[0], nodes[1], _window(h, spread=1)
    return smooth(points, levels, totals, h)


def at_levels(levels: Array, totals: Array, h: float) -> Array:
    """Return the smoothed mean at the levels themselves."""
    if len(levels) ** 2 <= MOST_CELLS:
        return smooth(levels, levels, totals, h)[0]
    if nodes := _nodes(levels, totals, h):
        points, shared, lower, share = nodes
        at_nodes = _sums_of_neighbours(points, shared, _window(h, spread=2))
        sums = (1 - share)[:, None] * at_nodes[lower] + share[:, None] * at_nodes[lower + 1]
    else:
        sums = _sums_of_neighbours(levels, totals, h)
    mean: Array = sums[:, 0] / sums[:, 1]
    return mean


def smooth(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return the mean at the points and the log density by weighing each level at each point."""
    mean, log_density = np.empty(len(points)), np.empty(len(points))
    for tile in row_blocks(len(points), max(1, TILE_CELLS // len(levels))):
        halves = points[tile, None] - levels
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        nearest = halves.min(axis=1)
        # The largest weight of each point is now one, so no sum can underflow to zero.
        weights = np.exp(np.subtract(nearest[:, None], halves, out=halves), out=halves)
        sums = weights @ totals
        mean[tile] = sums[:, 0] / sums[:, 1]
        log_density[tile] = np.log(sums[:, 1]) - nearest
    return mean, log_density


def _nodes(levels: Array, totals: Array, h: float) -> tuple[Array, Array, IntArray, Array] | None:
    """Share out the levels among equidistant points, of which only those with rows are kept.

    Returns
    -------
    tuple or None
        The points, their totals, for each level the number of the point below it, its share in the
        point above; None where they would be as many as the levels.
    """
    step = h / PER_WINDOW
    places = (levels - levels[0]) / step
    if places[-1] >= _MOST_PLACES:
        return None
    below = places.astype(np.int64)
    share = places - below
    taken = np.unique(below)
    taken = np.unique(np.concatenate([taken, taken + 1]))
    if len(taken) >= len(levels):
        return None
    lower = np.searchsorted(taken, below)
    shared = np.stack(
        [
            np.bincount(lower, weights=column * (1 - share), minlength=len(taken))
            + np.bincount(lower + 1, weights=column * share, minlength=len(taken))
            for column in totals.T
        ],
        axis=1,
    )
    return levels[0] + step * taken, shared, lower, share


def _window(h: float, *, spread: int) -> float:
    """Return the window that, with what sharing out adds so many times, equals one of width h."""
    return float(h * np.sqrt(1 - spread / 6 / PER_WINDOW**2))


def _sums_of_neighbours(points: Array, totals: Array, h: float) -> Array:
    """Weighted sums at the points themselves of all points within reach."""
    sums = np.empty_like(totals)
    for tile, near in _neighbours(points, _REACH * h):
        halves = points[tile, None] - points[near]
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        sums[tile] = np.exp(np.negative(halves, out=halves), out=halves) @ totals[near]
    return sums


def _neighbours(points: Array, reach: float) -> Iterator[tuple[slice, slice]]:
    """Yield the points in tiles, each with all points that one of the tile reaches."""
    for tile in row_blocks(len(points), _POINTS):
        first = np.searchsorted(points, points[tile.start] - reach)
        stop = np.searchsorted(points, points[tile.stop - 1] + reach, side="right")
        yield tile, slice(int(first), int(stop))
