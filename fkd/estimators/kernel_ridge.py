"""Kernel ridge regression on the fair kernel."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from fkd.core.arrays import Array
from fkd.core.border import target_vector
from fkd.core.fair_ridge import ridge_expansions
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.parameters import positive, truth
from fkd.core.predictors import MapExpansion, Predictor
from fkd.core.price import ridge_mu
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
    kernel, gamma, degree, coef0, ridge, iterations, removal, penalty, basis, gamma_s, given, \
approximation, landmarks, landmark_method, center_sensitive, held_out, random_state
        As in `fkd.estimators.removal_parameters.RemovalParameters`.
    unfairness
        As in `fkd.estimators.bounded_estimator.BoundedEstimator`.

    Attributes
    ----------
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
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        strength = self._decide(X, y - self._level(y), sensitive_features)
        found = self._fit_all(X, y, sensitive_features, [(strength, self.alpha)])
        (self.expansion_,) = found
        return self

    def _level(self, y: Array) -> float:
        """Return what is subtracted before any sum, so that an offset costs no digits."""
        return float(y.mean(axis=0)) if truth("fit_intercept", self.fit_intercept) else 0.0

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        alphas: Sequence[float],
        iterations: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> dict[tuple[float, float], Predictor]:
        """Return a predictor per strength and alpha, all from one factorisation of the kernel.

        Each equals what `fit` gives for that pair alone, bit for bit. Nothing is tried on held-out
        rows: choose among them by rows of your own.

        Parameters
        ----------
        X, y, sensitive_features
            As in `fit`.
        alphas
            Ridges of the predictor, to be combined with the strengths; those of the constructor
            are not used.
        iterations, penalties
            The strengths: of a path its lengths, of a shrinkage its prices.
        """
        wanted, name = (penalties, "penalties") if self._shrinks else (iterations, "iterations")
        if penalties is not None and iterations is not None:
            raise ValueError(
                f"fit_path must be given {name} alone where removal={self.removal!r}, got both"
            )
        strengths = [self._checked_strength(strength) for strength in wanted or ()]
        settings = [(strength, alpha) for strength in strengths for alpha in alphas]
        if not settings:
            raise ValueError(
                f"{name} and alphas must hold at least one value each where "
                f"removal={self.removal!r}, got {list(wanted or ())} with {list(alphas)}"
            )
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        found = self._fit_all(X, y, sensitive_features, settings, trial=False)
        return dict(zip(settings, found, strict=True))

    def _fit_all(
        self,
        X: Array,
        y: Array,
        sensitive_features: Any,
        settings: Sequence[tuple[float, float]],
        *,
        trial: bool = True,
    ) -> list[MapExpansion]:
        """Return a predictor per (strength, alpha) of the checked rows."""
        level = self._level(y)
        most = max(strength for strength, _ in settings)
        removal, moments = self._fit_removal(X, y - level, sensitive_features, most, trial=trial)
        found = self._ridges(removal, moments, settings)
        if trial:  # of a whole path a constant may well be the end
            self._tell_collapse(found[0], removal)
        return [rescaled(f, 1.0, level) for f in found]

    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> list[MapExpansion]:
        """Return the regressions at these strengths."""
        alpha = removal.share * positive("alpha", self.alpha)
        return self._ridges(removal, moments, [(strength, alpha) for strength in strengths])

    def _ridges(
        self, removal: Removal, moments: Moments, settings: Sequence[tuple[float, float]]
    ) -> list[MapExpansion]:
        """Return a regression per (strength, alpha)."""
        if self._shrinks:
            n = moments.n
            settings = [
                (ridge_mu(price, n=n, alpha=positive("alpha", alpha)), alpha)
                for price, alpha in settings
            ]
        return ridge_expansions(
            removal.feature_map,
            moments,
            removal.removals,
            settings,
            fit_intercept=self.fit_intercept,
        )
