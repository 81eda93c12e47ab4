"""The fair kernel as a scikit-learn transformer, cut or shrunk."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.border import target_vector
from fkd.core.fair_kernel import FairKernel
from fkd.core.fair_ridge import ridge_expansions
from fkd.core.moments import Moments
from fkd.estimators.held_out import HeldOut, judge_recovery
from fkd.estimators.legitimate import is_target
from fkd.estimators.removal_estimator import Removal, RemovalEstimator

# Ridge of the regression that guesses the sensitive features, in units of the mean eigenvalue.
_GUESSING = 0.1


class FairKernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RemovalEstimator):
    """A fair kernel as a transformer, whichever way it is made fair."""

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Return self, with the removal learnt from these rows.

        Parameters
        ----------
        X
            Training rows (n, d), or their kernel matrix where kernel is ``"precomputed"``.
        y
            Looked at only where ``given="y"``: otherwise removal does not know the target.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        target = target_vector(y, len(X)) if is_target(self.given) else np.zeros(len(X))
        removal, _ = self._fit_removal(X, target, sensitive_features, self._strength())
        self.map_, self._removals = removal.feature_map, removal.removals
        self.fair_ = FairKernel.of(self.map_, X, self._removals.at(self._strength()))
        self._n_features_out = len(X)
        return self

    def _judge(
        self, removal: Removal, moments: Moments, X: Array, y: Array, S: Array, strength: float
    ) -> HeldOut:
        """Return what held-out rows say: how well S is guessed from the features."""
        # A ridge of its own: that of the removal may be one under which nothing is found.
        alpha = _GUESSING * float(moments.C.trace()) / len(moments.C)
        settings = [(0, alpha), (strength, alpha)]
        before, after = np.empty(S.shape), np.empty(S.shape)
        for j, s in enumerate(removal.S.T):
            target = replace(moments, c=moments.b[:, j], y=float(s.sum(axis=0)))
            plain, fair = ridge_expansions(
                removal.feature_map, target, removal.removals, settings, fit_intercept=True
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
        """Return fair features, (k, r), of whose inner products the fair kernel is made."""
        check_is_fitted(self, "fair_")
        return self.fair_.features(self._inputs(X, reset=False))

    def diag(self, X: Any) -> Array:
        """Return the fair k(x, x) of each row, without the block that it is the diagonal of."""
        check_is_fitted(self, "fair_")
        return self.fair_.diag(self._inputs(X, reset=False))
