"""Maximal correlation by kernel density, the estimator of Mary et al. (2019), section 4."""

from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.core.parameters import choice
from fkd.measures.cells import SHARES, Counts, Nodes, count_cells
from fkd.measures.columns import in_unit, is_constant, per_column
from fkd.measures.joint_tables import witsenhausen
from fkd.measures.margins import (
    HgrMargins,
    normal_scores,
    warn_of_outliers,
    warn_of_rare_groups,
)
from fkd.measures.strata import by_stratum

GRID_REACH = 2.5  # the grid covers this many standard deviations on either side of the mean
LARGEST_GRID = 50
DAMPING = 1e-10  # keeps empty cells of the density away from 0/0
# From so many rows on they are counted in cells first; below, each row is weighed by itself.
CELLS_FROM = 1 << 18
_ROWS = 4 * BLOCK_ROWS  # of one step: a few hundred kilobytes for each side of the density


def hgr(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    margins: HgrMargins | None = None,
    control_features: ArrayLike | None = None,
) -> float | Array:
    """Return sup corr(a(y_pred), b(s)) over all functions a, b, for each sensitive column.

    Zero means independence, one a functional relation. The kernel density estimate has a
    noise floor (about 0.10 at 400 rows): see `noise_floor`.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    margins
        "standard" divides both sides by their standard deviation, as published; "rank" replaces
        them by the normal scores of their ranks, which no outlier moves: the true maximal
        correlation is the same. None is "standard", with a warning of outliers, which would hide
        dependence among all other rows.
    control_features
        Legitimate columns (n,) or (n, k): the measure is taken within each of their groups of rows,
        and the mean weighted by rows returned. See `by_stratum`, which tells the groups apart.

    Returns
    -------
    float or Array
        A value in [0, 1], one per sensitive column; exactly 0.0 where either side is constant.

    References
    ----------
    Mary, Calauzènes & El Karoui (2019), "Fairness-Aware Learning for Continuous Attributes and
    Treatments", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import hgr
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> bool(hgr(f, s) > 0.8), bool(hgr(rng.normal(size=400), s) < 0.3)
    (True, True)
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if control_features is not None:
        own = partial(hgr, margins=margins)
        return by_stratum(own, f, S, control_features=control_features).mean
    for column in () if margins else (f, *S.T):
        warn_of_outliers(column, bandwidth(len(f)) * float(column.std(axis=0)))
        warn_of_rare_groups(column, GRID_REACH + bandwidth(len(f)), 2 * bandwidth(len(f)))
    return _per_pair(_hgr, f, S, margins)


def chi2(
    y_pred: ArrayLike, sensitive_features: ArrayLike, *, margins: HgrMargins | None = None
) -> float | Array:
    """Return the chi-squared divergence of the joint density from independence, per column.

    It is the sum of all squared maximal correlations, hence an upper bound of `hgr` squared.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    margins
        "standard" divides both sides by their standard deviation, "rank" takes the normal scores
        of their ranks; None is "standard", with a warning of outliers.

    Returns
    -------
    float or Array
        A value >= 0, one per sensitive column; exactly 0.0 where either side is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import chi2, hgr
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> bool(chi2(f, s) >= hgr(f, s) ** 2)
    True
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    for column in () if margins else (f, *S.T):
        warn_of_outliers(column, bandwidth(len(f)) * float(column.std(axis=0)))
        warn_of_rare_groups(column, GRID_REACH + bandwidth(len(f)), bandwidth(len(f)))
    return _per_pair(_chi2, f, S, margins)


def _per_pair(
    measure: Callable[[Array, Array], float], f: Array, S: Array, margins: str | None
) -> float | Array:
    """Return a measure of f with each column, both in the unit that the margins ask for."""
    if margins is not None:
        choice("margins", margins, get_args(HgrMargins))

    def of_column(s: Array) -> float:
        if is_constant(f) or is_constant(s):
            return 0.0
        if margins == "rank":
            return measure(normal_scores(f), normal_scores(s))
        return measure(f, s)

    return per_column(of_column, S)


