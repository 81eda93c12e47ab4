"""Gaussian process regression on the fair kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import FeatureMap
from fkd.core.gaussian_process import ConditionedProcess, ProcessModel, fit_process
from fkd.core.linalg import DEFLATION
from fkd.core.predictors import Predictor, TargetExpansions, predict_rows
from fkd.core.training import RunningSums
from fkd.core.validation import boolean, check_finite_result, validate_rows
from fkd.estimators.base import (
    FIT_METADATA,
    FairPredictor,
    Inputs,
    TargetScale,
    supports_partial_fit,
)
from fkd.estimators.held_out import HeldOut


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairGaussianProcess(RegressorMixin, FairPredictor):
    """Gaussian process whose covariance does not depend on the sensitive features.

    The prior mean is the mean of the training target, the prior covariance is `amplitude` times the
    fair kernel, and the variance of the noise is `alpha`. The predictive mean is that of
    `FairKernelRidge` without an intercept, with ridge alpha / amplitude, on the centred target.

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    alpha
        Variance of the noise in the target, above 0; None is the most probable one.
    amplitude
        Prior variance of the process per unit of the kernel, above 0; None is the most probable
        one, which costs an eigendecomposition of the moments of the fair features.
    normalize_y
        Both variances are in units of the variance of the target, so that its unit does not matter.
    {ridge}
    {iterations}
    {removal}
    {penalty}
    {basis}
    {gamma_s}
    {given}
    {unfairness}
    {weigh}
    {approximation}
    {landmarks}
    {landmark_method}
    {center_sensitive}
    {held_out}
    {random_state}

    Attributes
    ----------
    alpha_, amplitude_ : float or array (k,)
        Variances of noise and process, given or found, in the same units; one per target.
    log_marginal_likelihood_ : float or array (k,)
        Log density of the training target at these variances.
    map_ : FeatureMap
        The feature map of the training rows.
    processes_ : tuple of ConditionedProcess
        One per target.
    expansion_ : predictor
        The predictive mean as plain arrays.
    {strength_}
    {effective_iterations_}
    {held_out_}
    {unfairness_}
    {n_features_in_, feature_names_in_}

    Notes
    -----
    The target may have several columns (n, k), each with a process of its own on one feature map.
    With a reduced map (``approximation="nystroem"`` or ``"fourier"``) rows can be added by
    `partial_fit`.

    A row of weight w counts as w observations with independent noise, which is one observation
    with noise alpha / w. The likelihood counts w of them too.

    References
    ----------
    Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
    Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
    whose directions are nested in the number of iterations (docs/explanation/maths.md).
    Shrinkage is described in docs/explanation/shrinkage.md.

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

    alpha: float | None = None
    amplitude: float | None = None
    normalize_y: bool = True

    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = FIT_METADATA
    _several_targets: ClassVar[bool] = True

    def _prepare_target(self, y: Any, n: int, w: Array | None) -> Array:
        normalize = boolean("normalize_y", self.normalize_y)
        return self._scaled_target(y, n, w, normalize=normalize)

    def _fit_strengths(self, inputs: Inputs, strengths: Sequence[float]) -> list[ProcessModel]:
        return fit_process(
            inputs.training,
            inputs.kernel,
            inputs.removal,
            strengths,
            amplitude=self.amplitude,
            alpha=self.alpha,
        )

    def _adopt(self, model: ProcessModel, inputs: Inputs | None) -> None:
        means = tuple(process.mean for process in model.processes)
        several = bool(np.ndim(self._scale.level))
        self.expansion_ = self._scale.restored(TargetExpansions(means) if several else means[0])
        self.map_: FeatureMap = model.feature_map
        self.processes_: tuple[ConditionedProcess, ...] = model.processes
        units = np.atleast_1d(self._scale.unit).tolist()
        each = zip(model.processes, model.targets, units, strict=True)
        densities = [process.log_density(moments, unit) for process, moments, unit in each]
        self.log_marginal_likelihood_ = self._per_target(densities)
        self.amplitude_ = self._per_target([process.amplitude for process in model.processes])
        self.alpha_ = self._per_target([process.alpha for process in model.processes])
        self._kept = model.thin()

    def _per_target(self, values: Sequence[float]) -> Any:
        """Return one number per target, or a float if the target is a vector."""
        return np.array(values) if np.ndim(self._scale.level) else values[0]

    def _kept_model(self, strength: float) -> ProcessModel:
        found: ProcessModel = self._kept.at(strength, amplitude=self.amplitude, alpha=self.alpha)
        return found

    def _judge(
        self, part: Inputs, strength: float, X: Rows, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        (model,) = self._fit_strengths(part, [strength])
        before, after = model.unremoved_scores(X), model.scores(X)
        return self._judge_predictions(before, after, part.training, y, S, w)

    @available_if(supports_partial_fit)
    def partial_fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit to all rows of this and earlier calls.

        The first call determines the feature map with its landmarks and the functions of s. Mean
        and unit of the target are those of all rows. No trial on held-out rows is run. `fit` starts
        again.

        Parameters
        ----------
        X, y
            Further training rows (k, d) and their target (k,).
        sensitive_features
            One or several columns (k,) or (k, l) to remove. Required.
        sample_weight
            Weights of these rows, (k,), as in `fit`.
        """
        return self._fit_further_rows(X, y, sensitive_features, sample_weight)

    def _rescaled(self, running: RunningSums) -> RunningSums:
        """Return the sums with the target in units of all rows so far."""
        moments = running.fit
        level = moments.y / moments.n
        spread = max(moments.yy / moments.n - level**2, 0.0) ** 0.5
        # Without spread only rounding errors are left.
        unit = spread if self.normalize_y and spread > DEFLATION * abs(level) else 1.0
        before = self._scale
        self._scale = TargetScale(before.level + before.unit * level, before.unit * unit)
        return running.with_target(level, unit)

    def predict(self, X: Any, return_std: bool = False, include_noise: bool = True) -> Any:
        """Return the predictive mean, and its standard deviation if `return_std`.

        Parameters
        ----------
        X
            Rows (k, d).
        return_std
            Return the standard deviation, in the unit of the target, as well.
        include_noise
            Deviation of a new observation: mean ± 1.96 deviations covers 95 % of them. False is
            the deviation of the function without noise.
        """
        mean = predict_rows(self, X)
        if not boolean("return_std", return_std):
            return mean
        X = validate_rows(self, X, reset=False)
        noisy = boolean("include_noise", include_noise)
        each = [
            np.sqrt(p.amplitude * p.variance(self.map_, X) + (p.alpha if noisy else 0.0))
            for p in self.processes_
        ]
        several = np.ndim(self._scale.level)
        std = self._scale.unit * (np.column_stack(each) if several else each[0])
        check_finite_result("standard deviations", std)
        return mean, std

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        fitted: Predictor = self.expansion_
        return fitted
