"""Ridge regressions: fair kernel learning, regression on a residual target, and FRRM.

Fair kernel learning is ridge regression with a penalty on dependence. Pérez-Suay et al. (2017) add
mu·HSIC(f(X), S) to the ridge objective, with a linear kernel on f and an RBF kernel K_s on S. The
published closed form (K + alpha·I + mu·H K_s H K)⁻¹ y is not symmetric. In the coordinates of a
feature map it is a shrinkage (`fkd.core.removal`) by functions of s whose inner products are K_s,
and is computed from sums over rows.

`ResidualTargetRidge` is the regression of y minus its linear fit on the sensitive columns.

The fair ridge regression model (FRRM) penalises the weights of the sensitive columns. Scutari,
Panero & Proissl (2022) fit y to the centred sensitive columns S and to U = G - S B, the residuals
of the centred features after least squares on S. They minimise

    |y - S a - U beta|² + n·penalty·|a|² + alpha·|beta|².

Over the training rows SᵀU = 0. Hence beta does not depend on the penalty, and one factorisation
serves every penalty.
"""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fkd.baselines.base import KernelBaseline, scale_to_range
from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import FeatureMap, KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.linalg import EPS, ShiftedInverse, rank_cut
from fkd.core.moments import Moments, basis_moments
from fkd.core.predictors import MapExpansion, SensitiveExpansion
from fkd.core.removal import RemovalPath, fkl_penalty, shrinkage
from fkd.core.ridge import RidgeSetting, fit_ridge, ridge_expansions
from fkd.core.sensitive_basis import greedy_factor
from fkd.core.training import KnownRemoval, Training
from fkd.core.validation import finite, not_negative, positive
from fkd.core.weights import times_weights, weighted_mean


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelLearning(KernelBaseline):
    """Kernel ridge regression with a penalty on dependence on the sensitive features.

    Minimises |y - f|² + alpha |f|² + penalty·n² HSIC(f, S). HSIC has a linear kernel on the
    prediction and an RBF kernel on the sensitive columns, scaled to their training range.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    penalty
        Weight of dependence, not negative. As published, it is not divided by the number of rows.
    alpha
        Ridge of the predictor, above 0.
    gamma_s
        Width of the kernel on the sensitive columns, scaled to their training range.
    fit_intercept
        Fit an intercept. The published form has none.
    {gamma}
    {degree, coef0}
    {approximation}
    {landmarks, landmark_method}
    {random_state}

    Attributes
    ----------
    expansion_ : predictor
        The fitted predictor as plain arrays.

    References
    ----------
    Pérez-Suay et al. (2017), "Fair Kernel Learning", ECML PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import FairKernelLearning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X[:, 0] + X[:, 1]
    >>> plain, fair = (
    ...     FairKernelLearning(penalty=penalty).fit(X, y, sensitive_features=X[:, 0])
    ...     for penalty in (0, 100)
    ... )
    >>> before, after = (np.corrcoef(f.predict(X), X[:, 0])[0, 1] for f in (plain, fair))
    >>> bool(abs(after) < 0.2 * abs(before))
    True
    """

    penalty: float = 1.0
    gamma_s: float = 0.05

    def _fit_rows(self, training: Training, setting: RidgeSetting) -> MapExpansion:
        penalty = fkl_penalty(not_negative("penalty", self.penalty), n=training.count)
        scaled = replace(training, S=scale_to_range(training.S))
        removal = fkl_removal(scaled, setting.kernel, positive("gamma_s", self.gamma_s))
        (model,) = fit_ridge(scaled, [replace(setting, removal=removal, strength=penalty)])
        return model.expansion


def fkl_removal(training: Training, kernel: KernelSettings, gamma_s: float) -> KnownRemoval:
    """Return the shrinkage by the RBF kernel K_s of the sensitive columns, computed once.

    As published, K_s compares all training rows with each other. Its strength is that of
    `fkd.core.removal.fkl_penalty`.
    """

    def compute() -> KnownRemoval:
        w = training.weights.fit
        F = _centred_factor(training.S, gamma_s, w)
        return KnownRemoval(
            shrinkage(basis_moments(training.feature_map(kernel), training.X, F, w=w))
        )

    return training.cached(("fkl", kernel, gamma_s), compute)


