"""The fair ridge regression model (FRRM): a penalty on the weights of the sensitive columns.

Scutari, Panero & Proissl (2022) fit y to the centred sensitive columns S and to U = G - S B, the
residuals of the centred features after least squares on S. They minimise

    |y - S a - U beta|² + n·penalty·|a|² + alpha·|beta|².

Over the training rows SᵀU = 0. Hence beta does not depend on the penalty, and one factorisation
serves every penalty.
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
