"""How many rows each training row counts for."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.linalg import gram
from fkd.core.parameters import choice

WEIGHED = ("both", "removal", "fit")
# What sums over rows are for: the machine, what is removed, neither: each row then counts once.
Part = Literal["fit", "removal", "once"]


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows in what is removed, in the machine on what is left; None counts once."""

    removal: Array | None = None
    fit: Array | None = None

    @classmethod
    def of(cls, w: Array | None, weigh: Any) -> "RowWeights":
        """Return the weights where `weigh`, one of `WEIGHED`, says that they count."""
        choice("weigh", weigh, WEIGHED)
        return cls(None if weigh == "fit" else w, None if weigh == "removal" else w)

    @property
    def alike(self) -> bool:
        """Whether one sum over rows serves both."""
        return self.removal is self.fit

    def by(self, part: Part) -> Array | None:
        """Return the weights that count in one part."""
        weights = {"fit": self.fit, "removal": self.removal, "once": None}
        return weights[part]

    def alike_part(self, part: Part) -> Part:
        """Return the first part with the same weights, whose sums over rows serve this one too."""
        parts: tuple[Part, ...] = ("fit", "removal", "once")
        return next(other for other in parts if self.by(other) is self.by(part))

    def part(self, rows: AnyArray) -> "RowWeights":
        """Return the weights of some of the rows."""
        fit = None if self.fit is None else self.fit[rows]
        if self.alike:
            return RowWeights(fit, fit)
        return RowWeights(None if self.removal is None else self.removal[rows], fit)

    def present(self, rows: IntArray) -> IntArray:
        """Return those of some rows that are there at all: 0 is a row that is not."""
        for w in (self.removal, self.fit):
            rows = rows if w is None else rows[w[rows] > 0]
        return rows

    def share(self, rows: AnyArray, n: int) -> float:
        """Return how much of what the machine is fitted to are some of n rows."""
        return len(rows) / n if self.fit is None else float(self.fit[rows].sum() / self.fit.sum())


# Every row counts once.
ONCE = RowWeights()


def row_count(n: int, w: Array | None) -> float:
    """Return how many rows n rows count for."""
    return n if w is None else float(w.sum(axis=0))


def times_weights(A: Array, w: Array | None) -> Array:
    """Return the rows of A (n,) or (n, k), each times its weight."""
    return A if w is None else np.asarray((A.T * w).T)


def weighted_gram(G: Array, w: Array | None) -> Array:
    """Return GᵀG of rows that count w times, at a third of the cost where G is triangular."""
    return gram(times_weights(G, None if w is None else np.sqrt(w)))


def weighted_sum(A: Array, w: Array | None) -> Array:
    """Return the sum of the rows of A (n,) or (n, k)."""
    return np.asarray(A.sum(axis=0) if w is None else w @ A)


def weighted_mean(A: Array, w: Array | None) -> Array:
    """Return the mean of the rows of A (n,) or (n, k)."""
    return np.asarray(A.mean(axis=0) if w is None else w @ A / w.sum(axis=0))


def weighted_std(A: Array, w: Array | None) -> Array:
    """Return the standard deviation of the rows of A (n,) or (n, k)."""
    if w is None:
        return np.asarray(A.std(axis=0))
    return np.sqrt(weighted_mean((A - weighted_mean(A, w)) ** 2, w))


def weighted_median(A: Array, w: Array | None) -> Array:
    """Return the median of each column of A (n, k), the middle of two where it lies between."""
    if w is None:
        return np.asarray(np.median(A, axis=0))
    found = np.empty(A.shape[1])
    for j, column in enumerate(A.T):
        order = np.argsort(column)
        below = np.cumsum(w[order])
        half = below[-1] / 2
        left, right = (np.searchsorted(below, half, side=side) for side in ("left", "right"))
        found[j] = (column[order[left]] + column[order[min(right, len(order) - 1)]]) / 2
    return found
