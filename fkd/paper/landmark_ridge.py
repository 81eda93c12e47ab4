"""The inverse that landmarks give of a fair kernel matrix with a ridge, as a preconditioner."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr

from fkd.core.arrays import Array
from fkd.core.linalg import rank_cut
from fkd.paper.kernel_tiles import KernelPasses
from fkd.paper.nystroem_removal import DualPath

# Added to K_qq, relative to its mean diagonal: landmarks may repeat each other, and what only
# speeds a solver up need not be exact.
JITTER = 1e-10
# Features that are smaller than this share of the largest one slow no solver down.
SMALLEST = 1e-10


@dataclass(frozen=True)
class LandmarkFeatures:
    """Orthonormal columns W = K_nq T, with K about W diag(lam) Wᵀ; W itself is never formed."""

    K: KernelPasses
    n: int
    T: Array  # (q, k)
    lam: Array  # (k,)

    @classmethod
    def of(cls, K: KernelPasses, n: int) -> "LandmarkFeatures":
        """Return the features of the landmarks of K, a matrix of n rows."""
        K_qq, C_q, _ = K.landmark_system(np.empty((n, 0)), np.empty((n, 0)))
        q = len(K_qq)
        shift = max(JITTER * K_qq.trace() / q, rank_cut(q, float(K_qq.diagonal().max())))
        # C_q V = (K_qq + shift·I) V diag(lam), so that Tᵀ C_q T = I whatever the shift.
        lam, V = eigh((C_q + C_q.T) / 2, (K_qq + K_qq.T) / 2 + shift * np.eye(q))
        kept = lam > SMALLEST * lam[-1]
        return cls(K, n, V[:, kept] / np.sqrt(lam[kept]), lam[kept])

    def adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return Wᵀ R of each R (n, l)."""
        return [self.T.T @ part for part in self.K.landmark_adjoints(panels)]

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return W h of each h (k, l)."""
        return self.K.landmark_products([self.T @ h for h in panels], np.empty((self.n, 0)))

    def removed(self, path: DualPath) -> list[Array]:
        """Return what each iteration of a path takes out, in these features, (k, l) each."""
        # Iteration by iteration: a longer path must not change a bit of what a shorter one has.
        parts = [path.A[:, a:b] for a, b in pairwise(path.ends)]
        return [np.sqrt(self.lam)[:, None] * part for part in self.adjoints(parts)]


class LandmarkInverse:
    """M = (K̃_m + alpha·I)⁻¹ of one setting, where K̃_m is the fair kernel of the features W."""

    def __init__(self, lam: Array, removed: Sequence[Array], alpha: float) -> None:
        self.alpha, self.D = alpha, 1.0 / (lam + alpha)
        self.kept = lam * self.D
        U = np.hstack([np.empty((len(lam), 0)), *removed])
        U = qr(U, mode="economic")[0] if U.shape[1] else U
        # By Woodbury's identity of diag(lam) + alpha·I less what is removed.
        self.DB = (self.D * np.sqrt(lam))[:, None] * U
        self.inner = cho_factor(U.T @ (self.D[:, None] * U), lower=True) if U.shape[1] else None

    def seen(self, z: Array) -> Array:
        """Return C (C + alpha·I)⁻¹ z with K̃_m = W C Wᵀ: the part of z that a ridge would fit."""
        fitted = self.kept[:, None] * z
        if self.inner is None:
            return np.asarray(fitted)
        return np.asarray(fitted - self.DB @ cho_solve(self.inner, self.DB.T @ z))


def precondition(
    features: LandmarkFeatures, inverses: Sequence[LandmarkInverse], panels: Sequence[Array]
) -> list[Array]:
    """Return M R of each panel R (n, l), from two passes over the landmarks' columns."""
    inside = zip(inverses, features.adjoints(panels), strict=True)
    fitted = features.products([inverse.seen(z) for inverse, z in inside])
    triples = zip(inverses, panels, fitted, strict=True)
    return [(R - seen) / inverse.alpha for inverse, R, seen in triples]
