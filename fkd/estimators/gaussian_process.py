"""Gaussian process regression on the fair kernel."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.border import check_finite_result, target_vector
from fkd.core.directions import Directions
from fkd.core.fair_kernel import fair_features
from fkd.core.fair_ridge import FairInverse, ridge_expansions
from fkd.core.kernels import KernelFunction
from fkd.core.linalg import gram, project
from fkd.core.moments import Moments
from fkd.core.parameters import positive, truth
from fkd.core.predictors import MapExpansion
from fkd.core.price import ridge_mu
from fkd.estimators.marginal_likelihood import MarginalLikelihood
from fkd.estimators.regressor import FairRegressor, rescaled
from fkd.estimators.removal_estimator import Removal


class FairGaussianProcess(FairRegressor):
    """Gaussian process whose covariance knows nothing of the sensitive features.

    The prior mean is the mean of the training targets, the prior covariance `amplitude` times the
    fair kernel, the noise `alpha`. Its predictive mean is that of `FairKernelRidge` without an
    intercept, of ridge alpha / amplitude, on the centred target.

    Parameters
    ----------
    alpha
        Variance of the noise in the target, above 0; None takes the most probable one.
    amplitude
        Prior variance of the process per unit of the kernel, above 0; None takes the most probable
        one. To find one costs an eigendecomposition of the fair features' moments.
    normalize_y
        Take both variances in units of the target's variance, so that its unit changes nothing.
    kernel, gamma, degree, coef0, ridge, iterations, removal, penalty, basis, gamma_s, given, \
