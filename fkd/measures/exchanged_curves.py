"""Means along s of two parts of the rows, for many divisions of them at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.measures.curves_along import POINTS
from fkd.measures.places import Places

# Rows that must count at a point on either side, were all of them to count alike.
_LEAST = 8


@dataclass(frozen=True)
class ExchangedCurves:
    """Curves of every column on both sides of every division.

    The window at a point is that of all rows together, so that both sides are smoothed alike even
    where they have other shares of the rows along s.

    Parameters
    ----------
    points
        Mean of s in each window, over all rows (g,).
    means
        By division, side, column and point, (r, 2, k, g); NaN where a side has too few rows.
    """

    points: Array
    means: Array

    @classmethod
    def of(cls, V: Array, s: Array, divisions: NDArray[np.bool_]) -> "ExchangedCurves":
        """Return the curves of columns (n, k) for divisions (r, n), true on the first side."""
        places = Places.of(s, POINTS)
        r, k, g = len(divisions), V.shape[1], len(places.points)
        first, whole = np.zeros((k + 2, g, r)), np.zeros((k + 2, g))
        at = np.zeros(g)
        for rows in row_blocks(len(V), BLOCK_ROWS):
            B = places.weights(rows)
            A = divisions[:, rows].T.astype(np.float64)
            at += B @ s[rows]
            for j, W in enumerate([*(B * v for v in V[rows].T), B, B**2]):
                first[j] += W @ A
                whole[j] += W.sum(axis=1)
        sides = np.stack([first, whole[:, :, None] - first])  # (2, k + 2, g, r)
        weight, squares = sides[:, k], sides[:, k + 1]
        seen = weight**2 >= _LEAST * np.maximum(squares, np.finfo(np.float64).tiny)
        means = np.where(seen[:, None], sides[:, :k] / np.where(seen, weight, 1.0)[:, None], np.nan)
        return cls(at / whole[k], means.transpose(3, 0, 1, 2))

    @property
    def flat(self) -> Array:
        """Columns and points in one row, (r, 2, k * g)."""
        return self.means.reshape(*self.means.shape[:2], -1)
