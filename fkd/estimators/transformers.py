"""The fair kernel as a scikit-learn transformer, by a removal path or by shrinkage."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.conditioning import conditions_on_target
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import ExactMap, FeatureMap
from fkd.core.removal import (
    Directions,
    FairFeatures,
    FairKernel,
    RemovalPath,
    Shrinkage,
    fair_features,
)
from fkd.core.ridge import ridge_expansions
from fkd.core.validation import choice, not_negative, target_vector, validate_rows, whole
from fkd.core.weights import RowWeights, weighted_sum
from fkd.estimators.base import FairEstimator, Inputs
from fkd.estimators.held_out import HeldOut, judge_recovery

OUTPUTS = ("kernel", "features")
# Ridge of the regression that predicts the sensitive features, in units of the mean eigenvalue.
_RECOVERY_RIDGE = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairEstimator):
    """A fair kernel as a transformer; subclasses name the removal and its strength.

    Parameters
    ----------
    output
        Output of `transform`: ``"kernel"``, the fair kernel against the training rows, (k, n),
        for estimators with ``kernel="precomputed"``; or ``"features"``, (k, r), whose inner
        products are the fair kernel, for any estimator. Features of a reduced map store no
        training rows except the landmarks.
    """

    output: str = "kernel"

    @abstractmethod
    def _strength(self) -> float:
        """Return the strength that the parameters name."""

    @abstractmethod
    def at(self, strength: Any) -> Self:
        """Return a fitted copy at another strength."""

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the removal from training rows.

        Parameters
        ----------
        X
            Training rows (n, d), or their kernel matrix if kernel is ``"precomputed"``.
        y
            Only used if ``given="y"``.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            Weights of the rows, (n,), not negative; None is 1 for each. A row of weight 2 counts
            as two rows. A row of weight 0 does not affect the removal, but the kernel has values
            against it.
        """
        output, strength = choice("output", self.output, OUTPUTS), self._strength()
        X = validate_rows(self, X, reset=True)
        present = self._present_rows(sample_weight, X.shape[0])
        target = np.zeros(len(present))
        if conditions_on_target(self.given):
            target = target_vector(present.select("y", y), len(present))
        S = present.select("sensitive_features", sensitive_features)
        inputs = self._inputs(present.inputs(X), target, S, RowWeights(present.w, present.w))
        self._run_trial(inputs, strength)
        removals = inputs.training.removals(inputs.kernel, inputs.removal, strength)
        self._check_removal(inputs, removals, strength)
        self._removals, self.strength_ = removals, strength
        feature_map, removed = inputs.training.feature_map(inputs.kernel), removals.at(strength)
        if output == "kernel":
            feature_map = feature_map.with_training_rows(X, present.rows)
            self.fair_: FairFeatures = FairKernel.from_rows(feature_map, X, removed)
        else:  # only landmarks are kept of the training rows
            self.fair_ = FairFeatures(feature_map, removed)
        self._n_features_out = X.shape[0] if output == "kernel" else feature_map.rank
        return self

    @property
    def map_(self) -> FeatureMap:
        """The feature map of the training rows."""
        check_is_fitted(self, "fair_")
        return self.fair_.feature_map

    @property
    def removed_(self) -> Directions:
        """The removed directions of the features, with the share of each."""
        check_is_fitted(self, "fair_")
        return self.fair_.removed

    @property
    def T_(self) -> Array:
        """T_m of the paper, (n, n): k(X, training rows) T_m is the fair kernel block of X.

        It exists for exact maps, and is an oblique projection if whole directions are removed.
        """
        check_is_fitted(self, "fair_")
        fair = self.fair_
        if not isinstance(fair, FairKernel):
            raise ValueError("T_ needs the training rows, which output='features' does not keep")
        if not isinstance(fair.feature_map, ExactMap):
            raise ValueError(
                "T_ needs the kernel of all training rows, approximation='exact', got a reduced "
                "map. Use output='features' for its fair features"
            )
        A = np.zeros_like(fair.F)
        pivots = fair.feature_map.pivots
        A[slice(None) if pivots is None else pivots] = fair.feature_map.dual(fair.removed.V)
        return np.asarray(np.eye(len(A)) - (A * fair.removed.shares) @ fair.F.T)

    def _judge(
        self, part: Inputs, strength: float, X: Rows, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        """Predict S from the features before and after removal."""
        training, kernel = part.training, part.kernel
        removals = training.removals(kernel, part.removal, strength)
        moments, feature_map = training.moments(kernel), training.feature_map(kernel)
        # A ridge of its own: with that of the removal the regression may find nothing.
        alpha = _RECOVERY_RIDGE * float(moments.C.trace()) / len(moments.C)
        settings = [(0, alpha), (strength, alpha)]
        before, after = np.empty(S.shape), np.empty(S.shape)
        for j, s in enumerate(training.S.T):
            total = float(weighted_sum(s, training.weights.fit))
            target = replace(moments, c=moments.b[:, j], y=total)
            plain, fair = ridge_expansions(
                feature_map, target, removals, settings, fit_intercept=True
            )
            before[:, j], after[:, j] = plain.predict(X), fair.predict(X)
        return judge_recovery(before, after, S)

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Array:
        """Fit, and return the fair kernel matrix of the training rows or their fair features.

        The kernel matrix is exactly symmetric.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        """
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        fair = self.fair_
        if isinstance(fair, FairKernel):
            return fair.gram()
        rows = validate_rows(self, X, reset=False)
        feature_map = fair.feature_map.with_training_rows(
            rows, self._present_rows(sample_weight, rows.shape[0]).rows
        )
        return fair_features(feature_map, rows, fair.removed)

    def transform(self, X: Any) -> Array:
        """Return the fair kernel of X against the training rows, (k, n), or features, (k, r).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows if it is precomputed.
        """
        check_is_fitted(self, "fair_")
        rows, fair = validate_rows(self, X, reset=False), self.fair_
        return fair.block(rows) if isinstance(fair, FairKernel) else fair.features(rows)

    def features(self, X: Any) -> Array:
        """Return the fair features, (k, r), whose inner products are the fair kernel."""
        check_is_fitted(self, "fair_")
        return self.fair_.features(validate_rows(self, X, reset=False))

    def diag(self, X: Any) -> Array:
        """Return the fair k(x, x) of each row without computing the kernel block."""
        check_is_fitted(self, "fair_")
        return self.fair_.diag(validate_rows(self, X, reset=False))

    def _copy_at(self, name: str, strength: Any) -> Self:
        """Return a fitted copy with another value of one parameter; large arrays are shared."""
        check_is_fitted(self, "fair_")
        other = copy(self)
        setattr(other, name, strength)
        other.strength_ = other._strength()
        other.fair_ = self.fair_.head(self._removals.at(other.strength_))
        other.held_out_ = None  # the trial was of another strength
        return other

    def _fit_each(self, name: str, values: Sequence[Any], X: Any, y: Any, **rows: Any) -> Any:
        """Return a fitted transformer per value of a parameter, all from one factorisation."""
        if not len(values):
            raise ValueError(f"{name} of fit_path must have at least one value, got none")
        longest = copy(self)
        setattr(longest, name, max(values))
        longest.held_out = 0.0  # no trial
        longest.fit(X, y, **rows)
        longest.held_out = self.held_out
        return {value: longest.at(value) for value in values}


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelDecomposition(FairKernelTransformer):
    """Kernel from which the directions that predict the sensitive features are removed.

    `transform` returns the fair kernel against the training rows, for any estimator with
    ``kernel="precomputed"``, or fair features, for any estimator.

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    {ridge}
    {iterations}
    {basis}
    {gamma_s}
    {given}
    {approximation}
    {landmarks}
    {landmark_method}
    {center_sensitive}
    {held_out}
    {output}
    {random_state}

    Attributes
    ----------
    path_ : RemovalPath
        The removed directions, nested in the number of iterations.
    strength_ : float
        Strength of the removal: `iterations`.
    effective_iterations_ : int or None
        Iterations that found a direction to remove; None for a shrinkage.
    map_ : FeatureMap
        The feature map of the training rows.
    removed_ : Directions
        The removed directions, with the share of each.
    fair_ : FairKernel or FairFeatures
        The fair kernel or the fair features, as arrays.
    T_ : array (n, n)
        T_m of the paper: k(X, training rows) T_m is the fair kernel block. Exact maps only.
    held_out_ : HeldOut or None
        How well ridge regression predicts the sensitive features of held-out rows from plain and
        from fair features.
    n_features_in_, feature_names_in_
        Number of columns of X, and their names if X was a data frame.

    References
    ----------
    Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
    Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
    whose directions are nested in the number of iterations (docs/explanation/maths.md).
    Shrinkage is described in docs/explanation/shrinkage.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelDecomposition
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> fair = FairKernelDecomposition(gamma=0.1, iterations=5).fit(X, sensitive_features=X[:, 0])
    >>> fair.transform(X).shape
    (50, 50)
    >>> features = FairKernelDecomposition(
    ...     gamma=0.1, output="features", approximation="nystroem", landmarks=20, random_state=0
    ... )
    >>> features.fit_transform(X, sensitive_features=X[:, 0]).shape
    (50, 20)
    """

    ridge: float | None = None
    iterations: int = 10
    center_sensitive: bool = True

    _shrinks = False

    def _strength(self) -> float:
        return whole("iterations", self.iterations, low=0)

    @property
    def path_(self) -> RemovalPath:
        """The removed directions, nested in the number of iterations."""
        check_is_fitted(self, "fair_")
        return cast(RemovalPath, self._removals)

    def at(self, strength: int) -> Self:
        """Return a fitted copy with fewer iterations; large arrays are shared.

        Parameters
        ----------
        strength
            Iterations, at most as many as were fitted, or any number if nothing is left to remove.
        """
        shorter = self._copy_at("iterations", strength)
        shorter._removals = self.path_.head(strength)
        shorter.effective_iterations_ = shorter.path_.effective
        return shorter

    def fit_path(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        iterations: Sequence[int],
    ) -> dict[int, Self]:
        """Fit one transformer per number of iterations, all from one factorisation.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        iterations
            Lengths of the path.
        """
        rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return dict(self._fit_each("iterations", iterations, X, y, **rows))


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelShrinkage(FairKernelTransformer):
    """Kernel in which directions that covary with functions of the sensitive features are shrunk.

    K_mu = G (I + mu T Tᵀ)⁻¹ Gᵀ, with the features G of the plain kernel and their covariance T with
    a basis of functions of the sensitive features. The regulariser of any machine with
    ``kernel="precomputed"`` then penalises the squared covariance of the prediction with each of
    these functions (docs/explanation/shrinkage.md).

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    penalty
        Strength of the shrinkage, mu above: the weight of squared covariances relative to the
        squared norm of the weights. 0 is the plain kernel. With ``inf`` no prediction covaries with
        a function of the basis over the training rows. The fair machines have a `penalty` in units
        of their loss instead (docs/explanation/shrinkage.md).
    {basis}
    {gamma_s}
    {given}
    {approximation}
    {landmarks}
    {landmark_method}
    {held_out}
    {output}
    {random_state}

    Attributes
    ----------
    shrinkage_ : Shrinkage
        The directions with their squared covariances.
    strength_ : float
        Strength of the removal: `penalty`.
    effective_iterations_ : int or None
        Iterations that found a direction to remove; None for a shrinkage.
    map_ : FeatureMap
        The feature map of the training rows.
    removed_ : Directions
        The shrunk directions, with the share that is removed of each.
    fair_ : FairKernel or FairFeatures
        The fair kernel or the fair features, as arrays.
    T_ : array (n, n)
        T_m of the paper: k(X, training rows) T_m is the fair kernel block. Exact maps only.
    held_out_ : HeldOut or None
        How well ridge regression predicts the sensitive features of held-out rows from plain and
        from fair features.
    n_features_in_, feature_names_in_
        Number of columns of X, and their names if X was a data frame.

    References
    ----------
    Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
    Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
    whose directions are nested in the number of iterations (docs/explanation/maths.md).
    Shrinkage is described in docs/explanation/shrinkage.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelShrinkage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> fair = FairKernelShrinkage(gamma=0.1, penalty=1e4).fit(X, sensitive_features=X[:, 0])
    >>> fair.transform(X).shape
    (50, 50)
    """

    penalty: float = 1e4
    basis: str | None = "rbf"

    _shrinks = True

    def _strength(self) -> float:
        return np.inf if self.penalty == np.inf else not_negative("penalty", self.penalty)

    @property
    def shrinkage_(self) -> Shrinkage:
        """The directions with their squared covariances."""
        check_is_fitted(self, "fair_")
        return cast(Shrinkage, self._removals)

    def at(self, strength: float) -> Self:
        """Return a fitted copy with another penalty; large arrays are shared.

        Parameters
        ----------
        strength
            The penalty, not negative, possibly ``inf``.
        """
        return self._copy_at("penalty", strength)

    def fit_path(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        penalties: Sequence[float],
    ) -> dict[float, Self]:
        """Fit one transformer per penalty, all from one factorisation.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        penalties
            Strengths of the shrinkage.
        """
        rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return dict(self._fit_each("penalty", penalties, X, y, **rows))
