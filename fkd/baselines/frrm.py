"""Ridge regression with a price on the weights of the sensitive columns.

The fair ridge regression model (FRRM) of Scutari, Panero & Proissl (2022) fits y on the centred
sensitive columns S beside U = G - S B, what least squares on S leaves of the centred features:
minimise |y - S a - U beta|² + n·penalty·|a|² + alpha·|beta|². Over the training rows SᵀU = 0, so
beta does not depend on the price, and one factorisation serves every price.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import EPS, ShiftedInverse, rank_cut
from fkd.core.moments import Moments
from fkd.core.predictors import SensitiveExpansion
from fkd.core.validation import not_negative, positive
from fkd.core.weights import times_weights, weighted_mean

# Bisection alone would reach the smallest float64 in so many steps.
_MOST_STEPS = 2000


@dataclass(frozen=True)
class SensitiveRidge:
    """f(x, s) = (s - mean)·a + u·beta + mean(y) with u = G(x) - mean - (s - mean) B, for any price.

    S = P diag(singular) Vᵀ is the centred matrix of sensitive columns; those that are constant or
    that others repeat add nothing to it.
    """

    moments: Moments
    singular: Array  # (k,), k the rank of S
    V: Array  # (l, k)
    p: Array  # Pᵀy, (k,)
    beta: Array  # (r,)
    slopes: Array  # B beta, (l,)
    left: float  # |U beta|²

    @classmethod
    def of(
        cls, moments: Moments, S: Array, y: Array, w: Array | None = None, *, alpha: float
    ) -> "SensitiveRidge":
        """Return what every price shares.

        Parameters
        ----------
        moments
            Of features, sensitive columns and target over the training rows.
        S, y
            Sensitive columns (n, l), target (n,) of the same rows.
        w
            How many rows each counts for in the moments, (n,); None is one.
        alpha
            Ridge of beta, above 0.
        """
        root = None if w is None else np.sqrt(w)
        centred, target = (times_weights(A - weighted_mean(A, w), root) for A in (S, y))
        P, singular, Vt = np.linalg.svd(centred, full_matrices=False)
        # Centring rounds by the size of S itself, however little of it varies.
        keep = singular > rank_cut(len(S), float(np.linalg.norm(times_weights(S, root))))
        singular, V = singular[keep], Vt[keep].T
        p = P[:, keep].T @ target
        T = moments.sensitive(center=True) @ V / singular  # GᵀP, (r, k)
        C, c = moments.normal_equations(fit_intercept=True)
        C -= T @ T.T  # UᵀU
        beta = ShiftedInverse.from_matrix(C, positive("alpha", alpha), name="alpha") @ (c - T @ p)
        left = max(float(beta @ (C @ beta)), 0.0)
        return cls(moments, singular, V, p, beta, V @ ((T.T @ beta) / singular), left)

    def explained(self, penalty: float) -> float:
        """Return |S a|², which falls as the price rises."""
        fitted = self.p / (1 + self.moments.n * penalty / self.singular**2)  # Pᵀ S a
        return float(fitted @ fitted)

    def share(self, penalty: float) -> float:
        """Return var(S a) / var(S a + U beta) over the training rows, 0 where nothing varies."""
        explained = self.explained(penalty)
        return explained / (explained + self.left) if explained > 0 else 0.0

    def penalty_for(self, unfairness: Any) -> float:
        """Return the least price at which the share is at most `unfairness`.

        Infinite where S must have no weight, or none that float64 could tell from it.
        """
        r = _checked(unfairness)
        if r == 1:
            return 0.0
        allowed = r / (1 - r) * self.left
        free = self.explained(0.0)
        if free <= allowed:
            return 0.0
        if allowed <= EPS**2 * free:  # |S a| would be the rounding error of the unbound fit
            return float(np.inf)
        # |S a| is at most |diag(singular²) p| / (n·penalty); its inverse is nearly linear in it.
        most = float(np.linalg.norm(self.singular**2 * self.p))
        highest = 2 * most / float(np.sqrt(allowed)) / self.moments.n
        root = brentq(
            lambda penalty: self.explained(penalty) ** -0.5 - allowed**-0.5,
            0.0,
            highest,
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
        """Return the predictor of rows (x, s) at a price that a bound may raise.

        Parameters
        ----------
        feature_map
            The map of the moments.
        penalty
            Price of |a|² per training row, where the loss is the mean squared error: it means the
            same for any number of rows. It has the unit of s squared; 0 is no price.
        unfairness
            Largest share of the prediction's variance that S may explain, in [0, 1].
        """
        price = max(not_negative("penalty", penalty), self.penalty_for(unfairness))
        # u·beta + (s - mean)·a is G(x)·beta + s·(a - B beta) but for a constant.
        slopes = self.weights(price) - self.slopes
        at_mean = float(self.moments.s @ slopes) / self.moments.n
        intercept = self.moments.intercept(self.beta) - at_mean
        return SensitiveExpansion(feature_map.expansion(self.beta, intercept), slopes)


def _checked(unfairness: Any) -> float:
    """Return a share."""
    number = isinstance(unfairness, Real) and not isinstance(unfairness, bool)
    if not number or not 0 <= float(unfairness) <= 1:
        raise ValueError(
            "unfairness must lie in [0, 1], the share of the prediction's variance that the "
            f"sensitive columns may explain, got {unfairness!r}; 1 sets no bound"
        )
    return float(unfairness)
