"""Shrinkage: directions are made small, the more the further they covary with functions of s.

The regulariser |w|² of a kernel machine becomes wᵀ(I + mu T Tᵀ)w, with T the covariance of the
features with a basis of functions of s: a price on the squared covariance of the prediction with
every one of them. That is the machine on the kernel G (I + mu T Tᵀ)⁻¹ Gᵀ (docs/shrinkage.md).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fkd.core.arrays import Array
from fkd.core.basis_moments import BasisMoments
from fkd.core.directions import Directions
from fkd.core.linalg import rank_cut

# A price beyond float64 is one: infinity times nothing would be no number.
_MOST = 1e300


@dataclass(frozen=True)
class Shrinkage:
    """The left singular vectors of the covariance T with the squares of its singular values."""

    V: Array  # (r, w), orthonormal
    t: Array  # (w,), above 0, falling

    nested: ClassVar[bool] = False

    def at(self, strength: float) -> Directions:
        """Return what a mu takes out: d = mu t / (1 + mu t); mu = inf takes all of each."""
        mu = float(strength)
        if not mu >= 0:
            raise ValueError(f"mu must not be negative, got {strength!r}; 0 is the plain kernel")
        if np.isinf(mu):
            return Directions.whole(self.V)
        with np.errstate(over="ignore"):
            x = np.minimum(mu * self.t, _MOST)
        kept = 1.0 / (1.0 + x)
        return Directions(self.V, x * kept, kept)


def shrinkage(sums: BasisMoments) -> Shrinkage:
    """Return the directions along which a prediction would covary with the basis.

    All mu share one thin singular value decomposition of T; T Tᵀ would square its conditioning.
    Singular values that rounding alone could have made are no directions: mu = inf would remove
    noise.
    """
    T = sums.covariance()
    V, sigma, _ = np.linalg.svd(T, full_matrices=False)
    cut = rank_cut(max(sums.n, *T.shape), sums.scale)
    keep = sigma > cut
    return Shrinkage(np.asfortranarray(V[:, keep]), sigma[keep] ** 2)
