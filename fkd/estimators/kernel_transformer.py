"""The fair kernel as a scikit-learn transformer, cut or shrunk."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.conditioning import conditions_on_target
from fkd.core.feature_maps import ExactMap, FeatureMap
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.removal import Directions, FairFeatures, FairKernel, fair_features
from fkd.core.ridge import ridge_expansions
from fkd.core.validation import choice, target_vector
from fkd.core.weights import RowWeights, weighted_sum
from fkd.estimators.held_out import HeldOut, judge_recovery
from fkd.estimators.removal_estimator import Removal, RemovalEstimator

OUTPUTS = ("kernel", "features")
# Ridge of the regression that guesses the sensitive features, in units of the mean eigenvalue.
_GUESSING = 0.1


class FairKernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RemovalEstimator):
    """A fair kernel as a transformer, whichever way it is made fair."""

    def __init__(
        self, kernel: str | KernelFunction = "rbf", *, output: str = "kernel", **settings: Any
    ) -> None:
        super().__init__(kernel, **settings)
        self.output = output

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return self, with the removal learnt from these rows.

        Parameters
        ----------
        X
            Training rows (n, d), or their kernel matrix where kernel is ``"precomputed"``.
        y
            Looked at only where ``given="y"``: otherwise removal does not know the target.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that decides nothing; a kernel has values against it still.
        """
        wanted, strength = choice("output", self.output, OUTPUTS), self._strength()
        X = self._inputs(X, reset=True)
        there = self._present(sample_weight, X.shape[0])
        target = np.zeros(len(there))
        if conditions_on_target(self.given):
            target = target_vector(there.select("y", y), len(there))
        S = there.select("sensitive_features", sensitive_features)
        weights = RowWeights(there.w, there.w)
        removal, _ = self._fit_removal(there.inputs(X), target, S, strength, weights)
        self._removals, self.strength_ = removal.removals, strength
        removed = removal.removals.at(strength)
        if wanted == "kernel":
            feature_map = removal.feature_map.with_training_rows(X, there.rows)
            self.fair_: FairFeatures = FairKernel.from_rows(feature_map, X, removed)
        else:  # training rows are kept as landmarks alone
            self.fair_ = FairFeatures(removal.feature_map, removed)
        self._n_features_out = X.shape[0] if wanted == "kernel" else removal.feature_map.rank
        return self

    @property
    def map_(self) -> FeatureMap:
        """The feature map of the training rows."""
        check_is_fitted(self, "fair_")
        return self.fair_.feature_map

    @property
    def removed_(self) -> Directions:
        """The directions that are taken out of the features, with the share of each."""
        check_is_fitted(self, "fair_")
        return self.fair_.removed

    @property
    def T_(self) -> Array:
        """T_m of the paper, (n, n): k(X, training rows) T_m is the fair kernel block of X.

        An exact map has it. It is an oblique projection where whole directions are removed.
        """
        fair = self._fair_kernel("T_")
        if not isinstance(fair.feature_map, ExactMap):
            raise ValueError(
                "T_ needs the kernel of all training rows, approximation='exact', got a reduced "
                "map; its fair features are what output='features' gives"
            )
        A = np.zeros_like(fair.F)
        pivots = fair.feature_map.pivots
        A[slice(None) if pivots is None else pivots] = fair.feature_map.dual(fair.removed.V)
        return np.asarray(np.eye(len(A)) - (A * fair.removed.shares) @ fair.F.T)

    def _fair_kernel(self, what: str) -> FairKernel:
        """Return the kernel against the training rows, which not every output keeps."""
        check_is_fitted(self, "fair_")
        if not isinstance(self.fair_, FairKernel):
            raise ValueError(f"{what} needs the training rows, which output='features' drops")
        return self.fair_

    def _judge(
        self,
        removal: Removal,
        moments: Moments,
        X: Rows,
        y: Array,
        S: Array,
        strength: float,
        w: Array | None,
    ) -> HeldOut:
        """Return what held-out rows say: how well S is guessed from the features."""
        # A ridge of its own: that of the removal may be one under which nothing is found.
        alpha = _GUESSING * float(moments.C.trace()) / len(moments.C)
        settings = [(0, alpha), (strength, alpha)]
        before, after = np.empty(S.shape), np.empty(S.shape)
        for j, s in enumerate(removal.S.T):
            total = float(weighted_sum(s, removal.weights.fit))
            target = replace(moments, c=moments.b[:, j], y=total)
            plain, fair = ridge_expansions(
                removal.feature_map, target, removal.removals, settings, fit_intercept=True
            )
            before[:, j], after[:, j] = plain.predict(X), fair.predict(X)
        return judge_recovery(before, after, S)

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric, or features.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        """
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        fair = self.fair_
        if isinstance(fair, FairKernel):
            return fair.gram()
        rows = self._inputs(X, reset=False)
        feature_map = fair.feature_map.with_training_rows(
            rows, self._present(sample_weight, rows.shape[0]).rows
        )
        return fair_features(feature_map, rows, fair.removed)

    def transform(self, X: Any) -> Array:
        """Return the fair kernel of X against the training rows, (k, n), or features, (k, r).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows where it is precomputed.
        """
        check_is_fitted(self, "fair_")
        rows, fair = self._inputs(X, reset=False), self.fair_
        return fair.block(rows) if isinstance(fair, FairKernel) else fair.features(rows)

    def features(self, X: Any) -> Array:
        """Return fair features, (k, r), of whose inner products the fair kernel is made."""
        check_is_fitted(self, "fair_")
        return self.fair_.features(self._inputs(X, reset=False))

    def diag(self, X: Any) -> Array:
        """Return the fair k(x, x) of each row, without the block that it is the diagonal of."""
        check_is_fitted(self, "fair_")
        return self.fair_.diag(self._inputs(X, reset=False))

    def _copy_at(self, name: str, strength: Any) -> Self:
        """Return a fitted copy whose parameter of that name is another; large arrays are shared."""
        check_is_fitted(self, "fair_")
        other = copy(self)
        setattr(other, name, strength)
        other.strength_ = other._strength()
        other.fair_ = self.fair_.head(self._removals.at(other.strength_))
        other.held_out_ = None  # the trial was of another strength
        return other

    def _fit_each(
        self, X: Any, y: Any, name: str, values: Sequence[Any], **beside: Any
    ) -> dict[Any, Self]:
        """Return a fitted transformer per strength, all from one factorisation.

        `beside` are the sensitive features and weights of the rows.
        """
        if not len(values):
            raise ValueError(f"{name} of fit_path must hold at least one value, got none")
        longest = copy(self)
        setattr(longest, name, max(values))
        longest.held_out = 0.0  # choose among them by rows of your own
        longest.fit(X, y, **beside)
        longest.held_out = self.held_out
        return {value: longest.at(value) for value in values}

    @abstractmethod
    def at(self, strength: Any) -> Self:
        """Return a fitted copy at another strength."""
