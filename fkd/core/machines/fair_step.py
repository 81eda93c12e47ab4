"""The quadratic half of an iteration: weights that best follow given values under |w|²."""

from dataclasses import dataclass, field

import numpy as np

from fkd.core.arrays import Array
from fkd.core.directions import Directions
from fkd.core.fair_ridge import fair_factor
from fkd.core.linalg import EPS, project
from fkd.core.moments import Moments


@dataclass(frozen=True)
class FoldBasis:
    """Centred moments of a fold's rows in their eigenbasis, in which every penalty is a number."""

    n: int
    mean: Array  # of the features, (r,)
    values: Array  # eigenvalues of the centred GᵀG, (r,)
    vectors: Array  # (r, r)
    start: Array  # Qᵀ Gᵀ(y - mean y), (r,)
    level: float  # mean y
    deviation: float  # of y, 1 where it is constant

    @classmethod
    def of(cls, moments: Moments) -> "FoldBasis":
        """Return the basis of moments; one eigendecomposition."""
        C, c = moments.normal_equations(fit_intercept=True)
        values, Q = np.linalg.eigh(C)
        n, level = round(moments.n), moments.y / moments.n  # each row counts once here
        deviation = float(np.sqrt(max(moments.yy / n - level**2, 0.0)))
        # Of a constant rounding may leave some.
        varies = deviation > np.sqrt(EPS) * abs(level)
        values = np.maximum(values, 0.0)
        found = deviation if varies else 1.0
        return cls(n, moments.g / n, values, Q, Q.T @ c, level, found)


@dataclass
class FairStep:
    """beta = (C + a·P⁻¹)⁻¹ t of one machine in the eigenbasis of C, a changing as it goes.

    With a = 1/rho that is the minimum of ½|w|² + rho/2 |G beta - v|² for t = Gᵀv, all centred.
    """

    basis: FoldBasis
    removed: Directions  # in the eigenbasis
    a: float = 0.0
    W: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def of(cls, basis: FoldBasis, removed: Directions) -> "FairStep":
        """Return the step of a machine on the features that `removed` leaves."""
        V = np.asfortranarray(basis.vectors.T @ removed.V)
        return cls(basis, Directions(V, removed.shares, removed.kept))

    def shift(self, a: float) -> None:
        """Take another a: division by the eigenvalues, a thin factor for what is removed."""
        DV = self.removed.V / (self.basis.values + a)[:, None]
        self.a, (self.W, _) = a, fair_factor(DV, a, self.removed, name="1 / C")

    def weights(self, t: Array) -> Array:
        """Return beta of t."""
        return np.asarray(t / (self.basis.values + self.a) - self.W @ (self.W.T @ t))

    def point(self, t: Array) -> tuple[Array, Array]:
        """Return w with beta = P^½ w of t, in the basis of the features.

        What is left of w along a direction is taken from the gradient: beta hardly has any of it
        where hardly anything is left, and dividing by that would divide rounding by it.
        """
        beta, V = self.weights(t), self.removed.V
        across = project(beta[None, :], V)[0]
        gradient = V.T @ (t - self.basis.values * beta) / self.a
        along = np.sqrt(self.removed.kept) * gradient
        beta = across + V @ (np.sqrt(self.removed.kept) * along)
        Q = self.basis.vectors
        return Q @ (across + V @ along), Q @ beta