def _centred_factor(S: Array, gamma_s: float, w: Array | None) -> Array:
    """Return F (n, p) with F Fᵀ = H K_s H to rounding; H subtracts the weighted mean of rows."""
    cut = rank_cut(len(S), 1.0)
    _, F = greedy_factor(Kernel("rbf", gamma_s), S, size=len(S), cut=cut)
    return F.T - weighted_mean(F.T, w)


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class ResidualTargetRidge(KernelBaseline):
    """Kernel ridge regression of the target minus its linear fit on the sensitive features.

    A simple baseline that changes the target and not the kernel. Inputs may still depend on the
    sensitive features, but a linear dependence of the prediction no longer reduces the loss.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    share
        Share of the linear fit that is subtracted from the target, in [0, 1]; 0 is plain ridge.
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Fit an intercept.
    {gamma}
    {degree, coef0}
    {approximation}
    {landmarks, landmark_method}
    {random_state}

    Attributes
    ----------
    slopes_ : array (l,)
        Coefficients of the sensitive columns in the linear fit of the target.
    expansion_ : predictor
        The fitted predictor as plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import ResidualTargetRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> model = ResidualTargetRidge(gamma=0.1).fit(X, X[:, 0] + X[:, 1], sensitive_features=X[:, 0])
    >>> bool(abs(np.corrcoef(model.predict(X), X[:, 0])[0, 1]) < 0.5)
    True
    """

    share: float = 1.0

    def _fit_rows(self, training: Training, setting: RidgeSetting) -> MapExpansion:
        if not 0 <= finite("share", self.share) <= 1:
            raise ValueError(f"share must lie in [0, 1], got {self.share}")
        w = training.weights.fit
        # Before any sum, so that an offset of the columns costs no digits.
        centred = replace(training, S=training.S - weighted_mean(training.S, w))
        self.slopes_ = sensitive_slopes(training.S, training.y, w)
        return fit_residual_ridge(centred, setting, self.share * self.slopes_)


def sensitive_slopes(S: Array, y: Array, w: Array | None = None) -> Array:
    """Return the slopes of the least-squares fit of y on S and a constant, with weights w."""
    root = None if w is None else np.sqrt(w)
    S, y = (times_weights(A - weighted_mean(A, w), root) for A in (S, y))
    return np.asarray(np.linalg.lstsq(S, y, rcond=None)[0], dtype=np.float64)


def fit_residual_ridge(training: Training, setting: RidgeSetting, slopes: Array) -> MapExpansion:
    """Return the ridge regression of y - (S - mean)·slopes, from the moments with the target y."""
    feature_map, moments = training.feature_map(setting.kernel), training.moments(setting.kernel)
    # The sum of the residual target is that of y.
    residual = replace(moments, c=moments.c - moments.sensitive(center=True) @ slopes)
    nothing = RemovalPath.nothing(feature_map.rank)
    (found,) = ridge_expansions(
        feature_map, residual, nothing, [(0, setting.alpha)], fit_intercept=setting.fit_intercept
    )
    return found


