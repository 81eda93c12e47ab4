"""Joint distributions of two columns as tables of numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.validation import as_column, as_numbers, as_sensitive, choice, require_length
from fkd.core.weights import weighted_mean
from fkd.measures.cells import SHARES, Counts, Nodes, count_cells
from fkd.measures.columns import (
    HgrMargins,
    deviation_of,
    in_unit,
    is_constant,
    normal_scores,
    per_column,
    rows_in_all,
    warn_of_outliers,
    warn_of_rare_groups,
    weighed,
)
from fkd.measures.groups import by_stratum


def witsenhausen(P: ArrayLike) -> Array:
    """Return the singular values of P / sqrt(row sums x column sums), largest first.

    The first is one; the second is the maximal correlation of the joint distribution P; the
    squares of all but the first add up to chi-squared.

    Parameters
    ----------
    P
        A joint distribution as a table of non-negative numbers; it need not be normalised.

    Returns
    -------
    Array
        The singular values, descending.
    """
    Q, _, _ = normalised_table(P)
    return np.asarray(np.linalg.svd(Q, compute_uv=False), dtype=np.float64)


def normalised_table(P: ArrayLike) -> tuple[Array, Array, Array]:
    """Return P / sqrt(row sums x column sums) with the two margins, each summing to one.

    Rows or columns that never occur are left out: they are no part of the distribution.

    Parameters
    ----------
    P
        As in `witsenhausen`.
    """
    joint = as_numbers(P, "P")
    if joint.ndim != 2 or not joint.any() or (joint < 0).any():
        raise ValueError("P must be a table of non-negative numbers that are not all zero")
    joint = joint / joint.sum(axis=(0, 1))
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    joint = joint[np.ix_(rows > 0, columns > 0)]
    rows, columns = rows[rows > 0], columns[columns > 0]
    return joint / np.sqrt(rows)[:, None] / np.sqrt(columns), rows, columns


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
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0; a weight of two is a row that is there twice.
        See `survey_weights` for weights in another unit.

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
        return by_stratum(
            own, f, S, control_features=control_features, sample_weight=sample_weight
        ).mean
    w, (f, S) = weighed(sample_weight, f, S)
    if not margins:
        _warn(f, S, w, windows=2)
    return _per_pair(_hgr, f, S, margins, w)


def chi2(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    margins: HgrMargins | None = None,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0; a weight of two is a row that is there twice.
        See `survey_weights` for weights in another unit.

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
    w, (f, S) = weighed(sample_weight, f, S)
    if not margins:
        _warn(f, S, w, windows=1)
    return _per_pair(_chi2, f, S, margins, w)


def _warn(f: Array, S: Array, w: Array | None, *, windows: int) -> None:
    """Tell of outliers, or of groups farther than so many windows beyond the grid."""
    h = bandwidth(rows_in_all(w, len(f)))
    for column in (f, *S.T):
        warn_of_outliers(column, h * deviation_of(column, w), w)
        warn_of_rare_groups(column, GRID_REACH + h, windows * h, w)


def _per_pair(
    measure: Callable[[Array, Array, Array | None], float],
    f: Array,
    S: Array,
    margins: str | None,
    w: Array | None,
) -> float | Array:
    """Return a measure of f with each column, both in the unit that the margins ask for."""
    if margins is not None:
        choice("margins", margins, get_args(HgrMargins))

    def of_column(s: Array) -> float:
        if is_constant(f) or is_constant(s):
            return 0.0
        if margins == "rank":
            return measure(normal_scores(f, w), normal_scores(s, w), w)
        return measure(f, s, w)

    return per_column(of_column, S)


def joint_density_grid(
    u: ArrayLike, v: ArrayLike, w: Array | None = None, *, damping: float = DAMPING
) -> Array:
    """Return the Gaussian kernel density of standardised (u, v) on a g x g grid, summing to one.

    Bandwidth h = n^(-1/6); the g = min(50, 5/h) points of either axis reach 2.5 standard
    deviations. The kernel is separable, so the density is one matrix product, A Bᵀ. From 2^18 rows
    on it is A C Bᵀ with C the rows counted at the levels of either column, or at 2048 points.

    Parameters
    ----------
    u, v
        Two columns of n >= 2 rows, neither of them constant.
    w
        How many rows each row stands for (n,), above zero.
    damping
        Added to each cell before normalising.

    Returns
    -------
    Array
        The density (g, g), rows along u.
    """
    a, b = _standardise(u, "u", w), _standardise(v, "v", w)
    require_length(b, len(a), "v")
    n = rows_in_all(w, len(a))
    h = bandwidth(n)
    if len(a) >= CELLS_FROM:
        # What lies farther out weighs less than 1e-31 at any point of the grid.
        ends = -GRID_REACH - 12 * h, GRID_REACH + 12 * h
        a_nodes, b_nodes = Nodes.of(a, *ends), Nodes.of(b, *ends)
        cells = count_cells(a, a_nodes, b, b_nodes, w)
        return density_of_cells(cells, a_nodes, b_nodes, n, damping=damping)
    centers = _centers(h)
    P = np.zeros((len(centers), len(centers)))
    # Blocks of rows keep the memory at O(g · block) for any n.
    for rows in row_blocks(len(a), _ROWS):
        A = _bumps(centers, a[rows], h)
        P += (A if w is None else A * w[rows]) @ _bumps(centers, b[rows], h).T
    return _distribution(P, n, h, damping)


def density_of_cells(
    cells: Counts | Array, a: Nodes, b: Nodes, n: float, *, damping: float = DAMPING
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


def grid_centers(n: float) -> Array:
    """Return the points of either axis of the grid for n rows, in standard deviations."""
    return _centers(bandwidth(n))


def _centers(h: float) -> Array:
    """Points of either axis."""
    return np.linspace(-GRID_REACH, GRID_REACH, int(min(LARGEST_GRID, 5 / h)))


def _distribution(P: Array, n: float, h: float, damping: float) -> Array:
    """Return sums of weights over n rows as a damped distribution."""
    # The constant of the one-dimensional kernel: it only matters relative to the damping.
    P /= n * np.sqrt(2 * np.pi) * h
    P += damping
    P /= P.sum(axis=(0, 1))
    return P


def _hgr(f: Array, s: Array, w: Array | None) -> float:
    """Second singular value of the damped density."""
    return float(np.clip(witsenhausen(joint_density_grid(f, s, w))[1], 0.0, 1.0))


def _chi2(f: Array, s: Array, w: Array | None) -> float:
    """Squares of all singular values of the plain density but the leading one."""
    return float(np.sum(witsenhausen(joint_density_grid(f, s, w, damping=0.0))[1:] ** 2, axis=0))


def bandwidth(n: float) -> float:
    """Silverman's rate for two dimensions, in units of the standard deviations."""
    return float(n ** (-1 / 6))


