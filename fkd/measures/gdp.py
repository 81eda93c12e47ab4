"""Generalised demographic parity of Jiang et al. (2022), equation 2, by kernel regression."""

from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, row_blocks
from fkd.core.border import as_column, as_numbers, as_sensitive
from fkd.core.parameters import choice
from fkd.measures.columns import is_constant, per_column
from fkd.measures.margins import GdpMargins, by_range, by_rank, warn_of_outliers
from fkd.measures.strata import by_stratum

# Below this, distances in units of the bandwidth could overflow when squared.
SMALLEST_BANDWIDTH = 1e-50
TILE_CELLS = 1 << 17  # 1 MB, worked in place: several times faster than a tile beyond the cache


def gdp(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    estimator: Literal["grid", "plugin"] = "grid",
    margins: GdpMargins | None = None,
    bandwidth: float | None = None,
    grid: ArrayLike | None = None,
    control_features: ArrayLike | None = None,
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

    Returns
    -------
    float or Array
        A value >= 0, one per sensitive column; exactly 0.0 for a constant prediction or column.
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if control_features is not None:
        own = partial(gdp, estimator=estimator, margins=margins, bandwidth=bandwidth, grid=grid)
        return by_stratum(own, f, S, control_features=control_features).mean
    if margins is None:
        margins = "range" if grid is None and bandwidth is None else "given"
        for s in S.T if margins == "range" else ():
            width = np.ptp(s) if estimator == "grid" else s.std(axis=0)
            warn_of_outliers(s, _rate(len(s)) * float(width))
    choice("margins", margins, get_args(GdpMargins))
    if estimator not in ("grid", "plugin"):
        raise ValueError(f"estimator must be 'grid' or 'plugin', got {estimator!r}")
    if bandwidth is not None and not SMALLEST_BANDWIDTH <= bandwidth < np.inf:
        raise ValueError(f"bandwidth must be at least {SMALLEST_BANDWIDTH}, got {bandwidth}")
    if estimator == "plugin" and grid is not None:
        raise ValueError("grid must be None for estimator='plugin', which evaluates at the rows")
    points = None if grid is None else _as_grid(grid)
    # Centred predictions: the answer does not depend on the level, nor should its rounding.
    d = f - f.mean(axis=0)
    if is_constant(f):
        return per_column(lambda s: 0.0, S)
    if estimator == "plugin":
        return per_column(lambda s: _plugin(d, _seen(s, margins), bandwidth), S)
    return per_column(lambda s: _on_grid(d, _seen(s, margins), bandwidth, points), S)


def _seen(s: Array, margins: str) -> Array:
    """Return a column in the unit in which it is measured."""
    if margins == "given" or is_constant(s):
        return s
    return by_rank(s) if margins == "rank" else by_range(s)


def _on_grid(d: Array, s: Array, bandwidth: float | None, grid: Array | None) -> float:
    """Density-weighted mean of |smoothed d| over the grid."""
    if is_constant(s):
        return 0.0
    h = _rate(len(s)) if bandwidth is None else bandwidth
    if grid is None:
        grid = np.arange(1, 999) / 1000
        _require_unit_range(s, h)
    smooth, log_density = _smooth(grid, d, s, h)
    weights = np.exp(log_density - log_density.max(axis=0))
    return float(np.abs(smooth) @ weights / weights.sum(axis=0))


def _plugin(d: Array, s: Array, bandwidth: float | None) -> float:
    """Mean of |smoothed d| over the rows."""
    if is_constant(s):
        return 0.0
    h = float(s.std(axis=0)) * _rate(len(s)) if bandwidth is None else bandwidth
    levels, counts = np.unique(s, return_counts=True)
    smooth, _ = _smooth(levels, d, s, h)
    return float(np.abs(smooth) @ counts / len(s))


def _smooth(points: Array, d: Array, s: Array, h: float) -> tuple[Array, Array]:
    """Nadaraya-Watson mean of d at the points with the log of the density up to a constant."""
    # Rows that share s share their weight: ages cost as many columns as there are ages.
    levels, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    totals = np.stack([np.bincount(inverse, weights=d), counts], axis=1)
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


def _rate(n: int) -> float:
    """Silverman's rate for one dimension, without the scale."""
    return float((3 * n / 4) ** (-1 / 5))


def _as_grid(grid: ArrayLike) -> Array:
    """Return the caller's points as a vector."""
    points = as_numbers(grid, "grid")
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"grid must be a vector of at least one point, got shape {points.shape}")
    return points


def _require_unit_range(s: Array, h: float) -> None:
    """Raise where the default grid would look beside the data; one bandwidth is still seen."""
    low, high = float(s.min(axis=0)), float(s.max(axis=0))
    if low < -h or high > 1 + h:
        raise ValueError(
            f"sensitive_features must be scaled to [0, 1] for margins='given', got [{low:g}, "
            f"{high:g}]; use margins='range', or pass grid="
        )