# More steps than bisection alone needs to reach the smallest float64.
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SensitiveRidge:
    """f(x, s) = (s - mean)·a + u·beta + mean(y) with u = G(x) - mean - (s - mean) B.

    S = P diag(singular) Vᵀ is the centred matrix of sensitive columns without constant or
    linearly dependent ones. Only a depends on the penalty.
    """

    moments: Moments
    singular: Array  # (k,), k the rank of S
    V: Array  # (l, k)
    p: Array  # Pᵀy, (k,)
    beta: Array  # (r,)
    slopes: Array  # B beta, (l,)
    residual: float  # |U beta|²

    @classmethod
    def from_moments(
        cls, moments: Moments, S: Array, y: Array, w: Array | None = None, *, alpha: float
    ) -> "SensitiveRidge":
        """Return the model for all penalties.

        Parameters
        ----------
        moments
            Moments of features, sensitive columns and target of the training rows.
        S, y
            Sensitive columns (n, l), target (n,) of the same rows.
        w
            Weights of the rows in the moments, (n,); None is 1 for each.
        alpha
            Ridge of beta, above 0.
        """
        root = None if w is None else np.sqrt(w)
        centred, target = (times_weights(A - weighted_mean(A, w), root) for A in (S, y))
        P, singular, Vt = np.linalg.svd(centred, full_matrices=False)
        # The rounding error of centring is relative to S, not to its variation.
        keep = singular > rank_cut(len(S), float(np.linalg.norm(times_weights(S, root))))
        singular, V = singular[keep], Vt[keep].T
        p = P[:, keep].T @ target
        T = moments.sensitive(center=True) @ V / singular  # GᵀP, (r, k)
        C, c = moments.normal_equations(fit_intercept=True)
        C -= T @ T.T  # UᵀU
        beta = ShiftedInverse.from_matrix(C, positive("alpha", alpha), name="alpha") @ (c - T @ p)
        residual = max(float(beta @ (C @ beta)), 0.0)
        return cls(moments, singular, V, p, beta, V @ ((T.T @ beta) / singular), residual)

    def explained(self, penalty: float) -> float:
        """Return |S a|², which decreases with the penalty."""
        fitted = self.p / (1 + self.moments.n * penalty / self.singular**2)  # Pᵀ S a
        return float(fitted @ fitted)

    def share(self, penalty: float) -> float:
        """Return var(S a) / var(S a + U beta) over the training rows, 0 if S a is constant."""
        explained = self.explained(penalty)
        return explained / (explained + self.residual) if explained > 0 else 0.0

    def penalty_for(self, unfairness: Any) -> float:
        """Return the smallest penalty at which the share is at most `unfairness`.

        It is infinite if S may have no weight, or only one that float64 cannot represent.
        """
        number = isinstance(unfairness, Real) and not isinstance(unfairness, bool)
        if not number or not 0 <= float(unfairness) <= 1:
            raise ValueError(
                "unfairness must lie in [0, 1], the share of the prediction's variance that the "
                f"sensitive columns may explain, got {unfairness!r}. Set it to 1 for no bound"
            )
        if unfairness == 1:
            return 0.0
        allowed = float(unfairness) / (1 - float(unfairness)) * self.residual
        free = self.explained(0.0)
        if free <= allowed:
            return 0.0
        if allowed <= EPS**2 * free:  # |S a| would be a rounding error of the fit without bound
            return float(np.inf)
        # |S a| is at most |diag(singular²) p| / (n·penalty). Its inverse is nearly linear in the
        # penalty, which makes the search fast.
        most = float(np.linalg.norm(self.singular**2 * self.p))
        root = brentq(
            lambda penalty: self.explained(penalty) ** -0.5 - allowed**-0.5,
            0.0,
            2 * most / float(np.sqrt(allowed)) / self.moments.n,
            xtol=np.finfo(np.float64).tiny,
            rtol=4 * EPS,
            maxiter=_MOST_STEPS,
        )
        return float(root)

    def weights(self, penalty: float) -> Array:
        """Return a, the weights of the centred sensitive columns, (l,)."""
        return self.V @ (self.p * self.singular / (self.singular**2 + self.moments.n * penalty))

    def expansion(
        self, feature_map: FeatureMap, *, penalty: float, unfairness: float
    ) -> SensitiveExpansion:
        """Return the predictor of rows (x, s) at the larger of a penalty and that of a bound.

        Parameters
        ----------
        feature_map
            The feature map of the moments.
        penalty
            Penalty of |a|² relative to the mean squared error, so that it has the same effect for
            any number of rows. Its unit is that of s squared; 0 is none.
        unfairness
            Largest share of the prediction's variance that S may explain, in [0, 1].
        """
        largest = max(not_negative("penalty", penalty), self.penalty_for(unfairness))
        # u·beta + (s - mean)·a equals G(x)·beta + s·(a - B beta) plus a constant.
        slopes = self.weights(largest) - self.slopes
        at_mean = float(self.moments.s @ slopes) / self.moments.n
        intercept = self.moments.intercept(self.beta) - at_mean
        return SensitiveExpansion(feature_map.expansion(self.beta, intercept), slopes)
