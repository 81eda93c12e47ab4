"""Support vector classification on the fair kernel."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import AnyArray, Array
from fkd.core.border import check_finite_result, class_codes
from fkd.core.fair_kernel import FairKernel
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.parameters import positive, steps
from fkd.core.price import margin_mu
from fkd.estimators.bounded_estimator import BoundedEstimator
from fkd.estimators.held_out import HeldOut, judge_scores, sample_rows, tell_collapse
from fkd.estimators.removal_estimator import Removal
from fkd.estimators.support_vector_regression import LIBSVM_STEPS, LIBSVM_TOL


class FairSVC(ClassifierMixin, BoundedEstimator):
    """Support vector classifier that does not lean on (continuous) sensitive features.

    Parameters
    ----------
    C
        Penalty of errors, above 0.
    tol, max_iter
        When the solver stops: at this violation of its conditions, or after so many steps, with a
        ConvergenceWarning; -1 is no limit.
    kernel, gamma, degree, coef0, ridge, iterations, removal, penalty, basis, gamma_s, given, \
approximation, landmarks, landmark_method, center_sensitive, held_out, random_state
        As in `fkd.estimators.removal_parameters.RemovalParameters`.
    unfairness
        As in `fkd.estimators.bounded_estimator.BoundedEstimator`.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    fair_ : FairKernel
        What is left of the kernel, as arrays.
    n_iter_ : int
        Steps of the solver, the most where there are several classes.
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
    >>> from fkd import FairSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVC(gamma=0.1).fit(X, X[:, 1] > 0, sensitive_features=X[:, 0])
    >>> model.decision_function(X).shape
    (50,)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        C: float = 1.0,
        tol: float = LIBSVM_TOL,
        max_iter: int = LIBSVM_STEPS,
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
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their classes (n,).
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        self.classes_, codes = class_codes(y, len(X))
        numbers = codes.astype(np.float64)
        strength = self._decide(X, numbers, sensitive_features)
        removal, moments = self._fit_removal(X, numbers, sensitive_features, strength)
        del moments  # as large as the kernel matrix, which libsvm needs the room for
        self.fair_, self.svc_ = self._machine(removal, strength)
        rows = sample_rows(len(X))
        several = len(np.unique(self.svc_.predict(self.fair_.block(X[rows])))) > 1
        tell_collapse(float(several), "C, gamma, the balance of the classes")
        self.n_iter_ = int(self.svc_.n_iter_.max())
        return self

    def _machine(self, removal: Removal, strength: float) -> tuple[FairKernel, SVC]:
        """Return the fair kernel at a strength with the machine on it."""
        C = positive("C", self.C) / removal.share
        per_price = margin_mu(1.0, n=len(removal.y), C=C) if self._shrinks else 1
        removed = removal.removals.at(per_price * strength)
        fair = FairKernel.of(removal.feature_map, removal.X, removed)
        svc = SVC(
            kernel="precomputed",
            C=C,
            tol=positive("tol", self.tol),
            max_iter=steps("max_iter", self.max_iter),
        )
        return fair, svc.fit(fair.gram(), removal.y)

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Array
    ) -> Array:
        """Return the decisions at these strengths, (k, strengths, classes or 1)."""
        found = []
        for strength in strengths:
            fair, svc = self._machine(removal, strength)
            found.append(svc.decision_function(fair.block(X)).reshape(len(X), -1))
        return np.stack(found, axis=1)

    def _can_learn(self, y: Array) -> bool:
        """Return whether there are two classes to tell apart."""
        return len(np.unique(y)) > 1

    def _judge(
        self, removal: Removal, moments: Moments, X: Array, y: Array, S: Array, strength: float
    ) -> HeldOut:
        """Return what held-out rows say: of the decisions, by the share of wrong classes."""
        machines = [self._machine(removal, s) for s in (0, strength)]
        before, after = (
            svc.decision_function(fair.block(X)).reshape(len(X), -1) for fair, svc in machines
        )
        fair, svc = machines[-1]
        predicted = svc.predict(fair.block(X))
        values, counts = np.unique(removal.y, return_counts=True)
        wrong = predicted != y, values[counts.argmax(axis=0)] != y
        losses = wrong[0].astype(np.float64), wrong[1].astype(np.float64)
        return judge_scores(before, after, S, losses)

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance to the border, per row (and class where more than two)."""
        found = self._on_block(X, "decision_function")
        check_finite_result("decisions", found)
        return np.asarray(found)

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each row."""
        check_is_fitted(self, "svc_")
        return np.asarray(self.classes_[self._on_block(X, "predict").astype(np.intp)])

    def _on_block(self, X: Any, method: str) -> AnyArray:
        """Return what the machine says of the fair kernel of X against the training rows."""
        check_is_fitted(self, "svc_")
        block = self.fair_.block(self._inputs(X, reset=False))
        return np.asarray(getattr(self.svc_, method)(block))
