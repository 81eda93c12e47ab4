"""The fair kernel of a removal, against its training rows."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.directions import Directions
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import cancels, downdate


def fair_features(feature_map: FeatureMap, X: Rows, removed: Directions) -> Array:
    """Return the fair features of the training rows X, (n, r)."""
    return np.concatenate([removed.features(G) for G in feature_map.training_blocks(X)])


def fair_gram(feature_map: FeatureMap, X: Rows, removed: Directions, K: Array) -> Array:
    """Return the kernel matrix of the fair features of the training rows X, exactly symmetric.

    Parameters
    ----------
    feature_map, X, removed
        Map, training rows (n, d), what is taken out.
    K
        The kernel matrix of the plain features. Where little of it is left, subtracting F Fᵀ would
        leave rounding: the fair features are multiplied instead.
    """
    F = removed.subtracted(feature_map.training_product(X, removed.V))
    if not cancels(K.diagonal(), F):
        return downdate(K, F)
    G = fair_features(feature_map, X, removed)
    return np.asarray(G @ G.T)


@dataclass(frozen=True)
class FairFeatures:
    """What is left of a feature map after a removal; it needs no training row but landmarks."""

    feature_map: FeatureMap
    removed: Directions

    def head(self, removed: Directions) -> Self:
        """Return the features of other shares, or of fewer of the directions; arrays are shared."""
        return replace(self, removed=removed)

    def features(self, X: Rows) -> Array:
        """Return the fair features of X, (k, r)."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate(
            [self.removed.features(self.feature_map.transform(X[rows])) for rows in blocks]
        )

    def training_features(self, X: Rows) -> Array:
        """Return the fair features of the rows that the map was made from, (n, r)."""
        return fair_features(self.feature_map, X, self.removed)

    def diag(self, X: Rows) -> Array:
        """Return the fair k(x, x) of each row."""
        G = self.feature_map.transform(X)
        beyond = self.feature_map.beyond(X, G)
        left = self.removed.features(G)
        return np.asarray(beyond + np.einsum("ij,ij->i", left, left))


@dataclass(frozen=True)
class FairKernel(FairFeatures):
    """What is left of a kernel after a removal, as blocks against the training rows."""

    X: Rows  # training rows, (n, d)
    F: Array  # G V over the training rows, (n, w)
    squares: Array  # k(x, x) of the training rows, (n,)

    @classmethod
    def of(cls, feature_map: FeatureMap, X: Rows, removed: Directions) -> Self:
        """Return the fair kernel of the training rows X."""
        squares = [np.einsum("ij,ij->i", G, G) for G in feature_map.training_blocks(X)]
        F = feature_map.training_product(X, removed.V)
        return cls(feature_map, removed, X, F, np.concatenate(squares))

    def head(self, removed: Directions) -> Self:
        """Return the kernel of other shares, or of fewer of the directions; arrays are shared."""
        return replace(self, removed=removed, F=self.F[:, : removed.width])

    def gram(self) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric."""
        K = self.feature_map.training_gram(self.X)
        return fair_gram(self.feature_map, self.X, self.removed, K)

    def block(self, X: Rows) -> Array:
        """Return the fair kernel of X against the training rows, (k, n)."""
        if cancels(self.squares, self.removed.subtracted(self.F)):
            return self.features(X) @ self.training_features(self.X).T
        block = self.feature_map.cross(X, self.X)
        block -= self.feature_map.product(X, self.removed.V) @ (self.F * self.removed.shares).T
        return block
