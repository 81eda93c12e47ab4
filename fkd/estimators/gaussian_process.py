"""Gaussian process regression on the fair kernel."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.border import check_finite_result, target_vector
from fkd.core.fair_kernel import fair_features
from fkd.core.fair_ridge import FairInverse, ridge_expansions
from fkd.core.kernels import KernelFunction
from fkd.core.linalg import gram, project
from fkd.core.moments import Moments
from fkd.core.parameters import positive, truth
from fkd.core.predictors import MapExpansion
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
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, held_out, random_state
        As in `fkd.estimators.removal_estimator.RemovalEstimator`.

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
        removal, moments = self._fit_removal(X, z, sensitive_features, self.iterations)
        U = removal.path.at(self.iterations)
        self.amplitude_, self.alpha_ = self._variances(removal, moments, U)
        ratio = self.alpha_ / self.amplitude_
        (mean,) = _means(removal, moments, [self.iterations], ratio)
        self._tell_collapse(mean, removal)
        self.expansion_ = rescaled(mean, unit, level)
        self.map_, self.U_, self.unit_ = removal.feature_map, U, unit
        self.inverse_ = FairInverse.of(moments.C, ratio, U, name="alpha / amplitude")
        self.log_marginal_likelihood_ = self._likelihood(moments.c, z)
        return self

    def _variances(self, removal: Removal, moments: Moments, U: Array) -> tuple[float, float]:
        """Return amplitude with noise, what is not given by its most probable value."""
        amplitude = None if self.amplitude is None else positive("amplitude", self.amplitude)
        alpha = None if self.alpha is None else positive("alpha", self.alpha)
        if amplitude is not None and alpha is not None:
            return amplitude, alpha
        C = gram(fair_features(removal.feature_map, removal.X, U))
        c = project(moments.c[None, :], U)[0]
        largest = float(moments.C.diagonal().max())
        return MarginalLikelihood.of(C, c, removal.y, largest=largest).best(amplitude, alpha)

    def _likelihood(self, c: Array, z: Array) -> float:
        """Return the log density of the target at the fitted variances."""
        (r, w), n, ratio = self.U_.shape, len(z), self.alpha_ / self.amplitude_
        square = float(z @ z - c @ (self.inverse_ @ c)) / self.alpha_
        # K + ratio·I has the eigenvalues of C + ratio·I beside U, all others are the ratio.
        logs = self.inverse_.log_determinant + (n - r + w) * np.log(ratio)
        # The target itself has a unit that is so many times wider.
        units = 2 * n * np.log(self.unit_) + n * np.log(2 * np.pi * self.amplitude_)
        return -0.5 * float(square + logs + units)

    def _expansions(
        self, removal: Removal, moments: Moments, lengths: Sequence[int]
    ) -> list[MapExpansion]:
        """Return the predictive means after so many iterations each, at one pair of variances."""
        U = removal.path.at(max(lengths))
        amplitude, alpha = self._variances(removal, moments, U)
        return _means(removal, moments, lengths, alpha / amplitude)

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
        G = project(G, self.U_)
        left = np.maximum(np.einsum("ij,ji->i", G, self.inverse_ @ G.T), 0.0)
        return np.asarray(beyond + (self.alpha_ / self.amplitude_) * left)


def _means(
    removal: Removal, moments: Moments, lengths: Sequence[int], ratio: float
) -> list[MapExpansion]:
    """Return the predictive means, which are kernel ridge regressions of ridge `ratio`."""
    settings = [(m, ratio) for m in lengths]
    return ridge_expansions(removal.feature_map, moments, removal.path, settings)