approximation, landmarks, landmark_method, center_sensitive, held_out, random_state
        As in `fkd.estimators.removal_parameters.RemovalParameters`.
    unfairness
        As in `fkd.estimators.bounded_estimator.BoundedEstimator`.

    Attributes
    ----------
    alpha_, amplitude_ : float
        Variances of noise and process, given or found, in the same units.
    log_marginal_likelihood_ : float
        Log density of the training targets at these.
    effective_iterations_ : int
        Iterations that found something to remove.
    held_out_ : HeldOut or None
        What rows that a trial fit left out say of it.
    strength_ : float
        The strength, given or chosen.
    unfairness_ : KeptBound or None
        What a bound chose.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairGaussianProcess
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairGaussianProcess(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> mean, std = model.predict(X, return_std=True)
    >>> mean.shape, std.shape
    ((50,), (50,))
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        alpha: float | None = None,
        amplitude: float | None = None,
        normalize_y: bool = True,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | None = None,
        iterations: int = 10,
        removal: str = "path",
        penalty: float | None = None,
        basis: str | None = None,
        gamma_s: float = 10.0,
        given: Any = None,
        unfairness: Mapping[str, float] | None = None,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = True,
        held_out: float = 0.2,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            ridge=ridge,
            iterations=iterations,
            removal=removal,
            penalty=penalty,
            basis=basis,
            gamma_s=gamma_s,
            given=given,
            unfairness=unfairness,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            center_sensitive=center_sensitive,
            held_out=held_out,
            random_state=random_state,
        )
        self.alpha = alpha
        self.amplitude = amplitude
        self.normalize_y = normalize_y

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Return self, conditioned on these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        level, unit = float(y.mean(axis=0)), 1.0
        if truth("normalize_y", self.normalize_y):
            unit = float(y.std(axis=0)) or 1.0
        z = (y - level) / unit
        asked = self._decide(X, z, sensitive_features)
        removal, moments = self._fit_removal(X, z, sensitive_features, asked)
        strength = self._inner(removal, moments, asked)
        removed = removal.removals.at(strength)
        self.amplitude_, self.alpha_ = self._variances(removal, moments, removed)
        ratio = self.alpha_ / self.amplitude_
        (mean,) = _means(removal, moments, [strength], ratio)
        self._tell_collapse(mean, removal)
        self.expansion_ = rescaled(mean, unit, level)
        self.map_, self.removed_, self.unit_ = removal.feature_map, removed, unit
        self.inverse_ = FairInverse.of(moments.C, ratio, removed, name="alpha / amplitude")
        self.log_marginal_likelihood_ = self._likelihood(moments.c, z)
        return self

    def _inner(self, removal: Removal, moments: Moments, strength: float) -> float:
        """Return a strength as the removal counts it: a price by the plain process' variances.

        Those of the fair process would themselves depend on what is removed.
        """
        if not self._shrinks:
            return strength
        plain = removal.removals.at(0)
        amplitude, alpha = self._variances(removal, moments, plain)
        return ridge_mu(strength, n=moments.n, alpha=alpha / amplitude)

    def _variances(
        self, removal: Removal, moments: Moments, removed: Directions
    ) -> tuple[float, float]:
        """Return amplitude with noise, what is not given by its most probable value."""
        amplitude = None if self.amplitude is None else positive("amplitude", self.amplitude)
        alpha = None if self.alpha is None else positive("alpha", self.alpha)
        if amplitude is not None and alpha is not None:
            return amplitude, alpha
        C = gram(fair_features(removal.feature_map, removal.X, removed))
        c = removed.features(moments.c[None, :])[0]
        largest = float(moments.C.diagonal().max())
        return MarginalLikelihood.of(C, c, removal.y, largest=largest).best(amplitude, alpha)

    def _likelihood(self, c: Array, z: Array) -> float:
        """Return the log density of the target at the fitted variances."""
        (r, w), n, ratio = self.removed_.V.shape, len(z), self.alpha_ / self.amplitude_
        square = float(z @ z - c @ (self.inverse_ @ c)) / self.alpha_
        # K + ratio·I has the eigenvalues of the fair C + ratio·I, all others are the ratio.
        logs = self.inverse_.log_determinant + (n - r + w) * np.log(ratio)
        # The target itself has a unit that is so many times wider.
        units = 2 * n * np.log(self.unit_) + n * np.log(2 * np.pi * self.amplitude_)
        return -0.5 * float(square + logs + units)

    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> list[MapExpansion]:
        """Return the predictive means at these strengths, at one pair of variances."""
        inner = [self._inner(removal, moments, strength) for strength in strengths]
        amplitude, alpha = self._variances(removal, moments, removal.removals.at(max(inner)))
        return _means(removal, moments, inner, alpha / amplitude)

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Array
    ) -> Array:
        """Return the predictive means, each at its own variances, as `fit` would have them."""
        each = [
            super(FairGaussianProcess, self)._scores(removal, moments, [s], X) for s in strengths
        ]
        return np.concatenate(each, axis=1)

    def predict(self, X: Any, return_std: bool = False, include_noise: bool = True) -> Any:
        """Return the predictive mean, with its standard deviation where `return_std`.

        Parameters
        ----------
        X
            Rows (k, d).
        return_std
            Whether to return the standard deviation, in the unit of the target, too.
        include_noise
            Of a new target, so that mean ± 1.96 deviations holds 95 % of what will be observed;
            False is of the function behind it.
        """
        mean = super().predict(X)
        if not truth("return_std", return_std):
            return mean
        X = self._inputs(X, reset=False)
        variance = [self._variance(X[rows]) for rows in row_blocks(len(X), BLOCK_ROWS)]
        noise = self.alpha_ if truth("include_noise", include_noise) else 0.0
        std = self.unit_ * np.sqrt(self.amplitude_ * np.concatenate(variance) + noise)
        check_finite_result("standard deviations", std)
        return mean, std

    def _variance(self, X: Array) -> Array:
        """Return the variance of the function at each row, in units of the amplitude."""
        G = self.map_.transform(X)
        beyond = self.map_.beyond(X, G)
        # g·g - gᵀC(C + δI)⁻¹g = δ gᵀ(C + δI)⁻¹g, which loses no digits where little is left.
        # What is wholly removed counts for nothing, down to the last bit.
        G = project(G, self.removed_.gone)
        left = np.maximum(np.einsum("ij,ji->i", G, self.inverse_ @ G.T), 0.0)
        return np.asarray(beyond + (self.alpha_ / self.amplitude_) * left)


def _means(
    removal: Removal, moments: Moments, strengths: Sequence[float], ratio: float
) -> list[MapExpansion]:
    """Return the predictive means, which are kernel ridge regressions of ridge `ratio`."""
    settings = [(strength, ratio) for strength in strengths]
    return ridge_expansions(removal.feature_map, moments, removal.removals, settings)
