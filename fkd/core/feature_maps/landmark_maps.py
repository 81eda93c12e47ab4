"""Feature maps spanned by training rows."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from fkd.core.arrays import BLOCK_ROWS, Array, IntArray, Rows, row_blocks
from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.kernels import Kernel, KernelColumns
from fkd.core.linalg import psd_factor, solved_lower
from fkd.core.predictors import KernelExpansion


class LandmarkMap(FeatureMap):
    """G(x) = k(x, Z) L⁻ᵀ with centres Z and K_ZZ = L Lᵀ."""

    kernel: Kernel
    centers: Rows  # Z, (r, d)

    @property
    @abstractmethod
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""

    @property
    def rank(self) -> int:
        """The number of centres, which are linearly independent in feature space."""
        return int(self.centers.shape[0])

    @property
    def whitening(self) -> Array | None:
        """L: kernel values of the centres become features by L⁻ᵀ."""
        return self.L

    def raw(self, X: Rows, out: Array, *, way: str) -> None:
        """Write kernel values of rows X to `out`, or their features where the way is rows."""
        if way == "rows":
            out[...] = self.transform(X)
        else:
            self.columns(way == "float32")(X, out)

    def columns(self, single: bool = False) -> KernelColumns:
        """Return the kernel's columns of the centres, made once for each precision."""
        made: dict[bool, KernelColumns] = self.__dict__.setdefault("_columns", {})
        return made.setdefault(single, KernelColumns(self.kernel, self.centers, single))

    def __getstate__(self) -> dict[str, Any]:
        # What is made from the centres is made again where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "_columns"}

    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, r)."""
        if isinstance(X, csr_array):
            return solved_lower(self.L, self.columns()(X).T).T
        K_ZX = self.kernel(X, self.centers).T
        return solved_lower(self.L, K_ZX).T

    def dual(self, B: Array) -> Array:
        """Return L⁻ᵀ B, with which G(x) B = k(x, Z) L⁻ᵀ B."""
        return np.asarray(solve_triangular(self.L, B, lower=True, trans="T", check_finite=False))

    def product(self, X: Rows, B: Array) -> Array:
        """Return G(X) B without forming G(X)."""
        coefficients = self.dual(B)
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate(
            [self.kernel(X[rows], self.centers) @ coefficients for rows in blocks]
        )

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = k(x, Z) L⁻ᵀ beta + intercept."""
        k = self.kernel
        return KernelExpansion(
            k.name, k.gamma, k.degree, k.coef0, self.centers, self.dual(beta), intercept
        )


@dataclass(frozen=True)
class NystroemMap(LandmarkMap):
    """The map of q chosen rows; it sees of a new row what lies in their span."""

    kernel: Kernel
    centers: Rows
    factor: Array  # L, (r, r)

    @classmethod
    def of(cls, kernel: Kernel, X: Rows, landmarks: IntArray) -> "NystroemMap":
        """Return the map of these rows of X, linearly dependent ones left out."""
        rows = kernel.rows(X)[landmarks]
        G, pivots = psd_factor(np.asfortranarray(kernel(X[landmarks], rows)), overwrite=True)
        if pivots is None:
            return cls(kernel, rows, G)
        return cls(kernel, rows[pivots], G[pivots])

    @property
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""
        return self.factor


@dataclass(frozen=True)
class ExactMap(LandmarkMap):
    """The map of all training rows: G Gᵀ = K to rounding.

    A singular kernel matrix (duplicate rows, low rank) is factored with pivoting, and only its
    linearly independent rows stay as centres.
    """

    kernel: Kernel
    centers: Rows
    G: Array  # (n, r), features of the training rows
    pivots: IntArray | None  # G[pivots] is lower triangular; None where G itself is

    @classmethod
    def of(cls, kernel: Kernel, X: Rows) -> "ExactMap":
        """Return the exact map of the rows of X."""
        G, pivots = psd_factor(kernel.gram(X), overwrite=True)
        rows = kernel.rows(X)
        return cls(kernel, rows.copy() if pivots is None else rows[pivots], G, pivots)

    @property
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""
        return self.G if self.pivots is None else self.G[self.pivots]

    def training_blocks(self, X: Rows) -> Iterator[Array]:
        """Yield the factor itself: it is the features of the training rows."""
        if X.shape[0] != len(self.G):
            raise ValueError(
                f"an exact map knows the {len(self.G)} rows it was made from, got {X.shape[0]} rows"
            )
        yield self.G

    def among(self, X: Rows, rows: IntArray | None) -> "ExactMap":
        """Return the map of all rows X, made from some of them: it sees the others as new ones."""
        if rows is None:
            return self
        G = np.empty((X.shape[0], self.rank))
        others = np.setdiff1d(np.arange(X.shape[0]), rows)
        G[rows] = self.G
        for part in row_blocks(len(others), BLOCK_ROWS):
            G[others[part]] = self.transform(X[others[part]])
        return replace(self, G=G, pivots=rows if self.pivots is None else rows[self.pivots])

    def training_gram(self, X: Rows) -> Array:
        """Return the kernel matrix of the training rows."""
        return self.kernel.gram(X)

    def cross(self, X: Rows, training: Rows) -> Array:
        """Return k(X, training), which also holds what lies outside the training rows' span."""
        return np.asarray(self.kernel(X, self.kernel.rows(training)))

    def beyond(self, X: Rows, G: Array) -> Array:
        """Return k(x_i, x_i) - |G(x_i)|², what lies outside the training rows' span."""
        # A square, which rounding can leave slightly negative within the span.
        return np.asarray(np.maximum(self.kernel.diag(X) - np.einsum("ij,ij->i", G, G), 0.0))
