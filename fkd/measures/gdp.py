"""Generalised demographic parity of Jiang et al. (2022), equation 2, by kernel regression."""

from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_numbers, as_sensitive
from fkd.core.parameters import choice
from fkd.core.row_weights import weighted_mean
from fkd.measures.columns import is_constant, per_column
from fkd.measures.margins import GdpMargins, by_range, by_rank, warn_of_outliers
from fkd.measures.repeated_rows import deviation_of, rows_in_all, weighed
from fkd.measures.smoothing import at_levels, level_totals, on_points
from fkd.measures.strata import by_stratum

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
