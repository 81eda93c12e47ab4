"""What is taken out of a kernel: directions of its features, each with a share."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fkd.core.arrays import Array
from fkd.core.linalg import project


@dataclass(frozen=True)
class Directions:
    """The kernel K - F diag(d) Fᵀ with F = G V, which is all that a machine needs to know.

    A removal path takes whole directions out (d = 1); a shrinkage takes a part of each.
    """

    V: Array  # (r, w), orthonormal columns
    shares: Array  # d, (w,), in [0, 1]
    kept: Array  # 1 - d, (w,): given apart, since near d = 1 a difference would hold no digits

    @classmethod
    def whole(cls, V: Array) -> "Directions":
        """Return the directions of V, all of each."""
        return cls(V, np.ones(V.shape[1]), np.zeros(V.shape[1]))

    @property
    def width(self) -> int:
        """The number of directions."""
        return int(self.V.shape[1])

    @property
    def gone(self) -> Array:
        """The directions of which nothing is left, (r, v)."""
        return np.asarray(self.V[:, self.kept == 0])

    def features(self, G: Array) -> Array:
        """Return G P^½ with P = I - V diag(d) Vᵀ: rows whose inner products are the fair kernel."""
        return project(G, self.V, 1.0 - np.sqrt(self.kept))

    def weights(self, beta: Array) -> Array:
        """Return P beta, with which G(x)·P beta is a function of the fair kernel's space."""
        return np.asarray(project(beta[None, :], self.V, self.shares)[0])

    def subtracted(self, F: Array) -> Array:
        """Return F diag(d)^½ of F = G V, the factor of what the fair kernel lacks."""
        return np.asarray(F * np.sqrt(self.shares))


class Removals(Protocol):
    """The directions of every strength, from the plain kernel at strength 0."""

    nested: ClassVar[bool]
    """Whether the directions of a strength are the first of those of a greater one, whole."""

    @property
    def V(self) -> Array:
        """The directions of all strengths, (r, w)."""

    def at(self, strength: float) -> Directions:
        """Return what one strength takes out."""
