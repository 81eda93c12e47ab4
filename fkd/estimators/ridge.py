"""Kernel ridge regression on the fair kernel."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.predictors import Predictor, predict_rows
from fkd.core.ridge import RidgeModel, RidgeSetting, fit_ridge
from fkd.core.validation import boolean, positive, sequence
from fkd.estimators.base import FIT_METADATA, FairPredictor, Inputs, supports_partial_fit


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelRidge(RegressorMixin, FairPredictor):
    """Kernel ridge regression whose prediction does not depend on the sensitive features.

    It uses the fair kernel, from which directions that predict the sensitive features are removed,
    or in which they are shrunk. Prediction needs no sensitive features.

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Fit an intercept, so that the mean of the target does not matter. The published form has
        none.
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
    expansion_ : predictor
        The fitted predictor as plain arrays.
    {strength_}
    {effective_iterations_}
    {held_out_}
    {unfairness_}
    {n_features_in_, feature_names_in_}

    Notes
    -----
    The target may have several columns (n, k). Each is predicted independently of the others, from
    one factorisation. `at` and `fit_path` give other strengths from one fit. With a reduced map
    (``approximation="nystroem"`` or ``"fourier"``) rows can be added by `partial_fit`.

    References
    ----------
    Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
    Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
    whose directions are nested in the number of iterations (docs/explanation/maths.md).
    Shrinkage is described in docs/explanation/shrinkage.md.

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

    alpha: float = 1.0
    fit_intercept: bool = True

    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = FIT_METADATA
    _several_targets: ClassVar[bool] = True

    def _prepare_target(self, y: Any, n: int, w: Array | None) -> Array:
        center = boolean("fit_intercept", self.fit_intercept)
        return self._scaled_target(y, n, w, center=center)

    def _fit_strengths(self, inputs: Inputs, strengths: Sequence[float]) -> list[RidgeModel]:
        return self._fit_alphas(inputs, strengths, [self.alpha])

    def _fit_alphas(
        self, inputs: Inputs, strengths: Sequence[float], alphas: Sequence[float]
    ) -> list[RidgeModel]:
        """Return one model per alpha and strength, the strengths of an alpha together."""
        settings = [
            RidgeSetting(
                inputs.kernel,
                inputs.removal,
                strength,
                inputs.share * positive("alpha", alpha),
                boolean("fit_intercept", self.fit_intercept),
            )
            for alpha in alphas
            for strength in strengths
        ]
        return fit_ridge(inputs.training, settings)

    def _adopt(self, model: RidgeModel, inputs: Inputs | None) -> None:
        self.expansion_ = self._scale.restored(model.predictor)
        # Other strengths follow from arrays of the width of the removed directions.
        self._kept = model.solution.thin()

    def _kept_model(self, strength: float) -> RidgeModel:
        (predictor,) = self._kept.predictors([strength])
        return RidgeModel(predictor, self._kept)

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
        """Fit one model per strength and alpha from one factorisation of the kernel.

        Returns a dictionary by strength, or by (strength, alpha). Each model equals that of `fit`
        bit for bit. No trial on held-out rows is run. The estimator itself does not change.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        alphas
            Ridges of the predictor, to be combined with the strengths. None is `alpha` of the
            constructor; the keys are then strengths.
        iterations, penalties
            The strengths: iterations of a path, or penalties of a shrinkage.
        """
        if alphas is None:
            strengths: dict[str, Any] = {"iterations": iterations, "penalties": penalties}
            rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
            return super().fit_path(X, y, **rows, **strengths)
        alphas = [positive("alphas", alpha) for alpha in sequence("alphas", alphas)]
        each = self._validate_strengths(iterations, penalties)
        fitted = copy(self)
        inputs = fitted._validate(X, y, sensitive_features, sample_weight)
        models = iter(fitted._fit_alphas(inputs, each, alphas))
        found = {}
        for alpha in alphas:
            fitted.alpha = alpha
            for strength in each:
                found[strength, alpha] = fitted._copy_at(strength, next(models), inputs)
        return {(strength, alpha): found[strength, alpha] for strength in each for alpha in alphas}

    @available_if(supports_partial_fit)
    def partial_fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit to all rows of this and earlier calls.

        The first call determines the feature map with its landmarks, the functions of s and the
        mean of the target. No trial on held-out rows is run. `fit` starts again.

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

    def predict(self, X: Any) -> Array:
        """Return one prediction per row, (k,), or per row and target, (k, t).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows if it is precomputed.
        """
        return predict_rows(self, X)

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        fitted: Predictor = self.expansion_
        return fitted
