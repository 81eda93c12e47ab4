"""Support vector classification on the fair kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import AnyArray, Array, Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.removal import FairFeatures, FairKernel, margin_mu
from fkd.core.validation import check_finite_result, class_codes, positive, step_limit
from fkd.estimators.bounded_estimator import BoundedEstimator
from fkd.estimators.class_borders import ClassBorders, FeatureBorders, KernelBorders
from fkd.estimators.held_out import (
    HeldOut,
    judge_scores,
    sample_rows,
    tell_collapse,
    weighed_losses,
)
from fkd.estimators.many_rows import is_batched
from fkd.estimators.removal_estimator import Removal
from fkd.estimators.support_vector_regression import LIBSVM_STEPS, LIBSVM_TOL


@fill_docstring
class FairSVC(ClassifierMixin, BoundedEstimator):
    """Support vector classifier that does not lean on (continuous) sensitive features.

    It works on the fair kernel: of a removal path directions are cut out of it, of a shrinkage they
    are made small. Predicting needs no sensitive features.

    Parameters
    ----------
    C
        Penalty of errors, above 0.
    {solver}
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
    classes_ : array
        The classes, sorted.
    borders_ : ClassBorders
        What tells them apart.
    fair_ : FairFeatures
        What is left of the kernel, as arrays.
    n_iter_ : int
        Steps of libsvm or passes over the rows, the most where there are several classes.
    dual_gap_ : float or None
        Certified relative duality gap of ``"batched"``, the greatest; None where libsvm solved.
    {fitted}

    Notes
    -----
    On a reduced map features are multiplied: nothing of the size of the kernel matrix is
    formed, no training row is kept. `at` then needs rows that are gone: `fit_path` is the way to
    several strengths.

    References
    ----------
    {method}

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
        solver: str = "auto",
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
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def _target(self, y: Any, n: int, w: Array | None) -> Array:
        """Return the number of each row's class; learn the classes."""
        self.classes_, codes = class_codes(y, n)
        return codes.astype(np.float64)

    def _settle(
        self, removal: Removal, moments: Moments | None, strength: float, *, tell: bool
    ) -> None:
        """Find the borders."""
        self.borders_ = self._borders(removal, strength)
        self.n_iter_, self.dual_gap_ = self.borders_.n_iter, self.borders_.gap
        self._kept = replace(removal, S=removal.S[:0].copy()) if removal.exact else None
        if tell:
            rows = sample_rows(removal.X.shape[0])
            several = len(np.unique(self.borders_.classes(removal.X[rows]))) > 1
            tell_collapse(float(several), "C, gamma, the balance of the classes")

    @property
    def fair_(self) -> FairFeatures:
        """What is left of the kernel, as arrays."""
        check_is_fitted(self, "borders_")
        return self.borders_.fair

    def _borders(self, removal: Removal, strength: float) -> ClassBorders:
        """Return the borders at a strength."""
        C = positive("C", self.C) / removal.share
        per_price = margin_mu(1.0, n=removal.count, C=C) if self._shrinks else 1
        removed = removal.removals.at(per_price * strength)
        if is_batched(self.solver, exact=removal.exact, n=len(removal.y)):
            features, rows = FairFeatures(removal.feature_map, removed), (removal.X, removal.y)
            rule: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
            rule["weights"] = removal.weights.fit
            return FeatureBorders.batched(features, *rows, C, **rule)
        svc = SVC(
            C=C, tol=positive("tol", self.tol), max_iter=step_limit("max_iter", self.max_iter)
        )
        if removal.exact:
            fair = FairKernel.from_rows(removal.feature_map, removal.X, removed)
            return KernelBorders.of(fair, removal.y, svc, removal.weights.fit)
        features = FairFeatures(removal.feature_map, removed)
        return FeatureBorders.of(features, removal.X, removal.y, svc, removal.weights.fit)

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Rows
    ) -> Array:
        """Return the decisions at these strengths, (k, strengths, classes or 1)."""
        found = [self._borders(removal, s).decisions(X).reshape(X.shape[0], -1) for s in strengths]
        return np.stack(found, axis=1)

    def _can_learn(self, y: Array) -> bool:
        """Return whether there are two classes to tell apart."""
        return len(np.unique(y)) > 1

    def _judge(
        self,
        removal: Removal,
        moments: Moments,
        X: Rows,
        y: Array,
        S: Array,
        strength: float,
        w: Array | None,
    ) -> HeldOut:
        """Return what held-out rows say: of the decisions, by the share of wrong classes."""
        # The classes of a trial's rows may be fewer than all: they are counted anew.
        known, codes = np.unique(removal.y, return_inverse=True)
        removal = replace(removal, y=codes.astype(np.float64))
        machines = [self._borders(removal, s) for s in (0, strength)]
        before, after = (machine.decisions(X).reshape(X.shape[0], -1) for machine in machines)
        predicted = known[machines[-1].classes(X)]
        most = known[np.bincount(codes, weights=removal.weights.fit).argmax(axis=0)]
        model, dummy = ((said != y).astype(np.float64) for said in (predicted, most))
        return judge_scores(before, after, S, weighed_losses(model, dummy, w))

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance to the border, per row (and class where more than two).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows where it is precomputed.
        """
        check_is_fitted(self, "borders_")
        found = self.borders_.decisions(self._inputs(X, reset=False))
        check_finite_result("decisions", found)
        return np.asarray(found)

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each row.

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows where it is precomputed.
        """
        check_is_fitted(self, "borders_")
        return np.asarray(self.classes_[self.borders_.classes(self._inputs(X, reset=False))])
