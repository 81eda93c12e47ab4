"""The fair kernel as a scikit-learn transformer."""

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.arrays import Array
from fkd.linalg import downdate
from fkd.removal import RemovalEstimator
from fkd.validation import whole


class FairKernelDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RemovalEstimator):
    """Kernel from which what predicts the sensitive features has been removed.

    `transform` gives the fair kernel against the training rows, for any estimator that takes
    ``kernel="precomputed"``; `features` gives fair features, for any estimator at all. The method
    is Fair Kernel Decomposition of Störck, Hinder & Hammer (2026), Algorithm 1. The parameters are
    those of `fkd.removal.RemovalEstimator`.

    Attributes
    ----------
    map_ : FeatureMap
        The feature map of the training rows.
    path_ : RemovalPath
        The removed directions, nested in the number of iterations.
    effective_iterations_ : int
        Iterations that found something to remove; less than `iterations` where the rank ran out.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelDecomposition
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> fair = FairKernelDecomposition(gamma=0.1, iterations=5).fit(X, sensitive_features=X[:, 0])
    >>> fair.transform(X).shape
    (50, 50)
    """

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Return self, with the removal learnt from these rows.

        Parameters
        ----------
        X
            Training rows (n, d), or their kernel matrix where kernel is ``"precomputed"``.
        y
            Ignored; removal does not look at the target.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        no_target = np.zeros(len(X))
        self.map_, _, self.path_ = self._fit_removal(
            X, no_target, sensitive_features, self.iterations
        )
        self.X_fit_ = X
        self._n_features_out = len(X)
        # F = G U over the training rows: the fair kernel matrix is K - F Fᵀ.
        self.F_ = self.map_.training_product(X, self.path_.U)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric."""
        self.fit(X, y, sensitive_features=sensitive_features)
        return downdate(self.map_.training_gram(self.X_fit_), self.F_)

    def transform(self, X: Any) -> Array:
        """Return the fair kernel of X against the training rows, (k, n)."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        block = self.map_.cross(X, self.X_fit_)
        block -= self.map_.product(X, self.path_.U) @ self.F_.T
        return block

    def features(self, X: Any) -> Array:
        """Return fair features G(X) - G(X) U Uᵀ, (k, r), of which the fair kernel is made."""
        check_is_fitted(self)
        G = self.map_.transform(self._inputs(X, reset=False))
        return G - (G @ self.path_.U) @ self.path_.U.T

    def diag(self, X: Any) -> Array:
        """Return the fair k(x, x) of each row, without the block that it is the diagonal of."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        removed = self.map_.product(X, self.path_.U)
        left = self.map_.diag(X) - np.einsum("ij,ij->i", removed, removed)
        # A square, which rounding can leave slightly negative where all was removed.
        return np.asarray(np.maximum(left, 0.0))

    def at(self, m: int) -> Self:
        """Return a fitted copy that removes m iterations only; large arrays are shared."""
        check_is_fitted(self)
        whole("m", m, low=0, high=self.iterations)
        shorter = copy(self)
        shorter.iterations = m
        shorter.path_ = self.path_.head(m)
        shorter.effective_iterations_ = shorter.path_.effective
        shorter.F_ = self.F_[:, : shorter.path_.U.shape[1]]
        return shorter
