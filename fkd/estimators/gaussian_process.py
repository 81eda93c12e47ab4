"""Gaussian process regression on the fair kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from fkd.core.arrays import Array, Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import KernelFunction
from fkd.core.linalg import DEFLATION
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Directions, fair_features, ridge_mu
from fkd.core.ridge import FairInverse
from fkd.core.validation import boolean, check_finite_result, positive
from fkd.core.weights import weighted_gram, weighted_std
from fkd.estimators.growing import GrowingRegressor, RowsSoFar
from fkd.estimators.marginal_likelihood import MarginalLikelihood
from fkd.estimators.process import ConditionedProcess, predictive_means, without_rows
from fkd.estimators.regressor import Fitted, rescaled, target_moments
from fkd.estimators.removal_estimator import Removal


@fill_docstring
class FairGaussianProcess(GrowingRegressor):
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
    alpha_, amplitude_ : float or array (k,)
        Variances of noise and process, given or found, in the same units; one per target.
    log_marginal_likelihood_ : float or array (k,)
        Log density of the training targets at these.
    map_ : FeatureMap
        The feature map of the training rows.
    processes_ : tuple of ConditionedProcess
        One per target.
    expansion_ : predictor
        The predictive mean as plain arrays.
    {fitted}

    Notes
    -----
    The target may have several columns (n, k): each has a process of its own on one feature map. On
    a reduced map (``approximation="nystroem"`` or ``"fourier"``) rows can be added by
    `partial_fit`.

    A row of weight w stands for w observations, each with noise of its own: for one observation
    whose noise is alpha / w. The likelihood counts w of them too.

    References
    ----------
    {method}

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
        self.amplitude = amplitude
        self.normalize_y = normalize_y

    _by_moments = True
    _several = True

    def _scale(self, y: Array, w: Array | None) -> tuple[Array, Array]:
        """Return level with unit of each target."""
        level, unit = super()._scale(y, w)
        if boolean("normalize_y", self.normalize_y):
            deviation = weighted_std(y, w)
            unit = np.where(deviation > 0, deviation, 1.0)
        return level, unit

    def _in_units_of_all(self, so_far: RowsSoFar) -> RowsSoFar:
        """Return the sums of (y - level) / unit: the prior mean is that of all rows so far."""
        m = so_far.moments
        level = m.y / m.n
        spread = max(m.yy / m.n - level**2, 0.0) ** 0.5
        # Of a target without spread what is left is rounding.
        unit = spread if self.normalize_y and spread > DEFLATION * abs(level) else 1.0
        self._level, self._unit = self._level + self._unit * level, self._unit * unit
        moments = m.with_target(level, unit)
        one = m is so_far.removing  # which asks for no target
        return replace(so_far, moments=moments, removing=moments if one else so_far.removing)

    def _settle(
        self, removal: Removal, moments: Moments | None, strength: float, *, tell: bool
    ) -> None:
        """Condition the process of each target on the training rows."""
        assert moments is not None
        self._condition(removal, target_moments(removal, moments), strength)
        if tell:
            mean = self._together([process.mean for process in self.processes_])
            self._tell_collapse(mean, removal)

    def _condition(self, removal: Removal, targets: Sequence[Moments], strength: float) -> None:
        """Take the process of each target at a strength for the model's own."""
        found = tuple(self._process(removal, moments, strength) for moments in targets)
        mean = self._together([process.mean for process in found])
        self.expansion_ = rescaled(mean, self._unit, self._level)
        self.map_, self.processes_ = removal.feature_map, found
        each = zip(found, targets, np.atleast_1d(self._unit).tolist(), strict=True)
        self.log_marginal_likelihood_ = self._per_target(
            [process.log_density(moments, unit) for process, moments, unit in each]
        )
        self.amplitude_ = self._per_target([process.amplitude for process in found])
        self.alpha_ = self._per_target([process.alpha for process in found])
        self._kept = without_rows(removal, targets)

    def _from_kept(self, strength: float) -> Self:
        """Return a fitted copy at another strength."""
        removal, targets = self._kept
        if isinstance(exact := removal.feature_map, ExactMap):
            C = weighted_gram(exact.G, removal.weights.fit)
            targets = [replace(moments, C=C) for moments in targets]
        other = self._copy_at(strength, removal.removals)
        other._condition(removal, targets, strength)
        return other

    def _per_target(self, values: Sequence[float]) -> Any:
        """Return one number per target, a float where there is one target."""
        return np.array(values) if np.ndim(self._level) else values[0]

    def _process(self, removal: Removal, moments: Moments, strength: float) -> ConditionedProcess:
        """Return the process of one target."""
        inner = self._inner(removal, moments, strength)
        removed = removal.removals.at(inner)
        amplitude, alpha = self._variances(removal, moments, removed)
        ratio = alpha / amplitude
        (mean,) = predictive_means(removal, moments, [inner], ratio)
        inverse = FairInverse.from_matrix(moments.C, ratio, removed, name="alpha / amplitude")
        return ConditionedProcess(mean, removed, inverse, amplitude, alpha)

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
        if removal.X.shape[0]:
            G = fair_features(removal.feature_map, removal.X, removed)
            C = weighted_gram(G, removal.weights.fit)
        else:  # the rows of a reduced map are gone: P^½ C P^½ from its moments
            C = removed.features(removed.features(moments.C).T)
        c = removed.features(moments.c[None, :])[0]
        largest = float(moments.C.diagonal().max())
        likelihood = MarginalLikelihood.of(C, c, n=moments.n, square=moments.yy, largest=largest)
        return likelihood.best(amplitude, alpha)

    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> Sequence[Fitted]:
        """Return the predictive means at these strengths, at one pair of variances per target."""
        found: list[list[MapExpansion]] = [[] for _ in strengths]
        for target in target_moments(removal, moments):
            inner = [self._inner(removal, target, strength) for strength in strengths]
            amplitude, alpha = self._variances(removal, target, removal.removals.at(max(inner)))
            means = predictive_means(removal, target, inner, alpha / amplitude)
            for parts, mean in zip(found, means, strict=True):
                parts.append(mean)
        return [self._together(parts) for parts in found]

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Rows
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
        if not boolean("return_std", return_std):
            return mean
        X = self._inputs(X, reset=False)
        noisy = boolean("include_noise", include_noise)
        each = [
            np.sqrt(p.amplitude * p.variance(self.map_, X) + (p.alpha if noisy else 0.0))
            for p in self.processes_
        ]
        std = self._unit * (np.column_stack(each) if np.ndim(self._level) else each[0])
        check_finite_result("standard deviations", std)
        return mean, std
