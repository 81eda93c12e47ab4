"""Gaussian process regression on the fair kernel."""

from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.arrays import Array
from fkd.decomposition import FairKernelDecomposition
from fkd.kernels import KernelFunction
from fkd.removal import RemovalEstimator
from fkd.validation import positive, target_vector


class FairGaussianProcess(RegressorMixin, RemovalEstimator):
    """Gaussian process whose covariance knows nothing of the sensitive features.

    The prior mean is the mean of the training targets.

    Parameters
    ----------
    alpha
        Variance of the noise in the target, above 0.
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, random_state
        As in `fkd.removal.RemovalEstimator`.

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
        alpha: float = 0.1,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float = 0.1,
        iterations: int = 10,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = False,
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
            random_state=random_state,
        )
        self.alpha = alpha

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
        self.fair_ = FairKernelDecomposition(**self._removal_parameters())
        K = self.fair_.fit_transform(X, sensitive_features=sensitive_features)
        K.flat[:: len(K) + 1] += positive("alpha", self.alpha)
        self.L_ = cho_factor(K, lower=True, overwrite_a=True)[0]
        self.mean_ = float(y.mean(axis=0))
        self.dual_coef_ = cho_solve((self.L_, True), y - self.mean_)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the predictive mean, with the standard deviation of f(x) where `return_std`."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        K_t = self.fair_.transform(X)
        mean = K_t @ self.dual_coef_ + self.mean_
        if not return_std:
            return np.asarray(mean)
        explained = solve_triangular(self.L_, K_t.T, lower=True)
        variance = self.fair_.diag(X) - np.einsum("ij,ij->j", explained, explained)
        # Rounding can leave a variance of zero slightly negative.
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))
