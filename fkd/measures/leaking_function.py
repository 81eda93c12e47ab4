"""The function of a sensitive attribute that a prediction gives away most."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, require_length
from fkd.core.row_weights import weighted_mean
from fkd.measures.columns import is_constant
from fkd.measures.hgr import grid_centers, joint_density_grid
from fkd.measures.joint_tables import normalised_table
from fkd.measures.repeated_rows import deviation_of, rows_in_all, weighed


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
