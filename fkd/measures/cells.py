"""Counts of rows in the cells of a table of two columns.

A column with few levels is counted at its levels. Any other column is counted at equidistant
points: a row between two points is shared between them in proportion to its distance (linear
binning). Shares are integers, so counts of blocks of rows add up exactly, in any order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array

# Largest number of levels that are kept, and number of equidistant points otherwise.
NODES = 2048
# Shares of one row sum to this number. For fewer than 2^33 rows, sums of products of two shares
# stay below 2^53, so that they are exact in float64.
SHARES = 1 << 10
MOST_COUNTED = 1 << 33

# Rows per allowed level that are examined before a whole column is sorted.
_SAMPLE_FACTOR = 8

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Nodes:
    """Points of one column at which its rows are counted.

    Parameters
    ----------
    points
        Increasing (m,).
    step
        Distance between neighbours, or 0.0 if the points are the levels of the column.

    Examples
    --------
    >>> from fkd.measures import Nodes
    >>> Nodes.between(0.0, 1.0, number=5).points.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    points: Array
    step: float

    @classmethod
    def levels(cls, values: Array) -> "Nodes":
        """Return the distinct values as points."""
        return cls(np.unique(values), 0.0)

    @classmethod
    def between(cls, low: float, high: float, number: int = NODES) -> "Nodes":
        """Return equidistant points from low to high."""
        return cls(np.linspace(low, high, number), (high - low) / (number - 1))

    @classmethod
    def few_levels(cls, values: Array, limit: int) -> "Nodes | None":
        """Return the distinct values as points, or None if there are more than `limit`."""
        # The first rows usually decide, which avoids sorting all rows.
        if len(np.unique(values[: _SAMPLE_FACTOR * limit])) > limit:
            return None
        nodes = cls.levels(values)
        return nodes if len(nodes.points) <= limit else None

    def shares(self, values: Array) -> list[tuple[Counts, Counts]]:
        """Return pairs of point indices (n,) and shares (n,). Rows beyond the ends get no share."""
        last = len(self.points) - 1
        if not self.step:
            index = np.minimum(np.searchsorted(self.points, values), last)
            return [(index, np.where(self.points[index] == values, SHARES, 0))]
        positions = (values - self.points[0]) / self.step
        inside = (positions >= 0) & (positions <= last)
        index = np.clip(positions, 0, last - 1).astype(np.int64)
        upper = np.rint((positions - index) * SHARES, where=inside, out=np.zeros(len(values)))
        above = upper.astype(np.int64)
        return [(index, np.where(inside, SHARES - above, 0)), (index + 1, above)]

    def scaled(self, origin: float, unit: float) -> "Nodes":
        """Return the points as distances from an origin, in another unit."""
        return Nodes((self.points - origin) / unit, self.step / unit)

    def window(self, h: float) -> float:
        """Return the bandwidth at the points that corresponds to a bandwidth h at the rows.

        Sharing a row between neighbours adds step² / 6 to its variance on average.
        """
        if self.step >= h:
            raise ValueError(
                f"points must be closer than the window {h:g} of the measure, got steps of "
                f"{self.step:g}. Use a narrower range or more points"
            )
        return float(np.sqrt(h**2 - self.step**2 / 6))


def count_cells(
    f: Array, f_nodes: Nodes, s: Array, s_nodes: Nodes, w: Array | None = None
) -> Counts | Array:
    """Return the rows in each pair of points, in units of SHARES², (points of f, points of s).

    Counts are integers unless a weight is fractional or the weights sum to 2^33 or more.
    """
    shape = len(f_nodes.points), len(s_nodes.points)
    cells = np.zeros(shape[0] * shape[1])
    of_s = s_nodes.shares(s)
    for row, share in f_nodes.shares(f):
        for column, other in of_s:
            # Integers below 2^53 are exact in float64.
            shares = share * other if w is None else share * other * w
            cells += np.bincount(row * shape[1] + column, weights=shares, minlength=len(cells))
    whole = w is None or bool((w == np.rint(w)).all() and w.sum() < MOST_COUNTED)
    return cells.reshape(shape).astype(np.int64) if whole else cells.reshape(shape)
