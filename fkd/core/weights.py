"""How many rows each training row counts for."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fkd.core.arrays import AnyArray, Array, IntArray, Rows
from fkd.core.linalg import gram
from fkd.core.validation import choice, weight_vector

WEIGHED = ("both", "removal", "fit")
# What sums over rows are for: the machine, what is removed, neither: each row then counts once.
Part = Literal["fit", "removal", "once"]


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows in what is removed, in the machine on what is left; None counts once."""

    removal: Array | None = None
    fit: Array | None = None

    @classmethod
    def from_weights(cls, w: Array | None, weigh: Any) -> "RowWeights":
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


@dataclass(frozen=True)
class PresentRows:
    """Which of n rows are there, how many rows each of them counts for."""

    n: int
    rows: IntArray | None = None  # their numbers, None where all are there
    w: Array | None = None  # of those that are there, None where each counts once

    @classmethod
    def from_weights(
        cls, sample_weight: Any, n: int, *, least: int = 2, precomputed: bool = False
    ) -> "PresentRows":
        """Return the rows that weights leave.

        Parameters
        ----------
        sample_weight
            What a caller passed.
        n
            The number of samples.
        least
            How many must have a weight above 0: a single row has no spread to remove.
        precomputed
            Whether columns are rows too: none can then be left out.
        """
        if sample_weight is None:
            return cls(n)
        w = _checked(sample_weight, n, least)
        if (w > 0).all():
            # Ones have nothing to say: sums are then those without weights, bit for bit.
            return cls(n, None, None if (w == 1).all() else w)
        if precomputed:
            raise ValueError(
                "sample_weight must be above 0 where kernel='precomputed', whose columns are "
                f"training rows too, got 0 for {n - np.count_nonzero(w)} of {n}; leave out these "
                "rows with their columns"
            )
        rows = np.flatnonzero(w)
        return cls(n, rows, None if (w[rows] == 1).all() else w[rows])

    def __len__(self) -> int:
        return self.n if self.rows is None else len(self.rows)

    def inputs(self, X: Rows) -> Rows:
        """Return the checked rows that are there."""
        return X if self.rows is None else X[self.rows]

    def select(self, name: str, data: Any) -> Any:
        """Return what stands beside the rows that are there, still as a caller passed it."""
        if data is None or self.rows is None:
            return data
        # Before rows are taken: of too many the first would be taken for all.
        if (found := _num_samples(data)) != self.n:
            raise ValueError(f"{name} must have one row per sample ({self.n}), got {found}")
        return _safe_indexing(data, self.rows)


def _checked(sample_weight: Any, n: int, least: int) -> Array:
    """Return one weight per sample, of which enough are above 0."""
    w = weight_vector(sample_weight, n)
    assert w is not None
    if (found := np.count_nonzero(w)) < least:
        raise ValueError(
            f"sample_weight must be above 0 for at least {least} row{'s' * (least > 1)}, got "
            f"{found} of {n}; a row of weight zero is left out"
        )
    return w
