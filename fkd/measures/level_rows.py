"""Weighted sums of columns near points of s, from sums over rows that share their place."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.measures.places import Places


@dataclass(frozen=True)
class LevelRows:
    """Columns of some rows, added up where these count alike at every point.

    A million rows of eighty ages have eighty places. Where all differ, a level is a row.

    Parameters
    ----------
    places
        Points, with the levels in place of rows.
    once, twice
        Sum of the weights of each level's rows, of their squares, (levels,).
    totals
        Weighted sums of the columns, (levels, k).
    centers
        Means of the columns by squared weights, (levels, k).
    around
        Squared distances from them, weighted by squares, (levels, k).
    """

    places: Places
    once: Array
    twice: Array
    totals: Array
    centers: Array
    around: Array

    @classmethod
    def of(cls, V: Array, places: Places) -> "LevelRows":
        """Return the rows of columns V, (n, k)."""
        levels, index = np.unique(places.of_rows, return_inverse=True)
        w = np.ones(len(V)) if places.w is None else places.w

        def added(values: Array) -> Array:
            found = np.bincount(index, weights=values, minlength=len(levels))
            return np.asarray(found, dtype=np.float64)

        twice = added(w**2)
        centers = [added(w**2 * v) / twice for v in V.T]
        around = [added(w**2 * (v - c[index]) ** 2) for v, c in zip(V.T, centers, strict=True)]
        return cls(
            replace(places, of_rows=levels, w=None),
            added(w),
            twice,
            np.column_stack([added(w * v) for v in V.T]),
            np.column_stack(centers),
            np.column_stack(around),
        )

    def at(self, some: NDArray[np.bool_]) -> "LevelRows":
        """Return the same rows at some of the points."""
        points = replace(self.places, points=self.places.points[some], at=self.places.at[some])
        return replace(self, places=points)

    @cached_property
    def _sums(self) -> Array:
        """Of every column, then of weights, then of squared ones, (g, k + 2)."""
        sums = np.zeros((len(self.places.points), self.totals.shape[1] + 2))
        for levels in row_blocks(len(self.once), BLOCK_ROWS):
            B = self.places.weights(levels)
            sums[:, :-2] += B @ self.totals[levels]
            sums[:, -2] += B @ self.once[levels]
            sums[:, -1] += B**2 @ self.twice[levels]
        return sums

    @property
    def weight(self) -> Array:
        """By how much rows count at each point, (g,)."""
        return self._sums[:, -2]

    @property
    def squares(self) -> Array:
        """Sum of the squares of what each row counts there, (g,)."""
        return self._sums[:, -1]

    @property
    def means(self) -> Array:
        """Of every column at every point, (k, g)."""
        return (self._sums[:, :-2] / self.weight[:, None]).T

    def spreads(self) -> Iterator[Array]:
        """Yield for each column the sums over rows of their distances from two points' means.

        Of a row that counts b at one point and c at another: b c (v - mean) (v - other mean),
        (g, g).
        """
        g = len(self.places.points)
        H = np.zeros((self.totals.shape[1], g, g))
        for levels in row_blocks(len(self.once), BLOCK_ROWS):
            B = self.places.weights(levels)
            size = np.sqrt(self.twice[levels])
            for j, mean in enumerate(self.means):
                # Around a level's own center distances from it and from the mean do not mix.
                inner = B * np.sqrt(self.around[levels, j])
                outer = B * (size * (self.centers[levels, j] - mean[:, None]))
                H[j] += inner @ inner.T + outer @ outer.T
        yield from H
