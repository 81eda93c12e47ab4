"""HGR, the maximal correlation of Hirschfeld, Gebelein and Rényi, and the chi-squared divergence.

    HGR(f, s) = sup corr(a(f), b(s)) over all functions a, b with finite variance

The estimator is that of Mary et al. (2019):

1. Standardise both columns (n - 1 in the standard deviation).
2. Estimate the joint density by a Gaussian kernel of bandwidth h = n^(-1/6), on a grid of
   g = min(50, 5/h) equidistant points per axis within 2.5 standard deviations of the mean. Add
   1e-10 to each cell and normalise. The kernel is a product, so the table is P = A Bᵀ with
   A[i, k] = exp(-(c_i - u_k)² / 2h²), and B the same for the other column.
3. Divide by the margins, Q[i, j] = P[i, j] / sqrt(p_i q_j). The largest singular value of Q is
   one, with constant functions. The second is HGR (Witsenhausen 1975). Its singular vectors are
   the functions a and b (`leaking_function`).

chi-squared is the sum of the squares of all singular values but the first, without the 1e-10.

References
----------
Mary, Calauzènes & El Karoui (2019), "Fairness-Aware Learning for Continuous Attributes and
Treatments", ICML.
Witsenhausen (1975), "On Sequences of Pairs of Dependent Random Variables", SIAM J. Appl. Math.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.validation import as_column, as_sensitive, choice, warn_user
from fkd.core.weights import weighted_mean
from fkd.measures.columns import (
    NODES,
    SHARES,
    Counts,
    Nodes,
    by_rank,
    count_cells,
    drop_zero_weights,
    equal_columns,
    float_or_array,
    is_constant,
    scale_below_one,
    standard_deviation,
    total_weight,
    warn_outliers,
)
from fkd.measures.groups import by_stratum

# Scale of both sides: by standard deviation, as published, or by rank.
Margins = Literal["standard", "rank"]
GRID_REACH = 2.5  # standard deviations on either side of the mean that the grid covers
LARGEST_GRID = 50
DAMPING = 1e-10  # added to each cell, so that no margin is zero
# From this number of rows on, rows are counted in cells before the density is computed.
CELLS_FROM = 1 << 18
_ROWS = 4 * BLOCK_ROWS  # rows of one matrix product: a few hundred kilobytes per factor
# Smallest share and number of rows beyond the grid that are reported as a group.
_RARE, _FEWEST = 0.005, 5


@dataclass(frozen=True)
class LeakingFunction:
    """The functions a(y_pred) and b(s) whose correlation is HGR.

    Parameters
    ----------
    correlation
        The maximal correlation, equal to `hgr`.
    points, values
        Points within the range of s, and b there. Over the rows b has mean 0 and variance about 1.
    predictions, scores
        Points within the range of the prediction, and a there. a is positively correlated with the
        prediction.

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


