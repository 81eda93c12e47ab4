"""Kernel ridge regression on the fair kernel."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import ridge_mu
from fkd.core.validation import boolean, positive
from fkd.estimators.growing import GrowingRegressor
from fkd.estimators.regressor import Fitted, rescaled, target_moments
from fkd.estimators.removal_estimator import Removal
from fkd.estimators.ridge_choices import RidgeChoices


@fill_docstring
class FairKernelRidge(GrowingRegressor):
    """Kernel ridge regression that does not lean on the sensitive features.

    The fair kernel stands where the plain one would: of a removal path directions are cut out of
    it, of a shrinkage they are made small. Predicting needs no sensitive features.

    Parameters
    ----------
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Let the predictor have a free constant, so that the level of the target changes nothing.
        The published form has none.
    {kernel}
    {path}
    {removal}
    {basis}
    {unfairness}
    {weigh}
    {map}
    {centring}
    {trial}
    {seed}

    Attributes
    ----------
    expansion_ : predictor
        The fitted predictor as plain arrays.
    {fitted}

    Notes
    -----
    The target may have several columns (n, k): each is predicted as if it were alone, from one
    factorisation. `at` and `fit_path` give other strengths from one fit. On a reduced map
    (``approximation="nystroem"`` or ``"fourier"``) rows can be added by `partial_fit`.

    References
    ----------
    {method}

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairKernelRidge(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> model.predict(X).shape
    (50,)
    >>> model.at(3).strength_
    3
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
        weigh: str = "both",
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
            weigh=weigh,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            center_sensitive=center_sensitive,
            held_out=held_out,
            random_state=random_state,
        )
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    _by_moments = True
    _several = True

    def _scale(self, y: Array, w: Array | None) -> tuple[Array, Array]:
        """Return level with unit of each target; without a constant the level is 0."""
        level, unit = super()._scale(y, w)
        free = boolean("fit_intercept", self.fit_intercept)
        return (level, unit) if free else (np.zeros_like(level), unit)

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        alphas: Sequence[float] | None = None,
        iterations: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> dict[Any, Self]:
        """Return a fitted model per strength and alpha, all from one factorisation of the kernel.

        Each equals what `fit` gives for that pair alone, bit for bit. Nothing is tried on held-out
        rows: choose among them by rows of your own. The model itself stays as it was.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        alphas
            Ridges of the predictor, to be combined with the strengths; keys are then pairs
            (strength, alpha). None is that of the constructor, keys are strengths.
        iterations, penalties
            The strengths: of a path its lengths, of a shrinkage its prices.
        """
        wanted, name = (penalties, "penalties") if self._shrinks else (iterations, "iterations")
        if alphas is not None and (not len(alphas) or not wanted):
            raise ValueError(
                f"{name} and alphas must hold at least one value each where "
                f"removal={self.removal!r}, got {list(wanted or ())} with {list(alphas)}"
            )
        strengths = self._strengths(iterations, penalties)
        longest = copy(self)
        rows = longest._weighed_rows(X, y, sensitive_features, sample_weight)
        fitted = longest._removal_of(*rows, max(strengths))
        if alphas is None:
            return dict(zip(strengths, longest._settled(*fitted, strengths), strict=True))
        found = {}
        for alpha in alphas:
            longest.alpha = alpha
            for model in longest._settled(*fitted, strengths):
                found[model.strength_, alpha] = model
        return {(m, alpha): found[m, alpha] for m in strengths for alpha in alphas}

    def _settled(
        self, removal: Removal, moments: Moments | None, strengths: Sequence[float]
    ) -> Iterator[Self]:
        """Yield the models at these strengths, from one factorisation."""
        assert moments is not None
        choices = self._choices(removal, moments, max(strengths), self.alpha)
        thin = choices.thin()
        for strength in strengths:
            model = self._copy_at(strength, removal.removals)
            model._adopt(choices.at(self._inner(strength, moments.n, self.alpha)), thin)
            yield model

    def _settle(
        self, removal: Removal, moments: Moments | None, strength: float, *, tell: bool
    ) -> None:
        """Solve at one strength, which the weaker ones follow from."""
        assert moments is not None
        choices = self._choices(removal, moments, strength, self.alpha)
        found = choices.at(self._inner(strength, moments.n, self.alpha))
        if tell:
            self._tell_collapse(self._together(found), removal)
        self._adopt(found, choices.thin())

    def _adopt(self, parts: Sequence[MapExpansion], choices: RidgeChoices) -> None:
        """Take these predictors of the targets for the model's own."""
        self.expansion_ = rescaled(self._together(parts), self._unit, self._level)
        self._kept = choices

    def _from_kept(self, strength: float) -> Self:
        """Return a fitted copy at another strength."""
        kept = self._kept
        other = self._copy_at(strength, kept.families[0].removals)
        other._adopt(kept.at(self._inner(strength, kept.n, self.alpha)), kept)
        return other

    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> Sequence[Fitted]:
        """Return the regressions at these strengths."""
        alpha = removal.share * positive("alpha", self.alpha)
        choices = self._choices(removal, moments, max(strengths), alpha)
        inner = [self._inner(strength, moments.n, alpha) for strength in strengths]
        return [self._together(choices.at(strength)) for strength in inner]

    def _inner(self, strength: float, n: float, alpha: float) -> float:
        """Return a strength as the removal counts it."""
        if not self._shrinks:
            return strength
        return ridge_mu(strength, n=n, alpha=positive("alpha", alpha))

    def _choices(
        self, removal: Removal, moments: Moments, strength: float, alpha: float
    ) -> RidgeChoices:
        """Return the regressions of one alpha up to a strength."""
        return RidgeChoices.of(
            removal.feature_map,
            target_moments(removal, moments),
            removal.removals,
            alpha=alpha,
            strength=self._inner(strength, moments.n, alpha),
            fit_intercept=boolean("fit_intercept", self.fit_intercept),
        )
