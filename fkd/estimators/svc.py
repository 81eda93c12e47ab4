"""Support vector classification on the fair kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, IntArray, Rows, row_blocks
from fkd.core.docstrings import fill_docstring
from fkd.core.moments import training_moments
from fkd.core.removal import FairFeatures, FairKernel, Removals, margin_mu
from fkd.core.svm import Machine, Solution
from fkd.core.svr import (
    LIBSVM_STEPS,
    LIBSVM_TOL,
    batched_precision,
    report_gaps,
    solve_batch,
    use_batched,
)
from fkd.core.training import Training, feature_blocks
from fkd.core.validation import (
    check_finite_result,
    class_codes,
    positive,
    step_limit,
    validate_rows,
)
from fkd.estimators.base import FairPredictor, Inputs
from fkd.estimators.held_out import (
    HeldOut,
    judge_scores,
    sample_rows,
    warn_collapse,
    weighted_losses,
)


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairSVC(ClassifierMixin, FairPredictor):
    """Support vector classifier whose decision does not depend on the sensitive features.

    It uses the fair kernel, from which directions that predict the (continuous) sensitive features
    are removed, or in which they are shrunk. Prediction needs no sensitive features.

    Parameters
    ----------
    {kernel}
    {gamma}
    {degree, coef0}
    C
        Penalty of errors, above 0.
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
    classes_ : array
        The classes, sorted.
    borders_ : KernelBorders or FeatureBorders
        The decision functions of all pairs of classes.
    fair_ : FairFeatures
        The fair kernel as arrays.
    n_iter_ : int
        Steps of libsvm or passes over the rows, the largest number of any pair of classes.
    dual_gap_ : float or None
        Certified relative duality gap of ``"batched"``, the largest one; None for libsvm.
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
    >>> from fkd import FairSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVC(gamma=0.1).fit(X, X[:, 1] > 0, sensitive_features=X[:, 0])
    >>> model.decision_function(X).shape
    (50,)
    """

    C: float = 1.0
    solver: str = "auto"
    tol: float = LIBSVM_TOL
    max_iter: int = LIBSVM_STEPS

    def _prepare_target(self, y: Any, n: int, w: Array | None) -> Array:
        self.classes_, codes = class_codes(y, n)
        return codes.astype(np.float64)

    def _fit_strengths(self, inputs: Inputs, strengths: Sequence[float]) -> list["Borders"]:
        training, kernel = inputs.training, inputs.kernel
        C = positive("C", self.C) / inputs.share
        removals = training.removals(kernel, inputs.removal, max(strengths))
        feature_map = training.feature_map(kernel)
        training.discard_moments(kernel)
        batched = use_batched(self.solver, exact=inputs.exact, n=len(training.y))
        found: list[Borders] = []
        for strength in strengths:
            mu = margin_mu(strength, n=training.count, C=C)
            removed = removals.at(strength if removals.nested else mu)
            X, y, w = training.X, training.y, training.weights.fit
            fair = FairFeatures(feature_map, removed)
            if batched:
                rule: dict[str, Any] = {"C": C, "tol": self.tol, "max_iter": self.max_iter}
                found.append(FeatureBorders.from_passes(fair, removals, X, y, w, **rule))
                continue
            svc = SVC(
                kernel="precomputed" if inputs.exact else "linear",
                C=C,
                tol=positive("tol", self.tol),
                max_iter=step_limit("max_iter", self.max_iter),
            )
            if inputs.exact:
                kernel_of_rows = FairKernel.from_rows(feature_map, X, removed)
                svc.fit(kernel_of_rows.gram(), y, sample_weight=w)
                found.append(KernelBorders(kernel_of_rows, removals, svc))
            else:
                svc.fit(fair.training_features(X), y, sample_weight=w)
                found.append(FeatureBorders.from_libsvm(fair, removals, svc))
        return found

    def _adopt(self, model: "Borders", inputs: Inputs | None) -> None:
        self.borders_ = model
        self.n_iter_, self.dual_gap_ = model.n_iter, model.gap
        if inputs is not None:
            self._kept = inputs.with_known(model.removals) if inputs.exact else None

    def _warn_constant(self, model: "Borders", training: Training) -> None:
        rows = sample_rows(training.X.shape[0])
        several = len(np.unique(model.classes(training.X[rows]))) > 1
        warn_collapse(float(several), "C, gamma, the balance of the classes")

    @property
    def fair_(self) -> FairFeatures:
        """The fair kernel as arrays."""
        check_is_fitted(self, "borders_")
        return self.borders_.fair

    def _can_learn(self, y: Array) -> bool:
        return len(np.unique(y)) > 1

    def _judge(
        self, part: Inputs, strength: float, X: Rows, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        # The rows of a trial may lack a class.
        known, codes = np.unique(part.training.y, return_inverse=True)
        training = replace(part.training, y=codes.astype(np.float64), _cache={})
        plain, fair = self._fit_strengths(replace(part, training=training), [0, strength])
        most = known[np.bincount(codes, weights=training.weights.fit).argmax(axis=0)]
        predicted = known[fair.classes(X)]
        model, dummy = ((classes != y).astype(np.float64) for classes in (predicted, most))
        losses = weighted_losses(model, dummy, w)
        return judge_scores(plain.scores(X), fair.scores(X), S, losses)

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance to the border per row, and per class if more than two.

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows if it is precomputed.
        """
        check_is_fitted(self, "borders_")
        found = self.borders_.decisions(validate_rows(self, X, reset=False))
        check_finite_result("decisions", found)
        return np.asarray(found)

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each row.

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows if it is precomputed.
        """
        check_is_fitted(self, "borders_")
        return np.asarray(self.classes_[self.borders_.classes(validate_rows(self, X, reset=False))])


@dataclass(frozen=True)
class KernelBorders:
    """Borders between classes 0, 1, ... as combinations of training rows, from libsvm."""

    fair: FairKernel
    removals: Removals
    svc: SVC
    gap: None = None  # libsvm certifies none

    @property
    def n_iter(self) -> int:
        """Steps of the solver, the largest number of any pair of classes."""
        return int(self.svc.n_iter_.max())

    def decisions(self, X: Rows) -> Array:
        """Return the signed distance to the border (k,), or one score per class (k, c)."""
        return np.asarray(self.svc.decision_function(self.fair.block(X)))

    def scores(self, X: Rows) -> Array:
        """Return the decisions, (k, 1) or (k, c)."""
        return self.decisions(X).reshape(X.shape[0], -1)

    def classes(self, X: Rows) -> IntArray:
        """Return the class of each row."""
        return np.asarray(self.svc.predict(self.fair.block(X))).astype(np.intp)


@dataclass(frozen=True)
class FeatureBorders:
    """Borders as weights of fair features: no kernel matrix is formed, no training row is kept."""

    fair: FairFeatures
    removals: Removals
    W: Array  # one row per pair of classes, (p, r)
    intercepts: Array  # (p,)
    n_iter: int
    gap: float | None = None

    @classmethod
    def from_libsvm(cls, fair: FairFeatures, removals: Removals, svc: SVC) -> "FeatureBorders":
        """Return the borders of a machine that libsvm fitted to the fair features."""
        return cls(fair, removals, svc.coef_, svc.intercept_, int(svc.n_iter_.max()))

    @classmethod
    def from_passes(
        cls,
        fair: FairFeatures,
        removals: Removals,
        X: Rows,
        y: Array,
        w: Array | None,
        *,
        C: float,
        tol: float,
        max_iter: int,
    ) -> "FeatureBorders":
        """Return borders between the classes y from passes over the rows of each pair of them."""
        found: dict[str, Solution] = {}
        pairs = _class_pairs(int(y.max()) + 1)
        for i, j in pairs:
            rows = (y == i) | (y == j)
            # The positive class is the second of two classes, but the first of each of many pairs.
            signs = np.where(y[rows] == (j if len(pairs) == 1 else i), 1.0, -1.0)
            weights = None if w is None else w[rows]
            source = feature_blocks(
                fair.feature_map, X[rows], signs, weights, dtype=batched_precision(tol)
            )
            moments = training_moments(fair.feature_map, X[rows], np.empty((len(signs), 0)), signs)
            machines = [Machine(C, fair.removed)]
            (found[f"the border of classes {i} and {j}"],) = solve_batch(
                source, moments, machines, loss="hinge", tol=tol, max_iter=max_iter
            )
        report_gaps(found.items(), tol, warn=True)
        W, intercepts = (
            np.stack([getattr(solution, name) for solution in found.values()])
            for name in ("w", "intercept")
        )
        passes = max(solution.iterations for solution in found.values())
        worst = max(solution.gap for solution in found.values())
        return cls(fair, removals, W, intercepts, passes, worst)

    def decisions(self, X: Rows) -> Array:
        """Return the signed distance to the border (k,), or one score per class (k, c)."""
        pairs = self._pairs(X)
        if pairs.shape[1] == 1:
            return np.asarray(pairs[:, 0])
        votes, clear = self._votes(pairs)
        return votes + clear

    def scores(self, X: Rows) -> Array:
        """Return the decisions, (k, 1) or (k, c)."""
        return self.decisions(X).reshape(X.shape[0], -1)

    def classes(self, X: Rows) -> IntArray:
        """Return the class of each row."""
        pairs = self._pairs(X)
        if pairs.shape[1] == 1:
            return (pairs[:, 0] > 0).astype(np.intp)
        return np.asarray(self._votes(pairs)[0].argmax(axis=1))

    def _pairs(self, X: Rows) -> Array:
        """Return the decision of each pair, (k, p)."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate([self.fair.features(X[b]) @ self.W.T for b in blocks]) + (
            self.intercepts
        )

    def _votes(self, pairs: Array) -> tuple[Array, Array]:
        """Return the number of pairs that each class wins, (k, c), and a fraction for ties.

        The fraction has the form of scikit-learn and is below a third. It only decides between
        classes with the same number of votes.
        """
        c = int(np.sqrt(2 * pairs.shape[1])) + 1
        votes, sums = np.zeros((len(pairs), c)), np.zeros((len(pairs), c))
        for decided, (i, j) in zip(pairs.T, _class_pairs(c), strict=True):
            votes[:, i] += decided >= 0
            votes[:, j] += decided < 0
            sums[:, i] += decided
            sums[:, j] -= decided
        return votes, sums / (3 * (np.abs(sums) + 1))


Borders = KernelBorders | FeatureBorders


def _class_pairs(c: int) -> list[tuple[int, int]]:
    """Return the pairs of c classes in the order of libsvm."""
    return [(i, j) for i in range(c) for j in range(i + 1, c)]