def joint_density_grid(u: ArrayLike, v: ArrayLike, *, damping: float = DAMPING) -> Array:
    """Return the Gaussian kernel density of standardised (u, v) on a g x g grid, summing to one.

    Bandwidth h = n^(-1/6); the g = min(50, 5/h) points of either axis reach 2.5 standard
    deviations. The kernel is separable, so the density is one matrix product, A Bᵀ. From 2^18 rows
    on it is A C Bᵀ with C the rows counted at the levels of either column, or at 2048 points.

    Parameters
    ----------
    u, v
        Two columns of n >= 2 rows, neither of them constant.
    damping
        Added to each cell before normalising.

    Returns
    -------
    Array
        The density (g, g), rows along u.
    """
    a, b = _standardise(u, "u"), _standardise(v, "v")
    n = len(a)
    require_length(b, n, "v")
    h = bandwidth(n)
    if n >= CELLS_FROM:
        # What lies farther out weighs less than 1e-31 at any point of the grid.
        ends = -GRID_REACH - 12 * h, GRID_REACH + 12 * h
        a_nodes, b_nodes = Nodes.of(a, *ends), Nodes.of(b, *ends)
        cells = count_cells(a, a_nodes, b, b_nodes)
        return density_of_cells(cells, a_nodes, b_nodes, n, damping=damping)
    centers = _centers(h)
    P = np.zeros((len(centers), len(centers)))
    # Blocks of rows keep the memory at O(g · block) for any n.
    for rows in row_blocks(n, _ROWS):
        P += _bumps(centers, a[rows], h) @ _bumps(centers, b[rows], h).T
    return _distribution(P, n, h, damping)


def density_of_cells(
    cells: Counts, a: Nodes, b: Nodes, n: int, *, damping: float = DAMPING
) -> Array:
    """Return `joint_density_grid` of n rows that were counted at points of standardised columns.

    Parameters
    ----------
    cells
        Of `count_cells`.
    a, b
        The points, in standard deviations from the mean.
    n
        Rows, of which some may lie beyond the points.
    damping
        Added to each cell before normalising.
    """
    h = bandwidth(n)
    centers = _centers(h)
    A, B = (_bumps(centers, nodes.points, nodes.window(h)) for nodes in (a, b))
    # Of one row each window holds one: the narrower, the higher.
    scale = h**2 / (a.window(h) * b.window(h) * SHARES**2)
    return _distribution(scale * (A @ cells @ B.T), n, h, damping)


def grid_centers(n: int) -> Array:
    """Return the points of either axis of the grid for n rows, in standard deviations."""
    return _centers(bandwidth(n))


def _centers(h: float) -> Array:
    """Points of either axis."""
    return np.linspace(-GRID_REACH, GRID_REACH, int(min(LARGEST_GRID, 5 / h)))


def _distribution(P: Array, n: int, h: float, damping: float) -> Array:
    """Return sums of weights over n rows as a damped distribution."""
    # The constant of the one-dimensional kernel: it only matters relative to the damping.
    P /= n * np.sqrt(2 * np.pi) * h
    P += damping
    P /= P.sum(axis=(0, 1))
    return P


def _hgr(f: Array, s: Array) -> float:
    """Second singular value of the damped density."""
    return float(np.clip(witsenhausen(joint_density_grid(f, s))[1], 0.0, 1.0))


def _chi2(f: Array, s: Array) -> float:
    """Squares of all singular values of the plain density but the leading one."""
    return float(np.sum(witsenhausen(joint_density_grid(f, s, damping=0.0))[1:] ** 2, axis=0))


def bandwidth(n: int) -> float:
    """Silverman's rate for two dimensions, in units of the standard deviations."""
    return float(n ** (-1 / 6))


def _standardise(values: ArrayLike, name: str) -> Array:
    """Zero mean, unit standard deviation (n - 1)."""
    column = as_column(values, name)
    if is_constant(column):
        raise ValueError(f"{name} must not be constant, got {len(column)} times {column[0]}")
    # A power of two changes no digit of what follows.
    column = in_unit(column)
    standard: Array = (column - column.mean(axis=0)) / column.std(axis=0, ddof=1)
    return standard


def _bumps(centers: Array, values: Array, h: float) -> Array:
    """exp(-(c - x)² / 2h²) for each center and value, (g, n)."""
    bumps: Array = np.exp(-0.5 * ((centers[:, None] - values) / h) ** 2)
    return bumps
