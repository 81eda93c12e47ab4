"""Functions B(s) of the sensitive columns that a prediction should not covary with.

`BasisSettings` names one of four bases and fits it to training rows: the columns themselves, an RBF
kernel on them, splines of their ranks, or an indicator per level. `one_hot` encodes discrete
attributes as columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.preprocessing import SplineTransformer

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.kernels import Kernel
from fkd.core.validation import choice, column_names, is_missing, positive, refuse_masked
from fkd.core.weights import row_count, weighted_mean

BASES = ("columns", "rbf", "splines", "levels")
# Most landmarks, fewest rows per landmark. At gamma_s = 10 one column needs about twenty landmarks.
RBF_SIZE, _ROWS_PER_LANDMARK = 64, 4
SPLINE_KNOTS = 8
# Largest residual of the kernel of s, far below the sampling error.
_RESIDUAL = 1e-10
# Most values among which landmarks are chosen, most points of a stored distribution.
_MOST_VALUES = 4000


class SensitiveBasis(Protocol):
    """Functions of the sensitive columns."""

    def __call__(self, S: Array) -> Array:
        """Return one column per function, (n, p)."""


@dataclass(frozen=True)
class BasisSettings:
    """Kind of the basis and width of its kernel.

    ``"columns"`` are the sensitive columns themselves; ``"rbf"`` an RBF kernel on all of them
    together, by landmarks; ``"splines"`` cubic splines on the ranks of each; ``"levels"`` one
    indicator per value of each, for discrete ones.
    """

    kind: str = field(default="rbf", metadata={"choices": BASES})
    gamma_s: float = 10.0

    def fit(
        self, S: Array, limits: ArrayLike | None = None, *, w: Array | None = None
    ) -> SensitiveBasis:
        """Return the basis fitted to rows S (n, l).

        Parameters
        ----------
        S
            Sensitive columns of the training rows, or of rows common to all splits.
        limits
            Range of each column, (l, 2), the unit of `gamma_s`; None is the range of S.
        w
            Weights of the rows, (n,); None is 1 for each.
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
        # Weights below 1 must not reduce the number of functions.
        rows = max(len(S), int(row_count(len(S), w)))
        return RbfBasis.from_rows(scaled, S, positive("gamma_s", self.gamma_s), rows)


@dataclass(frozen=True)
class Centred:
    """Functions minus constants."""

    basis: "SensitiveBasis"
    means: Array

    def __call__(self, S: Array) -> Array:
        """Return the functions minus the constants."""
        return np.asarray(self.basis(S) - self.means)


def centred(basis: SensitiveBasis, S: Array, w: Array | None = None) -> SensitiveBasis:
    """Return the functions minus their means over rows S with weights w.

    An offset would cost digits of sums. The functions must be fewer than the rows, since any
    prediction would otherwise be a combination of them.
    """
    B = basis(S)
    (n, p), means = B.shape, weighted_mean(B, w)
    if p >= n:
        raise ValueError(
            f"basis must have fewer functions than the {n} training rows, got {p}. Use 'rbf', "
            f"which has at most one per {_ROWS_PER_LANDMARK} rows"
        )
    return Centred(basis, means)


@dataclass(frozen=True)
class Scaled:
    """The columns, scaled to a range."""

    low: Array
    span: Array

    def __call__(self, S: Array) -> Array:
        """Return (s - low) / span."""
        return np.asarray((S - self.low) / self.span)


@dataclass(frozen=True)
class RbfBasis:
    """B(s) with B(s)·B(s') = exp(-gamma |s - s'|²) up to the residual of the landmarks."""

    scaled: Scaled
    kernel: Kernel
    centers: Array  # (p, l)
    L: Array  # lower factor of the kernel matrix of the landmarks

    @classmethod
    def from_rows(cls, scaled: Scaled, S: Array, gamma: float, rows: int) -> "RbfBasis":
        """Return the basis of greedily chosen landmarks among S.

        `rows` is the number of rows for which S counts.
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
    """Return the sorted distinct rows of S, evenly thinned to at most `_MOST_VALUES`."""
    values = np.unique(S, axis=0)
    return np.asarray(values[_thinned(len(values))])


def greedy_factor(
    kernel: Kernel, values: Array, *, size: int, cut: float
) -> tuple[list[int], Array]:
    """Return the pivots of an RBF kernel matrix and F (p, n) with FᵀF equal to it up to `cut`.

    Pivoted Cholesky, column by column. A wide kernel on a few attributes has a small numerical
    rank, so that the n x n matrix is never formed.
    """
    residual = np.ones(len(values))  # the diagonal of K - FᵀF
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
    """Cubic splines on the ranks of each column, which do not depend on its distribution."""

    values: tuple[Array, ...]  # of each column, ascending
    ranks: tuple[Array, ...]  # share of rows below each value, plus half of the ties

    @classmethod
    def from_rows(cls, S: Array, w: Array | None = None) -> "SplineBasis":
        """Return the basis with the ranks among rows S with weights w."""
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
    """Return the values of a column and the share of rows below each."""
    if w is None:
        values, counts = np.unique(column, return_counts=True)
    else:
        values, codes = np.unique(column, return_inverse=True)
        counts = np.bincount(codes, weights=w)
    shares = (np.cumsum(counts) - counts / 2) / row_count(len(column), w)
    kept = _thinned(len(values))
    return values[kept], shares[kept]


def _thinned(n: int) -> IntArray:
    """Return at most `_MOST_VALUES` evenly spaced indices of n values."""
    return np.linspace(0, n - 1, num=min(n, _MOST_VALUES)).astype(np.intp)


@dataclass(frozen=True)
class LevelBasis:
    """One indicator per value of each discrete column; all are 0 for an unknown value."""

    levels: Sequence[AnyArray]

    def __call__(self, S: Array) -> Array:
        """Return the indicators of all columns side by side."""
        blocks = [
            column[:, None] == values for column, values in zip(S.T, self.levels, strict=True)
        ]
        return np.hstack(blocks).astype(np.float64)


def one_hot(labels: Any) -> Array:
    """Return S with one 0/1 column per level of each discrete attribute.

    Removing this block removes every function of the attribute.

    Parameters
    ----------
    labels
        One attribute (n,) or several (n, k), of any type that can be sorted.

    Examples
    --------
    >>> from fkd import one_hot
    >>> one_hot(["b", "a", "b"]).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    refuse_masked("labels", labels)
    values = np.asarray(labels)
    values = values[:, None] if values.ndim == 1 else values
    names = column_names(labels, values.shape[1])
    blocks = [_levels(column, name) for column, name in zip(values.T, names, strict=True)]
    return np.concatenate(blocks, axis=1)


def _levels(column: Any, name: str) -> Array:
    """Return the indicator columns of one attribute."""
    if any(map(is_missing, column)):
        raise ValueError(
            f"labels of column {name} must not be missing. Give missing values a level of their own"
        )
    levels, codes = np.unique(column, return_inverse=True)
    if len(levels) < 2:
        raise ValueError(
            f"labels of column {name} must have two levels or more, got only {levels.tolist()}"
        )
    return np.eye(len(levels))[codes]
