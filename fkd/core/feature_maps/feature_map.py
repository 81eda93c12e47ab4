"""What every feature map offers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, IntArray, Rows, row_blocks
from fkd.core.predictors import MapExpansion


class FeatureMap(ABC):
    """Features G(x) whose inner products equal k(x, x') or come close to it."""

    independent: ClassVar[bool] = True
    """Whether the features of the training rows are linearly independent by construction."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number r of features."""

    @abstractmethod
    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, r)."""

    @abstractmethod
    def expansion(self, beta: Array, intercept: float = 0.0) -> MapExpansion:
        """Return the predictor f(x) = G(x)·beta + intercept in a form that can be shipped."""

    @property
    def whitening(self) -> Array | None:
        """L where features are raw columns times L⁻ᵀ, None where they are raw themselves."""
        return None

    def raw(self, X: Rows, out: Array, *, way: str) -> None:
        """Write to `out` what sums over rows X are taken of: features, or kernel values for them.

        Parameters
        ----------
        X, out
            Rows with room for them, (k, r).
        way
            ``"rows"`` for the features themselves; ``"float64"``, ``"float32"`` for raw columns in
            that precision, where there are such.
        """
        out[...] = self.transform(X)

    def training_blocks(self, X: Rows) -> Iterator[Array]:
        """Yield the features of the training rows X, block by block in order."""
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            yield self.transform(X[rows])

    def training_product(self, X: Rows, B: Array) -> Array:
        """Return G B over the training rows X."""
        return np.concatenate([G @ B for G in self.training_blocks(X)])

    def training_adjoint(self, X: Rows, a: Array) -> Array:
        """Return Gᵀ a over the training rows X."""
        total, start = np.zeros(self.rank), 0
        for G in self.training_blocks(X):
            total += G.T @ a[start : start + len(G)]
            start += len(G)
        return total

    def among(self, X: Rows, rows: IntArray | None) -> "FeatureMap":
        """Return the same map with rows X as its training rows, of which it was made from some.

        Parameters
        ----------
        X
            Rows (n, d).
        rows
            The numbers of those that it was made from; None where it was from all.
        """
        return self

    def product(self, X: Rows, B: Array) -> Array:
        """Return G(X) B."""
        return np.concatenate(
            [self.transform(X[rows]) @ B for rows in row_blocks(X.shape[0], BLOCK_ROWS)]
        )

    def training_gram(self, X: Rows) -> Array:
        """Return the kernel matrix of the training rows X that this map stands for."""
        G = np.concatenate(list(self.training_blocks(X)))
        return np.asarray(G @ G.T)

    def cross(self, X: Rows, training: Rows) -> Array:
        """Return the kernel block of X against training rows that this map stands for."""
        return self.transform(X) @ self.transform(training).T

    def beyond(self, X: Rows, G: Array) -> Array:
        """Return the part of k(x_i, x_i) that features G of rows X do not hold; mostly nothing."""
        return np.zeros(X.shape[0])
