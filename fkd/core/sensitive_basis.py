"""Bases of functions of the sensitive attribute: what a prediction should not covary with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.preprocessing import SplineTransformer

from fkd.core.arrays import AnyArray, Array
from fkd.core.kernels import Kernel
from fkd.core.validation import choice, positive
from fkd.core.weights import row_count, weighted_mean

BASES = ("columns", "rbf", "splines", "levels")
# Landmarks at most, at most one per four rows; at gamma_s = 10 one column needs some twenty.
RBF_SIZE, _ROWS_PER_LANDMARK = 64, 4
SPLINE_KNOTS = 8
# What landmarks leave of the kernel of s: far below what any sample could show.
_RESIDUAL = 1e-10
# Values among which landmarks are looked for, points at which a distribution is known.
_MOST_VALUES = 4000


class SensitiveBasis(Protocol):
    """Functions of the sensitive columns."""

    def __call__(self, S: Array) -> Array:
        """Return one column per function, (n, p)."""


@dataclass(frozen=True)
class BasisSettings:
    """Which basis is meant: a kind, the width of its kernel.

    ``"columns"`` are the sensitive columns themselves; ``"rbf"`` an RBF kernel on all of them
    together, by landmarks; ``"splines"`` cubic splines on the ranks of each; ``"levels"`` one
    indicator per value of each, for discrete ones.
    """

    kind: str = field(default="rbf", metadata={"choices": BASES})
    gamma_s: float = 10.0

    def fit(
        self, S: Array, limits: ArrayLike | None = None, *, w: Array | None = None
    ) -> SensitiveBasis:
        """Return the basis that rows S (n, l) decide.

        Parameters
        ----------
        S
            Sensitive columns of training rows, or of rows that every split trains on.
        limits
            Least and greatest value of each column, (l, 2): the unit in which `gamma_s` is
            counted; of these rows where None.
        w
            How many rows each counts for, (n,); None is one.
        """
        choice("basis", self.kind, BASES)
        low, high = (S.min(axis=0), S.max(axis=0)) if limits is None else np.asarray(limits).T
        scaled = Scaled(low, np.where(high > low, high - low, 1.0))
        if self.kind == "columns":
            return scaled
        if self.kind == "levels":
            return LevelBasis(tuple(np.unique(column) for column in S.T))
        if self.kind == "splines":
            return SplineBasis.from_rows(S, w)
        # Weights below one must not leave too few functions to see a dependence by.
        rows = max(len(S), int(row_count(len(S), w)))
        return RbfBasis.from_rows(scaled, S, positive("gamma_s", self.gamma_s), rows)


def centred(basis: SensitiveBasis, S: Array, w: Array | None = None) -> SensitiveBasis:
    """Return the functions less their means over rows S: an offset would cost a sum digits.

    Rows count w times. As many functions as rows are refused: any prediction would be one of them.
    """
    B = basis(S)
    (n, p), means = B.shape, weighted_mean(B, w)
    if p >= n:
        raise ValueError(
            f"basis must have fewer functions than the {n} training rows, got {p}; use 'rbf', "
            f"which has at most one per {_ROWS_PER_LANDMARK} rows"
        )
    return lambda S: basis(S) - means


@dataclass(frozen=True)
class Scaled:
    """The columns themselves, in units of a range."""

    low: Array
    span: Array

    def __call__(self, S: Array) -> Array:
        """Return (s - low) / span."""
        return np.asarray((S - self.low) / self.span)


@dataclass(frozen=True)
class RbfBasis:
    """B(s) with B(s)·B(s') = exp(-gamma |s - s'|²) up to what the landmarks leave."""

    scaled: Scaled
    kernel: Kernel
    centers: Array  # (p, l)
    L: Array  # lower triangular, of the landmarks' kernel matrix

    @classmethod
    def from_rows(cls, scaled: Scaled, S: Array, gamma: float, rows: int) -> "RbfBasis":
        """Return the basis of landmarks among S, which count as so many rows.

        Each is where most is unexplained.
        """
        values = distinct(scaled(S))
        kernel = Kernel("rbf", gamma)
        size = min(RBF_SIZE, max(1, rows // _ROWS_PER_LANDMARK))
        pivots, _ = greedy_factor(kernel, values, size=size, cut=_RESIDUAL)
        centers = values[pivots]
        return cls(scaled, kernel, centers, np.linalg.cholesky(kernel(centers, centers)))

    def __call__(self, S: Array) -> Array:
        """Return k(s, Z) L⁻ᵀ."""
        K = self.kernel(self.centers, self.scaled(S))
        return np.asarray(solve_triangular(self.L, K, lower=True, check_finite=False).T)


def distinct(S: Array) -> Array:
    """Return different rows of S in order, evenly picked where they are many."""
    values = np.unique(S, axis=0)
    if len(values) <= _MOST_VALUES:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, num=_MOST_VALUES).astype(np.intp)])


def greedy_factor(
    kernel: Kernel, values: Array, *, size: int, cut: float
) -> tuple[list[int], Array]:
    """Return pivots of an RBF kernel matrix with F (p, n), FᵀF being the matrix up to `cut`.

    Pivoted Cholesky, column by column: a wide kernel on a few attributes has a tiny numerical
    rank, so the n x n matrix is never formed.
    """
    residual = np.ones(len(values))  # the diagonal of what FᵀF lacks
    F = np.empty((0, len(values)))
    pivots: list[int] = []
    while len(pivots) < min(size, len(values)) and residual.max() > cut:
        pivot = int(residual.argmax())
        column = kernel(values, values[[pivot]])[:, 0] - F[:, pivot] @ F
        column /= np.sqrt(residual[pivot])
        residual = np.maximum(residual - column**2, 0.0)
        residual[pivot] = 0.0
        F = np.vstack([F, column])
        pivots.append(pivot)
    return pivots, F


@dataclass(frozen=True)
class SplineBasis:
    """Cubic splines on the ranks of each column, so that its distribution does not matter."""

    values: tuple[Array, ...]  # of each column, rising
    ranks: tuple[Array, ...]  # the share of rows below, ties in their middle

    @classmethod
    def from_rows(cls, S: Array, w: Array | None = None) -> "SplineBasis":
        """Return the basis whose ranks are among these rows, each counted w times."""
        known = [_ranks(column, w) for column in S.T]
        return cls(tuple(v for v, _ in known), tuple(r for _, r in known))

    def __call__(self, S: Array) -> Array:
        """Return the splines of all columns side by side."""
        splines = SplineTransformer(SPLINE_KNOTS, degree=3, knots="uniform")
        splines.fit(np.array([[0.0], [1.0]]))
        blocks = [
            splines.transform(np.interp(column, values, ranks)[:, None])
            for column, values, ranks in zip(S.T, self.values, self.ranks, strict=True)
        ]
        return np.hstack(blocks)


def _ranks(column: Array, w: Array | None) -> tuple[Array, Array]:
    """Return the values of a column with the share of rows below each."""
    if w is None:
        values, counts = np.unique(column, return_counts=True)
    else:
        values, codes = np.unique(column, return_inverse=True)
        counts = np.bincount(codes, weights=w)
    shares = (np.cumsum(counts) - counts / 2) / row_count(len(column), w)
    if len(values) <= _MOST_VALUES:
        return values, shares
    picked = np.linspace(0, len(values) - 1, num=_MOST_VALUES).astype(np.intp)
    return values[picked], shares[picked]


@dataclass(frozen=True)
class LevelBasis:
    """One indicator per value of each discrete column; a value never seen has none."""

    levels: Sequence[AnyArray]

    def __call__(self, S: Array) -> Array:
        """Return the indicators of all columns side by side."""
        blocks = [
            column[:, None] == values for column, values in zip(S.T, self.levels, strict=True)
        ]
        return np.hstack(blocks).astype(np.float64)
