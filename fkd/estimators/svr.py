"""Support vector regression on the fair kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.predictors import Predictor, predict_rows
from fkd.core.svr import LIBSVM_STEPS, LIBSVM_TOL, SVRModel, SVRSetting, fit_svr, use_batched
from fkd.core.validation import positive
from fkd.estimators.base import FairPredictor, Inputs


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairSVR(RegressorMixin, FairPredictor):
    """Support vector regression whose prediction does not depend on the sensitive features.

    It uses the fair kernel, from which directions that predict the sensitive features are removed,
    or in which they are shrunk. Prediction needs no sensitive features.

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    C
        Penalty of errors beyond `epsilon`, above 0.
    epsilon
        Half width of the insensitive tube, in units of the target.
    solver
        ``"libsvm"``, whose cost grows with the square of the number of rows; ``"batched"``,
        passes over the rows of a reduced map until the duality gap is certified; or
        ``"auto"``: batched for reduced maps with more than 10 000 rows.
    tol, max_iter
        Stopping criteria. libsvm: violation of the optimality conditions, number of steps (a
        ConvergenceWarning is issued; -1 is no limit). Batched: relative duality gap, number of
        passes, at most 2000.
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
    n_iter_ : int
        Steps of libsvm, or passes over the rows.
    dual_gap_ : float or None
        Certified relative duality gap of ``"batched"``; None for libsvm.
    {strength_}
    {effective_iterations_}
    {held_out_}
    {unfairness_}
    {n_features_in_, feature_names_in_}

    Notes
    -----
    With a reduced map no array of the size of the kernel matrix is formed and no training row is
    kept. `at` then is not available: use `fit_path` for several strengths.

    References
    ----------
    Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
    Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
    whose directions are nested in the number of iterations (docs/explanation/maths.md).
    Shrinkage is described in docs/explanation/shrinkage.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVR(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> model.predict(X).shape
    (50,)
    """

    C: float = 1.0
    epsilon: float = 0.1
    solver: str = "auto"
    tol: float = LIBSVM_TOL
    max_iter: int = LIBSVM_STEPS

    _collapse_causes: ClassVar[str] = "C and epsilon, which have the unit of the target, gamma"
    _minimises_absolute_errors: ClassVar[bool] = True

    def _prepare_target(self, y: Any, n: int, w: Array | None) -> Array:
        return self._scaled_target(y, n, w)

    def _fit_strengths(self, inputs: Inputs, strengths: Sequence[float]) -> Iterator[SVRModel]:
        C = positive("C", self.C) / inputs.share
        batched = use_batched(self.solver, exact=inputs.exact, n=len(inputs.training.y))
        settings = [
            SVRSetting(inputs.kernel, inputs.removal, strength, C, self.epsilon, batched)
            for strength in strengths
        ]
        # No kernel matrix is formed for a reduced map.
        rule: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "precomputed_rows": 0}
        return fit_svr(inputs.training, settings, **rule, warn=True)

    def _adopt(self, model: SVRModel, inputs: Inputs | None) -> None:
        self.expansion_ = self._scale.restored(model.predictor)
        self.n_iter_, self.dual_gap_ = model.iterations, model.gap
        if inputs is not None:
            self._kept = inputs.with_known(model.removals) if inputs.exact else None

    def predict(self, X: Any) -> Array:
        """Return one prediction per row, (k,).

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
