"""The fair kernel as a scikit-learn transformer."""

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.fair_kernel import FairKernel
from fkd.core.fair_ridge import ridge_expansions
from fkd.core.moments import Moments
from fkd.estimators.held_out import HeldOut, judge_recovery
from fkd.estimators.removal_estimator import Removal, RemovalEstimator

# Ridge of the regression that guesses the sensitive features, in units of the mean eigenvalue.
_GUESSING = 0.1


class FairKernelDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RemovalEstimator):
    """Kernel from which what predicts the sensitive features has been removed.

    `transform` gives the fair kernel against the training rows, for any estimator that takes
    ``kernel="precomputed"``; `features` gives fair features, for any estimator at all. The method
    is Fair Kernel Decomposition of Störck, Hinder & Hammer (2026), Algorithm 1. The parameters are
    those of `fkd.estimators.removal_estimator.RemovalEstimator`.

    Attributes
    ----------
    map_ : FeatureMap
        The feature map of the training rows.
    path_ : RemovalPath
        The removed directions, nested in the number of iterations.
    effective_iterations_ : int
        Iterations that found something to remove; less than `iterations` where the rank ran out.
    fair_ : FairKernel
        What is left of the kernel, as arrays.
    held_out_ : HeldOut or None
        How well ridge regression guesses the sensitive features of rows that a trial fit left out,
        from plain and from fair features.

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
        removal, _ = self._fit_removal(X, no_target, sensitive_features, self.iterations)
        self.map_, self.path_ = removal.feature_map, removal.path
        self.fair_ = FairKernel.of(self.map_, X, self.path_.U)
        self._n_features_out = len(X)
        return self

    def _judge(
        self, removal: Removal, moments: Moments, X: Array, y: Array, S: Array, iterations: int
    ) -> HeldOut:
        """Return what held-out rows say: how well S is guessed from the features."""
        # A ridge of its own: that of the removal may be one under which nothing is found.
        alpha = _GUESSING * float(moments.C.trace()) / len(moments.C)
        settings = [(0, alpha), (iterations, alpha)]
        before, after = np.empty(S.shape), np.empty(S.shape)
        for j, s in enumerate(removal.S.T):
            target = replace(moments, c=moments.b[:, j], y=float(s.sum(axis=0)))
            plain, fair = ridge_expansions(
                removal.feature_map, target, removal.path, settings, fit_intercept=True
            )
            before[:, j], after[:, j] = plain.predict(X), fair.predict(X)
        return judge_recovery(before, after, S)

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric."""
        return self.fit(X, y, sensitive_features=sensitive_features).fair_.gram()

    def transform(self, X: Any) -> Array:
        """Return the fair kernel of X against the training rows, (k, n)."""
        check_is_fitted(self, "fair_")
        return self.fair_.block(self._inputs(X, reset=False))

    def features(self, X: Any) -> Array:
        """Return fair features G(X) - G(X) U Uᵀ, (k, r), of which the fair kernel is made."""
        check_is_fitted(self, "fair_")
        return self.fair_.features(self._inputs(X, reset=False))

    def diag(self, X: Any) -> Array:
        """Return the fair k(x, x) of each row, without the block that it is the diagonal of."""
        check_is_fitted(self, "fair_")
        return self.fair_.diag(self._inputs(X, reset=False))

    def at(self, m: int) -> Self:
        """Return a fitted copy that removes m iterations only; large arrays are shared."""
        check_is_fitted(self, "fair_")
        shorter = copy(self)
        shorter.path_ = self.path_.head(m)
        shorter.iterations = m
        shorter.effective_iterations_ = shorter.path_.effective
        shorter.fair_ = self.fair_.head(shorter.path_.U)
        shorter.held_out_ = None  # the trial was of the longer path
        return shorter
