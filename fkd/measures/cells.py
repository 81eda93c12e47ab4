"""Rows counted in the cells of a table of two columns, in integers that add over blocks of rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array

# A column of at most so many levels keeps them; any other is cut at so many points.
NODES = 2048
# A row between two points belongs to both by shares in this unit: integers, whose sums do not
# depend on the order of rows. Below 2^33 rows a sum of products of two shares stays below 2^53.
SHARES = 1 << 10

# Rows for each level that a column may have, among which more of them would show.
_FRONT = 8

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Nodes:
    """Points of one column at which its rows are counted.

    Parameters
    ----------
    points
        Rising (m,).
    step
        Distance of neighbours, between which rows are shared out; 0.0 where the points are all the
        levels of the column.

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
        """Return the different values as points."""
        return cls(np.unique(values), 0.0)

    @classmethod
    def between(cls, low: float, high: float, number: int = NODES) -> "Nodes":
        """Return equidistant points from low to high."""
        return cls(np.linspace(low, high, number), (high - low) / (number - 1))

    @classmethod
    def of(cls, values: Array, low: float, high: float) -> "Nodes":
        """Return the levels of a column if they are few, else equidistant points."""
        return cls.few_levels(values, NODES) or cls.between(low, high)

    @classmethod
    def few_levels(cls, values: Array, most: int) -> "Nodes | None":
        """Return the different values as points, None where they are more than `most`.

        Mostly the first rows tell that they are: then all of them are not sorted.
        """
        if len(np.unique(values[: _FRONT * most])) > most:
            return None
        nodes = cls.levels(values)
        return nodes if len(nodes.points) <= most else None

    def shares(self, values: Array) -> list[tuple[Counts, Counts]]:
        """Return the points that each row belongs to with its shares, none beyond the ends."""
        last = len(self.points) - 1
        if not self.step:
            index = np.minimum(np.searchsorted(self.points, values), last)
            return [(index, np.where(self.points[index] == values, SHARES, 0))]
        places = (values - self.points[0]) / self.step
        inside = (places >= 0) & (places <= last)
        index = np.clip(places, 0, last - 1).astype(np.int64)
        upper = np.rint((places - index) * SHARES, where=inside, out=np.zeros(len(values)))
        above = upper.astype(np.int64)
        return [(index, np.where(inside, SHARES - above, 0)), (index + 1, above)]

    def window(self, h: float) -> float:
        """Return the width of a Gaussian window of the points that equals one of width h of rows.

        A row shared out between its neighbours is spread by step² / 6 on average.
        """
        if self.step >= h:
            raise ValueError(
                f"points must be closer than the window {h:g} of the measure, got steps of "
                f"{self.step:g}; take a narrower range or more points"
            )
        return float(np.sqrt(h**2 - self.step**2 / 6))


def count_cells(
    f: Array, f_nodes: Nodes, s: Array, s_nodes: Nodes, w: Array | None = None
) -> Counts | Array:
    """Return the rows in each pair of points, in units of SHARES², (points of f, points of s).

    Integers, unless rows stand for w rows each and some of these numbers are not whole.
    """
    shape = len(f_nodes.points), len(s_nodes.points)
    cells = np.zeros(shape[0] * shape[1])
    of_s = s_nodes.shares(s)
    for row, share in f_nodes.shares(f):
        for column, other in of_s:
            # Exact in float64: all sums are integers below 2^53.
            shares = share * other if w is None else share * other * w
            cells += np.bincount(row * shape[1] + column, weights=shares, minlength=len(cells))
    whole = w is None or bool((w == np.rint(w)).all())
    return cells.reshape(shape).astype(np.int64) if whole else cells.reshape(shape)
