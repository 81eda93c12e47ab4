"""Joint distributions of two columns as tables of numbers."""

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_numbers


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
