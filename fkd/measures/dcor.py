"""Distance correlation of Székely, Rizzo and Bakirov (2007), definition 4.

dCov²(f, s) = E|f-f'||s-s'| + E|f-f'| E|s-s'| - 2 E|f-f'||s-s''|

and dCor² = dCov²(f, s) / (dCov(f, f) dCov(s, s)). Both columns are reduced to weighted points, so
that the expectations are products of small matrices.
"""

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import as_column, as_sensitive
from fkd.measures.binned import BinnedRows
from fkd.measures.columns import drop_zero_weights, float_or_array, is_constant

_POINTS = 512


def dcor(
    y_pred: ArrayLike, sensitive_features: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float | Array:
    """Return the distance correlation of the prediction with each sensitive column.

    In the population it is 0 if and only if both are independent, and 1 if one is a linear
    function of the other. On n independent rows it is about 1 / sqrt(n).

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l).
    sample_weight
        Weights (n,), >= 0. Their unit does not matter.

    Returns
    -------
    float or Array
        A value in [0, 1] per sensitive column, exactly 0.0 if either side is constant.

    Notes
    -----
    A column with more than 512 distinct values is reduced to the means of at most 512 groups of
    neighbouring values.

    References
    ----------
    Székely, Rizzo and Bakirov (2007), "Measuring and testing dependence by correlation of
    distances", Annals of Statistics 35.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES
    >>> s = np.linspace(-1, 1, 200)
    >>> dcor = MEASURES["dcor"]
    >>> round(dcor(3 - 2 * s, s), 9), round(dcor(s**2, s), 2)
    (1.0, 0.49)
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    w, (f, S) = drop_zero_weights(sample_weight, f, S)
    p = np.full(len(f), 1.0) if w is None else w
    if is_constant(f):
        return float_or_array([0.0] * S.shape[1])
    f_points, f_index = _points(f, p)
    return float_or_array([_dcor(f_points, f_index, s, p) for s in S.T])


def dcor_of_bins(rows: BinnedRows) -> float:
    """Return the distance correlation of binned rows."""
    cells = np.asarray(rows.cells, dtype=float)
    return _dcor_of_table(cells / cells.sum(), rows.f_nodes.points, rows.s_nodes.points)


def _dcor(f_points: Array, f_index: IntArray, s: Array, p: Array) -> float:
    """Return the distance correlation of points of f, given by row, with one column."""
    if is_constant(s):
        return 0.0
    s_points, s_index = _points(s, p)
    shape = len(f_points), len(s_points)
    cells = np.bincount(f_index * shape[1] + s_index, weights=p, minlength=shape[0] * shape[1])
    return _dcor_of_table(cells.reshape(shape) / p.sum(), f_points, s_points)


def _points(x: Array, p: Array) -> tuple[Array, IntArray]:
    """Return at most 512 points that stand for a column, and the point of each row."""
    values, index = np.unique(x, return_inverse=True)
    if len(values) <= _POINTS:
        return values, index
    weights = np.bincount(index, weights=p)
    # Groups have about equal shares of the weight and of the spread, so that outliers stay apart.
    spread = weights * np.abs(values - weights @ values / weights.sum())
    shares = [np.cumsum(part) - part / 2 for part in (weights, spread)]
    position = (shares[0] / weights.sum() + shares[1] / spread.sum()) / 2
    group = np.unique((position * _POINTS).astype(np.int64), return_inverse=True)[1]
    means = np.bincount(group, weights=weights * values) / np.bincount(group, weights=weights)
    return means, group[index]


def _dcor_of_table(P: Array, f: Array, s: Array) -> float:
    """Return the distance correlation of a table of probabilities over points of f and s."""
    A, B = np.abs(f[:, None] - f), np.abs(s[:, None] - s)
    p, q = P.sum(axis=1), P.sum(axis=0)
    a, b = A @ p, B @ q
    joint = (P * (A @ P @ B)).sum() + (p @ a) * (q @ b) - 2 * (a @ P @ b)
    own_f = p @ A**2 @ p + (p @ a) ** 2 - 2 * (p @ a**2)
    own_s = q @ B**2 @ q + (q @ b) ** 2 - 2 * (q @ b**2)
    size = np.sqrt(own_f * own_s)
    return float(np.sqrt(np.clip(joint / size, 0.0, 1.0))) if size > 0 else 0.0
