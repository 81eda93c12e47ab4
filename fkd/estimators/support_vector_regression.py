"""Support vector regression on fair kernels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.svm import SVR

from fkd.core.arrays import Array, Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import ExactMap, FeatureMap
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Removals, fair_features, fair_gram, margin_mu
from fkd.core.validation import not_negative, positive, step_limit
from fkd.core.weights import weighted_std
from fkd.estimators.many_rows import batched_regressions, is_batched
from fkd.estimators.regressor import FairRegressor, rescaled
from fkd.estimators.removal_estimator import Removal

# Beyond this many rows of a reduced map libsvm multiplies features itself: slower per row than
# reading a kernel matrix, but without its memory.
PRECOMPUTED_ROWS = 10_000
LIBSVM_TOL = 1e-3  # libsvm's own default, named because published numbers depend on it
# Well-scaled rows need some ten thousand; a million steps take a second on a hundred rows, a minute
# on four thousand. Without a limit a target far beyond C runs for ever.
LIBSVM_STEPS = 1_000_000


def svr_expansions(
    feature_map: FeatureMap,
    X: Rows,
    y: Array,
    removals: Removals,
    settings: Sequence[tuple[float, float, float]],
    *,
    weights: Array | None = None,
) -> Iterator[MapExpansion]:
    """Yield one predictor per (strength, C, epsilon), in order, as `svr_machines` does."""
    machines = svr_machines(feature_map, X, y, removals, settings, weights=weights)
    return (found for found, _ in machines)


def svr_machines(
    feature_map: FeatureMap,
    X: Rows,
    y: Array,
    removals: Removals,
    settings: Sequence[tuple[float, float, float]],
    *,
    tol: float = LIBSVM_TOL,
    max_iter: int = LIBSVM_STEPS,
    precomputed_rows: int = PRECOMPUTED_ROWS,
    weights: Array | None = None,
) -> Iterator[tuple[MapExpansion, int]]:
    """Yield one predictor with its solver's steps per (strength, C, epsilon), in order.

    Parameters
    ----------
    feature_map, removals
        Of the training rows; a path must be at least as long as the largest strength.
    X, y
        Training rows (n, d) with their target (n,).
    settings
        Strength, penalty C > 0, insensitive width epsilon >= 0. Neighbours of equal strength
        share one fair kernel matrix; no result depends on the other settings.
    tol, max_iter
        When libsvm stops: at this violation of its conditions, or after so many steps, with a
        ConvergenceWarning; -1 is no limit.
    precomputed_rows
        Up to so many rows the kernel matrix of a reduced map is formed.
    weights
        How many rows each counts for, (n,); None is one.
    """
    precomputed = isinstance(feature_map, ExactMap) or X.shape[0] <= precomputed_rows
    K = feature_map.training_gram(X) if precomputed else None
    fitted, fair = -1.0, np.empty(0)
    for strength, C, epsilon in settings:
        removed = removals.at(strength)
        if strength != fitted:
            fair = (
                fair_features(feature_map, X, removed)
                if K is None
                # A symmetric matrix's transpose has the row order that libsvm reads without a copy.
                else fair_gram(feature_map, X, removed, K).T
            )
            fitted = strength
        svr = SVR(
            kernel="precomputed" if precomputed else "linear",
            C=positive("C", C),
            epsilon=not_negative("epsilon", epsilon),
            cache_size=1000,
            tol=positive("tol", tol),
            max_iter=step_limit("max_iter", max_iter),
        ).fit(fair, y, sample_weight=weights)
        a = np.zeros(X.shape[0])
        a[svr.support_] = svr.dual_coef_[0]
        beta = removed.weights(feature_map.training_adjoint(X, a))
        found = feature_map.expansion(beta, float(svr.intercept_[0]))
        yield found, int(svr.n_iter_)


@fill_docstring
class FairSVR(FairRegressor):
    """Support vector regression that does not lean on the sensitive features.

    It works on the fair kernel: of a removal path directions are cut out of it, of a shrinkage they
    are made small. Predicting needs no sensitive features.

    Parameters
    ----------
    C
        Penalty of errors beyond `epsilon`, above 0.
    epsilon
        Half width of the insensitive tube, in units of the target.
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
    expansion_ : predictor
        The fitted predictor as plain arrays.
    n_iter_ : int
        Steps of libsvm, or passes over the rows.
    dual_gap_ : float or None
        Certified relative duality gap of ``"batched"``; None where libsvm solved.
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
    >>> from fkd import FairSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVR(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> model.predict(X).shape
    (50,)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
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
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    _absolute = True
    _causes = "C and epsilon, which have the unit of the target, gamma"

    def _settle(
        self, removal: Removal, moments: Moments | None, strength: float, *, tell: bool
    ) -> None:
        """Solve at one strength."""
        (solved,) = self._machines(removal, [strength])
        self._adopt(solved, removal)
        if tell:
            self._tell_collapse(solved[0], removal)

    def _settled(
        self, removal: Removal, moments: Moments | None, strengths: Sequence[float]
    ) -> Iterator[Self]:
        """Yield the machines at these strengths, solved together where a batch is."""
        for strength, solved in zip(strengths, self._machines(removal, strengths), strict=True):
            machine = self._copy_at(strength, removal.removals)
            machine._adopt(solved, removal)
            yield machine

    def _adopt(self, solved: tuple[MapExpansion, int, float | None], removal: Removal) -> None:
        """Become the machine that was found."""
        found, self.n_iter_, self.dual_gap_ = solved
        self.expansion_ = rescaled(found, self._unit, self._level)
        exact = removal.feature_map
        # An exact machine has the rows as its centres anyway.
        self._kept = (
            (exact.kernel, removal.X, removal.y, removal.removals, removal.weights)
            if isinstance(exact, ExactMap)
            else None
        )

    def _from_kept(self, strength: float) -> Self:
        """Return a fitted copy at another strength; the kernel is factored again."""
        kernel, X, y, removals, weights = self._kept
        S, exact = np.empty((X.shape[0], 0)), ExactMap.from_rows(kernel, X)
        removal = Removal(X, y, S, exact, removals, weights=weights)
        (machine,) = self._settled(removal, None, [strength])
        return machine

    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> list[MapExpansion]:
        """Return the machines at these strengths."""
        return [found for found, _, _ in self._machines(removal, strengths)]

    def _machines(
        self, removal: Removal, strengths: Sequence[float]
    ) -> Iterator[tuple[MapExpansion, int, float | None]]:
        """Yield the machines at these strengths, with their solver's steps, certified gap."""
        C = positive("C", self.C) / removal.share
        w = removal.weights.fit
        unit = float(weighted_std(removal.y, w)) or 1.0
        per_price = margin_mu(1.0, n=removal.count, C=C, unit=unit) if self._shrinks else 1
        settings = [(per_price * strength, C, self.epsilon) for strength in strengths]
        data = removal.feature_map, removal.X, removal.y, removal.removals, settings
        rule: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "weights": w}
        if is_batched(self.solver, exact=removal.exact, n=len(removal.y)):
            for found, solution in batched_regressions(*data, **rule):
                yield found, solution.iterations, solution.gap
            return
        # Nothing of n x n on a reduced map.
        for found, taken in svr_machines(*data, **rule, precomputed_rows=0):
            yield found, taken, None
