"""Weights of training rows: a row of weight w counts as w rows, a row of weight 0 is absent.

`RowWeights` holds the weights of the removal and of the machine, `PresentRows` the rows with a
positive weight, and the functions compute weighted sums, means and medians.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fkd.core.arrays import AnyArray, Array, IntArray, Rows
from fkd.core.linalg import gram
from fkd.core.validation import choice, weight_vector

WEIGH_OPTIONS = ("both", "removal", "fit")
# Purpose of a sum over rows: the machine, the removal, or neither, in which each row counts once.
Part = Literal["fit", "removal", "once"]


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows in the removal and in the machine; None counts each row once."""

    removal: Array | None = None
    fit: Array | None = None

    @classmethod
    def from_weights(cls, w: Array | None, weigh: Any) -> "RowWeights":
        """Return weights w for the parts that `weigh`, one of `WEIGH_OPTIONS`, names."""
        choice("weigh", weigh, WEIGH_OPTIONS)
        return cls(None if weigh == "fit" else w, None if weigh == "removal" else w)

    @property
    def alike(self) -> bool:
        """True if the removal and the machine have the same weights."""
        return self.removal is self.fit

    def by(self, part: Part) -> Array | None:
        """Return the weights of one part."""
        weights = {"fit": self.fit, "removal": self.removal, "once": None}
        return weights[part]

    def alike_part(self, part: Part) -> Part:
        """Return the first part with the same weights, whose sums can be used for this one."""
        parts: tuple[Part, ...] = ("fit", "removal", "once")
        return next(other for other in parts if self.by(other) is self.by(part))

    def part(self, rows: AnyArray) -> "RowWeights":
        """Return the weights of some of the rows."""
        fit = None if self.fit is None else self.fit[rows]
        if self.alike:
            return RowWeights(fit, fit)
        return RowWeights(None if self.removal is None else self.removal[rows], fit)

    def present(self, rows: IntArray) -> IntArray:
        """Return those of some rows whose weights are above 0."""
        for w in (self.removal, self.fit):
            rows = rows if w is None else rows[w[rows] > 0]
        return rows

    def share(self, rows: AnyArray, n: int) -> float:
        """Return the share of some of n rows in the total weight of the machine."""
        return len(rows) / n if self.fit is None else float(self.fit[rows].sum() / self.fit.sum())


UNWEIGHTED = RowWeights()


def row_count(n: int, w: Array | None) -> float:
    """Return the sum of the weights of n rows."""
    return n if w is None else float(w.sum(axis=0))


def times_weights(A: Array, w: Array | None) -> Array:
    """Return the rows of A (n,) or (n, k), each times its weight."""
    return A if w is None else np.asarray((A.T * w).T)


def weighted_gram(G: Array, w: Array | None) -> Array:
    """Return Gᵀ diag(w) G, at a third of the cost if G is triangular."""
    return gram(times_weights(G, None if w is None else np.sqrt(w)))


def weighted_sum(A: Array, w: Array | None) -> Array:
    """Return the weighted sum of the rows of A (n,) or (n, k)."""
    return np.asarray(A.sum(axis=0) if w is None else w @ A)


def weighted_mean(A: Array, w: Array | None) -> Array:
    """Return the weighted mean of the rows of A (n,) or (n, k)."""
    return np.asarray(A.mean(axis=0) if w is None else w @ A / w.sum(axis=0))


def weighted_std(A: Array, w: Array | None) -> Array:
    """Return the weighted standard deviation of the rows of A (n,) or (n, k)."""
    if w is None:
        return np.asarray(A.std(axis=0))
    return np.sqrt(weighted_mean((A - weighted_mean(A, w)) ** 2, w))


def weighted_median(A: Array, w: Array | None) -> Array:
    """Return the weighted median of each column of A (n, k), the mean of two middle values."""
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
    """The rows with a weight above 0, of n rows, and their weights."""

    n: int
    rows: IntArray | None = None  # their indices, None for all
    w: Array | None = None  # their weights, None if all are 1

    @classmethod
    def from_weights(
        cls, sample_weight: Any, n: int, *, least: int = 2, precomputed: bool = False
    ) -> "PresentRows":
        """Return the rows with a positive weight.

        Parameters
        ----------
        sample_weight
            Weights as a caller passed them.
        n
            Number of samples.
        least
            Smallest number of rows with a weight above 0. A single row has no variance to remove.
        precomputed
            True for a kernel matrix, whose columns are rows too: no row can be left out.
        """
        if sample_weight is None:
            return cls(n)
        w = weight_vector(sample_weight, n)
        assert w is not None
        if (found := np.count_nonzero(w)) < least:
            raise ValueError(
                f"sample_weight must be above 0 for at least {least} row{'s' * (least > 1)}, got "
                f"{found} of {n}. Rows of weight 0 are left out"
            )
        if (w > 0).all():
            # Weights of 1 give bitwise the same sums as no weights.
            return cls(n, None, None if (w == 1).all() else w)
        if precomputed:
            raise ValueError(
                "sample_weight must be above 0 if kernel='precomputed', whose columns are "
                f"training rows too, got 0 for {n - np.count_nonzero(w)} of {n}. Leave out these "
                "rows and their columns"
            )
        rows = np.flatnonzero(w)
        return cls(n, rows, None if (w[rows] == 1).all() else w[rows])

    def __len__(self) -> int:
        return self.n if self.rows is None else len(self.rows)

    def inputs(self, X: Rows) -> Rows:
        """Return the present rows of validated inputs."""
        return X if self.rows is None else X[self.rows]

    def select(self, name: str, data: Any) -> Any:
        """Return the present rows of another argument, in the type that the caller passed."""
        if data is None or self.rows is None:
            return data
        # Checked first: indexing would silently ignore surplus rows.
        if (found := _num_samples(data)) != self.n:
            raise ValueError(f"{name} must have one row per sample ({self.n}), got {found}")
        return _safe_indexing(data, self.rows)