def hgr(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    margins: Margins | None = None,
    control_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the maximal correlation of y_pred with each sensitive column.

    It is zero under independence and one if a function of y_pred is a function of s. The kernel
    density estimate has a noise floor (about 0.10 with 400 rows, see `noise_floor`).

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    margins
        "standard" divides both sides by their standard deviation, as published. "rank" replaces
        them by the normal scores of their ranks. The true maximal correlation is the same, and
        outliers have no effect. None is "standard" with a warning if outliers hide the dependence
        among the other rows.
    control_features
        Conditioning columns (n,) or (n, k). The measure is computed within each of their groups of
        rows and averaged, weighted by rows. `by_stratum` returns the groups.
    sample_weight
        Weights (n,), >= 0. A weight of two counts as two equal rows. Use `survey_weights` to scale
        weights in another unit.

    Returns
    -------
    float or Array
        A value in [0, 1] per sensitive column, exactly 0.0 if either side is constant.

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
        within = partial(hgr, margins=margins)
        return by_stratum(
            within, f, S, control_features=control_features, sample_weight=sample_weight
        ).mean
    spectra = _spectra(f, S, margins, sample_weight, windows=2)
    return float_or_array([float(np.clip(singular[1], 0.0, 1.0)) for singular in spectra])


def chi2(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    margins: Margins | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the chi-squared divergence of the joint density from independence, per column.

    It is the sum of all squared maximal correlations, and therefore at least `hgr` squared.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l), in any unit.
    margins
        "standard" divides both sides by their standard deviation. "rank" replaces them by the
        normal scores of their ranks. None is "standard" with a warning about outliers.
    sample_weight
        Weights (n,), >= 0. A weight of two counts as two equal rows. Use `survey_weights` to scale
        weights in another unit.

    Returns
    -------
    float or Array
        A value >= 0 per sensitive column, exactly 0.0 if either side is constant.

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
    spectra = _spectra(f, S, margins, sample_weight, windows=1, damping=0.0)
    return float_or_array([float(np.sum(singular[1:] ** 2)) for singular in spectra])


def leaking_function(
    y_pred: ArrayLike, sensitive: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> LeakingFunction:
    """Return the functions a, b that maximise corr(a(y_pred), b(s)).

    b is the function of s that the prediction reveals best. Both come from the second singular
    vectors on the grid of `hgr`, so they are no finer than its bandwidth.

    Parameters
    ----------
    y_pred
        Predictions (n,) that vary.
    sensitive
        One column (n,) that varies.
    sample_weight
        Weights (n,), >= 0. A weight of two counts as two equal rows. Use `survey_weights` to scale
        weights in another unit.

    Returns
    -------
    LeakingFunction
        Both functions at points within the range of their column, and their correlation.

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
    f, s = equal_columns(y_pred=y_pred, sensitive=sensitive)
    w, (f, s) = drop_zero_weights(sample_weight, f, s)
    for name, column in (("y_pred", f), ("sensitive", s)):
        if is_constant(column):
            raise ValueError(f"{name} must vary, got {len(column)} times {column[0]:g}")
    Q, rows, columns = normalise_table(joint_density_grid(f, s, w))
    left, singular, right = np.linalg.svd(Q)
    a, b = left[:, 1] / np.sqrt(rows), right[1] / np.sqrt(columns)
    centers = _centers(bandwidth(total_weight(w, len(f))))
    # The sign of a pair of singular vectors is arbitrary: a is chosen to increase with f.
    if (rows * a) @ centers < 0:
        a, b = -a, -b
    return LeakingFunction(
        float(np.clip(singular[1], 0.0, 1.0)),
        *_in_range(s, centers, b, w),
        *_in_range(f, centers, a, w),
    )


def _spectra(
    f: Array,
    S: Array,
    margins: Margins | None,
    sample_weight: ArrayLike | None,
    *,
    windows: int,
    damping: float = DAMPING,
) -> list[Array]:
    """Return the singular values of the density of f with each column (`witsenhausen`).

    Parameters
    ----------
    f, S
        Predictions (n,) and sensitive columns (n, l).
    margins, sample_weight
        As for `hgr`.
    windows
        Groups of rows more than so many bandwidths beyond the grid give a warning.
    damping
        Added to each cell before normalising.
    """
    choice("margins", margins or "standard", get_args(Margins))
    w, (f, S) = drop_zero_weights(sample_weight, f, S)
    if not margins:
        _warn_hidden_rows(f, S, w, windows)

    def spectrum(s: Array) -> Array:
        if is_constant(f) or is_constant(s):
            return np.array([1.0, 0.0])  # that of independent columns
        u, v = (ndtri(by_rank(x, w)) if margins == "rank" else x for x in (f, s))
        return witsenhausen(joint_density_grid(u, v, w, damping=damping))

    return [spectrum(s) for s in S.T]


def _warn_hidden_rows(f: Array, S: Array, w: Array | None, windows: int) -> None:
    """Warn about outliers, and about groups more than `windows` bandwidths beyond the grid."""
    n = total_weight(w, len(f))
    h = bandwidth(n)
    reach = GRID_REACH + h
    for column in (f, *S.T):
        scale = standard_deviation(column, w)
        warn_outliers(column, h * scale, w)
        z = column - weighted_mean(column, w)
        for side in (z, -z) if scale > 0 else ():
            beyond = side > reach * scale
            rows = beyond.sum() if w is None else w[beyond].sum()
            if rows < max(_FEWEST, _RARE * n) or beyond.all():
                continue
            # A group, unlike a tail, is farther from the other rows than it is wide.
            apart = side[beyond].min() - side[~beyond].max()
            if apart > max(windows * h * scale, np.ptp(side[beyond])):
                warn_user(
                    f"{rows:.15g} of {n:.15g} rows stand apart, more than {reach:.1f} standard "
                    "deviations from the mean, beyond the grid of this measure. Use gdp for them, "
                    "or set margins explicitly"
                )


def _in_range(column: Array, centers: Array, values: Array, w: Array | None) -> tuple[Array, Array]:
    """Return the grid points within the range of a column, in its unit, and the values there."""
    points = weighted_mean(column, w) + standard_deviation(column, w, ddof=1) * centers
    inside = (points >= column.min(axis=0)) & (points <= column.max(axis=0))
    if inside.sum(axis=0) >= 2:
        return points[inside], values[inside]
    ends = np.array([column.min(axis=0), column.max(axis=0)])
    return ends, np.interp(ends, points, values)


def witsenhausen(P: Array) -> Array:
    """Return the singular values of P / sqrt(row sums x column sums), largest first.

    The first is one. The second is the maximal correlation of the joint distribution P. The
    squares of all but the first sum to the chi-squared divergence.

    Parameters
    ----------
    P
        A joint distribution as a table of non-negative numbers. It need not be normalised.
    """
    Q, _, _ = normalise_table(P)
    return np.asarray(np.linalg.svd(Q, compute_uv=False), dtype=np.float64)


def normalise_table(P: Array) -> tuple[Array, Array, Array]:
    """Return P / sqrt(row sums x column sums) and both margins, each summing to one.

    Rows and columns without probability are dropped.
    """
    joint = P / P.sum(axis=(0, 1))
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    joint = joint[np.ix_(rows > 0, columns > 0)]
    rows, columns = rows[rows > 0], columns[columns > 0]
    return joint / np.sqrt(rows)[:, None] / np.sqrt(columns), rows, columns


def joint_density_grid(
    u: Array, v: Array, w: Array | None = None, *, damping: float = DAMPING
) -> Array:
    """Return the Gaussian kernel density of standardised (u, v) on a g x g grid, summing to one.

    From 2^18 rows on it is A C Bᵀ, with C the counts of rows at the levels of either column, or at
    2048 points.

    Parameters
    ----------
    u, v
        Two columns of n >= 2 rows, neither constant.
    w
        Weights (n,), above zero.
    damping
        Added to each cell before normalising.

    Returns
    -------
    Array
        The density (g, g), rows along u.
    """
    a, b = _standardise(u, w), _standardise(v, w)
    n = total_weight(w, len(a))
    h = bandwidth(n)
    if len(a) >= CELLS_FROM:
        # Beyond these ends the kernel is below 1e-31 at every point of the grid.
        ends = -GRID_REACH - 12 * h, GRID_REACH + 12 * h
        a_nodes, b_nodes = (Nodes.few_levels(x, NODES) or Nodes.between(*ends) for x in (a, b))
        cells = count_cells(a, a_nodes, b, b_nodes, w)
        return density_from_cells(cells, a_nodes, b_nodes, n, damping=damping)
    centers = _centers(h)
    P = np.zeros((len(centers), len(centers)))
    # Memory is O(g · block) for any n.
    for rows in row_blocks(len(a), _ROWS):
        A = _kernel_values(centers, a[rows], h)
        P += (A if w is None else A * w[rows]) @ _kernel_values(centers, b[rows], h).T
    return _normalise(P, n, h, damping)


def density_from_cells(
    cells: Counts | Array, a: Nodes, b: Nodes, n: float, *, damping: float = DAMPING
) -> Array:
    """Return `joint_density_grid` of n rows counted at points of the standardised columns.

    Parameters
    ----------
    cells
        Counts from `count_cells`.
    a, b
        The points, in standard deviations from the mean.
    n
        Number of rows, including rows beyond the points.
    damping
        Added to each cell before normalising.
    """
    h = bandwidth(n)
    centers = _centers(h)
    A, B = (_kernel_values(centers, nodes.points, nodes.window(h)) for nodes in (a, b))
    # `_normalise` expects kernels of width h. The narrower ones are scaled to the same integral.
    scale = h**2 / (a.window(h) * b.window(h) * SHARES**2)
    return _normalise(scale * (A @ cells @ B.T), n, h, damping)


def bandwidth(n: float) -> float:
    """Return n^(-1/6), Silverman's rate in two dimensions, in standard deviations."""
    return float(n ** (-1 / 6))


def _centers(h: float) -> Array:
    """Return the points of either axis, in standard deviations."""
    return np.linspace(-GRID_REACH, GRID_REACH, int(min(LARGEST_GRID, 5 / h)))


def _standardise(column: Array, w: Array | None) -> Array:
    """Return a column that varies with mean zero and standard deviation (n - 1) one."""
    # Dividing by a power of two is exact and avoids underflow of squares.
    column = scale_below_one(column)
    standard: Array = (column - weighted_mean(column, w)) / standard_deviation(column, w, ddof=1)
    return standard


def _kernel_values(centers: Array, values: Array, h: float) -> Array:
    """Return exp(-(c - x)² / 2h²) for each center and value, (g, n)."""
    kernel: Array = np.exp(-0.5 * ((centers[:, None] - values) / h) ** 2)
    return kernel


def _normalise(P: Array, n: float, h: float, damping: float) -> Array:
    """Return sums of kernel values over n rows as a damped distribution."""
    # The constant is that of a one-dimensional kernel, as published. It only matters relative to
    # the damping.
    P /= n * np.sqrt(2 * np.pi) * h
    P += damping
    P /= P.sum(axis=(0, 1))
    return P
