"""The fair kernel of a removal, against its training rows."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import cancels, downdate, project


def fair_features(feature_map: FeatureMap, X: Array, U: Array) -> Array:
    """Return G - (G U) Uᵀ over the training rows X."""
    return np.concatenate([project(G, U) for G in feature_map.training_blocks(X)])


def fair_gram(feature_map: FeatureMap, X: Array, U: Array, K: Array) -> Array:
    """Return the kernel matrix of the fair features of the training rows X, exactly symmetric.

    Parameters
    ----------
    feature_map, X, U
        Map, training rows (n, d), removed directions (r, w).
    K
        The kernel matrix of the plain features. Where little of it is left, subtracting F Fᵀ would
        leave rounding: the fair features are multiplied instead.
    """
    F = feature_map.training_product(X, U)
    if not cancels(K.diagonal(), F):
        return downdate(K, F)
    G = fair_features(feature_map, X, U)
    return np.asarray(G @ G.T)


@dataclass(frozen=True)
class FairKernel:
    """What is left of a kernel after a removal, as blocks against the training rows."""

    feature_map: FeatureMap
    X: Array  # training rows, (n, d)
    U: Array  # removed directions, (r, w)
    F: Array  # G U over the training rows, (n, w)
    squares: Array  # k(x, x) of the training rows, (n,)

    @classmethod
    def of(cls, feature_map: FeatureMap, X: Array, U: Array) -> Self:
        """Return the fair kernel of the training rows X."""
        squares = [np.einsum("ij,ij->i", G, G) for G in feature_map.training_blocks(X)]
        F = feature_map.training_product(X, U)
        return cls(feature_map, X, U, F, np.concatenate(squares))

    def head(self, U: Array) -> "FairKernel":
        """Return the kernel after fewer removed directions; arrays are shared."""
        return replace(self, U=U, F=self.F[:, : U.shape[1]])

    def gram(self) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric."""
        return fair_gram(self.feature_map, self.X, self.U, self.feature_map.training_gram(self.X))

    def block(self, X: Array) -> Array:
        """Return the fair kernel of X against the training rows, (k, n)."""
        if cancels(self.squares, self.F):
            return self.features(X) @ fair_features(self.feature_map, self.X, self.U).T
        block = self.feature_map.cross(X, self.X)
        block -= self.feature_map.product(X, self.U) @ self.F.T
        return block

    def features(self, X: Array) -> Array:
        """Return the fair features of X, (k, r)."""
        return project(self.feature_map.transform(X), self.U)

    def diag(self, X: Array) -> Array:
        """Return the fair k(x, x) of each row."""
        G = self.feature_map.transform(X)
        beyond = self.feature_map.beyond(X, G)
        left = project(G, self.U)
        return np.asarray(beyond + np.einsum("ij,ij->i", left, left))
