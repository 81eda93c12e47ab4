"""Kernel ridge regression on the fair kernel."""

from collections.abc import Sequence
from typing import Any, Self

from fkd.core.border import target_vector
from fkd.core.fair_ridge import ridge_expansions
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.parameters import positive, truth
from fkd.core.predictors import MapExpansion, Predictor
from fkd.estimators.regressor import FairRegressor, rescaled
from fkd.estimators.removal_estimator import Removal


class FairKernelRidge(FairRegressor):
    """Kernel ridge regression that does not lean on the sensitive features.

    Parameters
    ----------
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Let the predictor have a free constant, so that the level of the target changes nothing.
        The published form has none.
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, held_out, random_state
        As in `fkd.estimators.removal_estimator.RemovalEstimator`.

    Attributes
    ----------
    effective_iterations_ : int
        Iterations that found something to remove.
    held_out_ : HeldOut or None
        What rows that a trial fit left out say of it.

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
        fit_intercept: bool = True,
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

        Each equals what `fit` gives for that pair alone, bit for bit. Nothing is tried on held-out
        rows: choose among them by rows of your own.

        Parameters
        ----------
        X, y, sensitive_features
            As in `fit`.
        iterations, alphas
            The values to combine; those of the constructor are not used.
        """
        settings = [(m, alpha) for m in iterations for alpha in alphas]
        if not settings:
            raise ValueError(
                "iterations and alphas must hold at least one value each, got "
                f"{list(iterations)} with {list(alphas)}"
            )
        found = self._fit_all(X, y, sensitive_features, settings, trial=False)
        return dict(zip(settings, found, strict=True))

    def _fit_all(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        settings: Sequence[tuple[int, float]],
        *,
        trial: bool = True,
    ) -> list[MapExpansion]:
        """Return a predictor per (m, alpha) of the checked rows."""
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        # Before any sum: an offset of the target then costs no digits.
        level = float(y.mean(axis=0)) if truth("fit_intercept", self.fit_intercept) else 0.0
        longest = max(m for m, _ in settings)
        removal, moments = self._fit_removal(X, y - level, sensitive_features, longest, trial=trial)
        found = self._ridges(removal, moments, settings)
        if trial:  # of a whole path a constant may well be the end
            self._tell_collapse(found[0], removal)
        return [rescaled(f, 1.0, level) for f in found]

    def _expansions(
        self, removal: Removal, moments: Moments, lengths: Sequence[int]
    ) -> list[MapExpansion]:
        """Return the regressions after so many iterations each."""
        alpha = removal.share * positive("alpha", self.alpha)
        return self._ridges(removal, moments, [(m, alpha) for m in lengths])

    def _ridges(
        self, removal: Removal, moments: Moments, settings: Sequence[tuple[int, float]]
    ) -> list[MapExpansion]:
        """Return a regression per (m, alpha)."""
        return ridge_expansions(
            removal.feature_map,
            moments,
            removal.path,
            settings,
            fit_intercept=self.fit_intercept,
        )
