"""Removal with the paper's approximate inverse (Algorithm 2), on what is left of a kernel matrix.

B ≈ (K_i + ridge·I)⁻¹ comes from the columns of q landmarks alone. Whatever B is, what is taken out
is an exact projection in feature space; only which direction is taken is approximate.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fkd.core.arrays import Array, IntArray
from fkd.core.linalg import downdate, psd_factor
from fkd.core.removal import RemovalPath, empty_basis, extend_basis
from fkd.core.validation import positive, whole


class Remainder(Protocol):
    """What the iterations so far have left of a kernel matrix K: K_i, as Algorithm 2 reads it."""

    def landmark_system(self, S: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of what is left."""

    def landmark_product(self, z: Array) -> Array:
        """Return K_nq z of what is left, (n, l)."""

    def take_out(self, B: Array) -> int:
        """Return how many new directions were taken out for weights B of the rows, (n, l)."""


def inverse_product(left: Remainder, S: Array, *, ridge: float) -> Array:
    """Return B S, Algorithm 2's approximate (K_i + ridge·I)⁻¹ S; B itself is never formed."""
    z = nystroem_weights(*left.landmark_system(S), ridge=ridge)
    return S / ridge - left.landmark_product(z) / ridge**2


def take_out_all(
    left: Remainder, S: Array, *, ridge: float, iterations: int
) -> tuple[tuple[int, ...], bool]:
    """Return the directions gone after 0, 1, ... iterations, whether nothing more was to be found.

    Parameters
    ----------
    left
        Of the kernel matrix; it changes.
    S
        Sensitive columns (n, l).
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    """
    positive("ridge", ridge)
    ends = [0]
    for _ in range(whole("iterations", iterations, low=0)):
        new = left.take_out(inverse_product(left, S, ridge=ridge))
        if not new:
            return tuple(ends), True
        ends.append(ends[-1] + new)
    return tuple(ends), False


def nystroem_weights(K_qq: Array, C_q: Array, b_q: Array, *, ridge: float) -> Array:
    """Return z = (K_qq + C_q / ridge)⁻¹ b_q, with which B S = S / ridge - K_nq z / ridge².

    Parameters
    ----------
    K_qq
        Kernel matrix of the landmarks, (q, q).
    C_q, b_q
        K_qn K_nq with K_qn S: sums over rows, which may be added up block by block.
    """
    inner = K_qq + C_q / ridge
    return _solve_psd((inner + inner.T) / 2, b_q)


def _solve_psd(A: Array, B: Array) -> Array:
    """Return some Z with A Z = B, for B in the range of A, which may be singular to rounding."""
    # No jitter first: even 1e-10 of the mean diagonal would show in the result.
    try:
        return np.asarray(cho_solve(cho_factor(A, lower=True), B))
    except np.linalg.LinAlgError:
        # Pivots that are left out get no weight: the cost of a factor, not of eigenvectors.
        L, pivots = psd_factor(A)
        kept = np.arange(len(A)) if pivots is None else pivots
        Z = np.zeros_like(B)
        Z[kept] = cho_solve((L[kept], True), B[kept])
        return Z


def nystroem_path(
    G: Array, S: Array, *, ridge: float, iterations: int, landmarks: IntArray
) -> RemovalPath:
    """Return the path of Algorithm 1 with Algorithm 2's inverse, kept orthonormal in features.

    Parameters
    ----------
    G
        Features of the training rows with G Gᵀ = K, (n, r).
    S
        Sensitive columns (n, l).
    landmarks
        Rows that stand for all in the inverse; the same ones in every iteration.
    """
    room = empty_basis(G.T @ S, whole("iterations", iterations, low=0))
    left = FeatureRemainder(G, landmarks, room)
    ends, exhausted = take_out_all(left, S, ridge=ridge, iterations=iterations)
    return RemovalPath(left.U[:, : left.w], ends, exhausted or left.w == G.shape[1])


class FeatureRemainder:
    """What is left of G Gᵀ, with orthonormal directions in the space of the features."""

    def __init__(self, G: Array, landmarks: IntArray, U: Array) -> None:
        self.G, self.landmarks, self.U, self.w = G, landmarks, U, 0
        self.K_nq = G @ G[landmarks].T

    def landmark_system(self, S: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of what is left."""
        return self.K_nq[self.landmarks], self.K_nq.T @ self.K_nq, self.K_nq.T @ S

    def landmark_product(self, z: Array) -> Array:
        """Return K_nq z of what is left."""
        return self.K_nq @ z

    def take_out(self, B: Array) -> int:
        """Return how many of the directions Gᵀ B were new."""
        before, self.w = self.w, extend_basis(self.U, self.w, self.G.T @ B)
        F = self.G @ self.U[:, before : self.w]
        self.K_nq = self.K_nq - F @ F[self.landmarks].T
        return self.w - before


@dataclass(frozen=True)
class DualPath:
    """Removed directions as combinations of training rows: F = K A with Aᵀ K A = I."""

    A: Array  # (n, w)
    F: Array  # (n, w)
    ends: tuple[int, ...]  # directions gone after 0, 1, 2, ... iterations
    exhausted: bool = False  # whether further iterations would find nothing; else it was cut here

    def head(self, m: int) -> "DualPath":
        """Return the path of the first m iterations; the arrays are shared."""
        # What a path of any form knows of its lengths.
        lengths = RemovalPath(self.A, self.ends, self.exhausted)
        w, short = lengths.width(m), lengths.head(m)
        return DualPath(self.A[:, :w], self.F[:, :w], short.ends, short.exhausted)

    def fair_gram(self, K: Array) -> Array:
        """Return K_m = K - F Fᵀ."""
        return downdate(K, self.F)

    def fair_block(self, K_t: Array) -> Array:
        """Return the test block K_t T_m."""
        return K_t - (K_t @ self.A) @ self.F.T

    def T(self) -> Array:
        """Return T_m = I - A Fᵀ, with which K_m = K T_m."""
        return np.eye(len(self.A)) - self.A @ self.F.T
