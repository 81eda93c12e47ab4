"""Kernel ridge regression on the fair kernel."""

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.arrays import Array
from fkd.expansion import Predictor
from fkd.kernels import KernelFunction
from fkd.removal import RemovalEstimator
from fkd.ridge import ridge_expansions
from fkd.validation import target_vector


class FairKernelRidge(RegressorMixin, RemovalEstimator):
    """Kernel ridge regression that does not lean on the sensitive features.

    Parameters
    ----------
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Let the predictor have a free constant. The paper's has none; as the first removed
        direction is close to a constant, one often helps.
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, random_state
        As in `fkd.removal.RemovalEstimator`.

    Attributes
    ----------
    effective_iterations_ : int
        Iterations that found something to remove.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairKernelRidge(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> model.predict(X).shape
    (50,)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        alpha: float = 1.0,
        fit_intercept: bool = False,
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
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        found = self._fit_all(X, y, sensitive_features, [(self.iterations, self.alpha)])
        (self.expansion_,) = found
        return self

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        iterations: Sequence[int],
        alphas: Sequence[float],
    ) -> dict[tuple[int, float], Predictor]:
        """Return a predictor per (m, alpha), all from one factorisation of the kernel.

        Each equals what `fit` gives for that pair alone, bit for bit.

        Parameters
        ----------
        X, y, sensitive_features
            As in `fit`.
        iterations, alphas
            The values to combine; those of the constructor are not used.
        """
        settings = [(m, alpha) for m in iterations for alpha in alphas]
        found = self._fit_all(X, y, sensitive_features, settings)
        return dict(zip(settings, found, strict=True))

    def _fit_all(
        self, X: Any, y: Any, sensitive_features: Any, settings: Sequence[tuple[int, float]]
    ) -> list[Predictor]:
        """Return a predictor per (m, alpha) of the checked rows."""
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        longest = max(m for m, _ in settings)
        feature_map, moments, path = self._fit_removal(X, y, sensitive_features, longest)
        return ridge_expansions(
            feature_map, moments, path, settings, fit_intercept=self.fit_intercept
        )

    def predict(self, X: Any) -> Array:
        """Return one prediction per row."""
        check_is_fitted(self, "expansion_")
        return self.expansion_.predict(self._inputs(X, reset=False))

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        return self.expansion_