def _standardise(values: ArrayLike, name: str, w: Array | None) -> Array:
    """Zero mean, unit standard deviation (n - 1)."""
    column = as_column(values, name)
    if is_constant(column):
        raise ValueError(f"{name} must not be constant, got {len(column)} times {column[0]}")
    # A power of two changes no digit of what follows.
    column = in_unit(column)
    standard: Array = (column - weighted_mean(column, w)) / deviation_of(column, w, ddof=1)
    return standard


def _bumps(centers: Array, values: Array, h: float) -> Array:
    """exp(-(c - x)² / 2h²) for each center and value, (g, n)."""
    bumps: Array = np.exp(-0.5 * ((centers[:, None] - values) / h) ** 2)
    return bumps


@dataclass(frozen=True)
class LeakingFunction:
    """The pair of functions a(y_pred), b(s) whose correlation is the HGR of the two.

    Parameters
    ----------
    correlation
        The maximal correlation, as `hgr` has it.
    points, values
        b at points of s within its range; over the rows it has mean 0, variance about 1.
    predictions, scores
        a at points of the prediction, rising with the prediction on the whole.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import LeakingFunction
    >>> ends, line = np.array([18.0, 80.0]), np.array([-1.0, 1.0])
    >>> leak = LeakingFunction(0.5, points=ends, values=line, predictions=ends, scores=line)
    >>> leak.correlation
    0.5
    """

    correlation: float
    points: Array
    values: Array
    predictions: Array
    scores: Array


def leaking_function(
    y_pred: ArrayLike, sensitive: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> LeakingFunction:
    """Return a, b that maximise corr(a(y_pred), b(s)): the first singular vectors beyond one.

    Whatever somebody wants to know about s, this function of it can be guessed best from the
    prediction. It is known on the grid of `hgr`, hence no finer than its window.

    Parameters
    ----------
    y_pred
        Predictions (n,) that vary.
    sensitive
        One column (n,) that varies.
    sample_weight
        How many rows each row stands for (n,), >= 0; a weight of two is a row that is there twice.
        See `survey_weights` for weights in another unit.

    Returns
    -------
    LeakingFunction
        Both functions at points within the range of their column, with their correlation.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import leaking_function
    >>> s = np.linspace(-1, 1, 401)
    >>> leak = leaking_function(s**2, s)  # how far s is from the middle, not on which side
    >>> middle = len(leak.points) // 2
    >>> bool(leak.values[0] > 1 and leak.values[middle] < -1 and leak.values[-1] > 1)
    True
    """
    f, s = as_column(y_pred, "y_pred"), as_column(sensitive, "sensitive")
    require_length(s, len(f), "sensitive")
    w, (f, s) = weighed(sample_weight, f, s)
    for name, column in (("y_pred", f), ("sensitive", s)):
        if is_constant(column):
            raise ValueError(f"{name} must vary to give anything away, got only {column[0]:g}")
    Q, rows, columns = normalised_table(joint_density_grid(f, s, w))
    left, singular, right = np.linalg.svd(Q)
    a, b = left[:, 1] / np.sqrt(rows), right[1] / np.sqrt(columns)
    centers = grid_centers(rows_in_all(w, len(f)))
    # Singular vectors have no sign of their own; together they keep the correlation positive.
    if (rows * a) @ centers < 0:
        a, b = -a, -b
    return LeakingFunction(
        float(np.clip(singular[1], 0.0, 1.0)),
        *_within(s, centers, b, w),
        *_within(f, centers, a, w),
    )


def _within(column: Array, centers: Array, values: Array, w: Array | None) -> tuple[Array, Array]:
    """Return points of the grid in the column's unit with the values there, both in its range."""
    points = weighted_mean(column, w) + deviation_of(column, w, ddof=1) * centers
    inside = (points >= column.min(axis=0)) & (points <= column.max(axis=0))
    if inside.sum(axis=0) >= 2:
        return points[inside], values[inside]
    ends = np.array([column.min(axis=0), column.max(axis=0)])
    return ends, np.interp(ends, points, values)
