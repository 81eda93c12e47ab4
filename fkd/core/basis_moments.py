"""Sums over rows that couple features with functions of the sensitive attribute, as they add."""

from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

import numpy as np

from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import rank_cut, solved_lower
from fkd.core.row_weights import row_count, times_weights, weighted_sum

# Of the basis' variance, what a legitimate column must leave for there to be something to remove.
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class BasisMoments:
    """Sums of products of features G with columns W = (B, Z): a basis, then what is legitimate.

    Those of disjoint rows add up to those of their union, as long as map and basis are one. A row
    of weight w counts as w rows.
    """

    n: float  # rows, or the sum of their weights
    p: int  # columns of W that are the basis
    GW: Array  # GᵀW, (r, p + k)
    WW: Array  # WᵀW, (p + k, p + k)
    g: Array  # Gᵀ1, (r,)
    w: Array  # Wᵀ1, (p + k,)
    gg: float  # sum of all squared features

    @classmethod
    def of(
        cls, G: Array, B: Array, Z: Array | None = None, w: Array | None = None
    ) -> "BasisMoments":
        """Return the sums of one block of rows, each counted w times."""
        W = B if Z is None else np.hstack([B, Z])
        weighed = times_weights(W, w)
        return cls(
            n=row_count(len(G), w),
            p=B.shape[1],
            GW=G.T @ weighed,
            WW=W.T @ weighed,
            g=weighted_sum(G, w),
            w=weighed.sum(axis=0),
            gg=_squares(G, w),
        )

    def __add__(self, other: "BasisMoments") -> "BasisMoments":
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return BasisMoments(**{**added, "p": self.p})

    def under(self, L: Array, squares: float) -> "BasisMoments":
        """Return the sums of G L⁻ᵀ, whose squares sum up to `squares`: products alone tell not."""
        return replace(self, GW=solved_lower(L, self.GW), g=solved_lower(L, self.g), gg=squares)

    @property
    def scale(self) -> float:
        """The largest covariance that features and basis of this size could have."""
        return float(np.sqrt(self.gg * self.WW.diagonal()[: self.p].sum(axis=0))) / self.n

    def covariance(self) -> Array:
        """Return T, the covariance of features with the basis beyond what is legitimate, (r, p)."""
        T = (self.GW - np.outer(self.g, self.w / self.n)) / self.n
        return T[:, : self.p] - T[:, self.p :] @ self._legitimate()

    def products(self) -> Array:
        """Return n T, what a removal path takes for GᵀS."""
        return np.asarray(self.n * self.covariance())

    @property
    def left(self) -> float:
        """The share of the basis' variance that lies beyond what is legitimate."""
        M = self._variances()
        variance = float(M.diagonal()[: self.p].sum(axis=0))
        known = float(np.einsum("ij,ij->", self._legitimate(), M[self.p :, : self.p]))
        return 1.0 - known / variance if variance > 0 else 1.0

    def _variances(self) -> Array:
        """Return the covariance matrix of W."""
        return np.asarray((self.WW - np.outer(self.w, self.w / self.n)) / self.n)

    def _legitimate(self) -> Array:
        """Return the coefficients of least squares that give the basis from Z, (k, p)."""
        M = self._variances()
        if len(M) == self.p:
            return np.empty((0, self.p))
        S_zz, S_zb = M[self.p :, self.p :], M[self.p :, : self.p]
        lam, Q = np.linalg.eigh(S_zz)
        # Splines add up to one and legitimate columns may repeat each other.
        keep = lam > rank_cut(max(self.n, len(lam)), float(lam[-1]))
        found = np.asarray(Q[:, keep] @ ((Q[:, keep].T @ S_zb) / lam[keep, None]))
        variance = M.diagonal()[: self.p].sum(axis=0)
        left = variance - np.einsum("ij,ij->", found, S_zb)
        if variance > 0 and left <= _LEAST_LEFT * variance:
            raise ValueError(
                "given must leave something of the sensitive features to remove, but what it names "
                "determines them; name columns that are not the sensitive ones"
            )
        return found


def _squares(G: Array, w: Array | None) -> float:
    """Return the sum of all squared features."""
    if w is None:
        return float(np.einsum("ij,ij->", G, G))
    return float(w @ np.einsum("ij,ij->i", G, G))


def basis_moments(
    feature_map: FeatureMap,
    X: Rows,
    B: Array,
    Z: Array | None = None,
    w: Array | None = None,
) -> BasisMoments:
    """Return the sums of the training rows X, added up block by block.

    Parameters
    ----------
    feature_map
        The map that was made from X.
    X, B, Z
        Training rows (n, d), basis (n, p), legitimate columns (n, k).
    w
        How many rows each counts for, (n,); None is one.
    """
    parts: list[BasisMoments] = []
    start = 0
    for G in feature_map.training_blocks(X):
        rows = slice(start, start + len(G))
        further = (None if part is None else part[rows] for part in (Z, w))
        parts.append(BasisMoments.of(G, B[rows], *further))
        start = rows.stop
    return reduce(add, parts)
