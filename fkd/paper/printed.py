"""The algorithms of the paper as printed, for comparison."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fkd.core.arrays import Array, IntArray
from fkd.core.checks import positive, whole
from fkd.core.linalg import DEFLATION, downdate, psd_factor
from fkd.core.removal_path import RemovalPath, empty_basis, extend_basis


def algorithm_1(K: Array, S: Array, *, ridge: float, iterations: int) -> tuple[Array, Array]:
    """Return K_m with T_m, for which K_m = K T_m, by the printed recursion.

    Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair Null-Space Projections for
    Continuous Attributes to Kernel Methods". It costs O(m n³) and loses accuracy at large m.

    Parameters
    ----------
    K
        Kernel matrix (n, n).
    S
        Sensitive columns (n, l), linearly independent.
    ridge, iterations
        As in `fkd.core.removal_path.removal_path`.
    """
    *_, last = recursion(K, S, ridge=ridge, iterations=iterations)
    return last


def recursion(
    K: Array, S: Array, *, ridge: float, iterations: int
) -> Iterator[tuple[Array, Array]]:
    """Yield K_i with T_i of `algorithm_1` for i = 0, 1, ..., iterations."""
    positive("ridge", ridge)
    identity = np.eye(len(K))
    K_i, T_i = K, identity
    yield K_i, T_i
    for _ in range(whole("iterations", iterations, low=0)):
        B = np.linalg.inv(K_i + ridge * identity)
        tau = np.linalg.inv(S.T @ B @ K_i @ B @ S)
        M = (B @ S @ tau) @ (S.T @ B)  # in the order that costs O(n² l)
        T = identity - M @ K_i
        K_i = K_i @ T
        T_i = T_i @ T
        yield K_i, T_i


def nystroem_inverse_product(K_nq: Array, landmarks: IntArray, S: Array, *, ridge: float) -> Array:
    """Return B S with Algorithm 2's B ≈ (K + ridge·I)⁻¹, in O(n q) memory: B is never formed.

    Parameters
    ----------
    K_nq
        The landmarks' columns of the current kernel matrix, (n, q).
    landmarks
        Their indices.
    S
        Sensitive columns (n, l).
    """
    z = nystroem_weights(K_nq[landmarks], K_nq.T @ K_nq, K_nq.T @ S, ridge=ridge)
    return S / ridge - K_nq @ z / ridge**2


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
    positive("ridge", ridge)
    K_nq = G @ G[landmarks].T
    U = empty_basis(G.T @ S, whole("iterations", iterations, low=0))
    ends = [0]
    for _ in range(iterations):
        b = nystroem_inverse_product(K_nq, landmarks, S, ridge=ridge)
        w = extend_basis(U, ends[-1], G.T @ b)
        if w == ends[-1]:
            return RemovalPath(U[:, :w], tuple(ends), exhausted=True)
        F = G @ U[:, ends[-1] : w]
        K_nq = K_nq - F @ F[landmarks].T
        ends.append(w)
    return RemovalPath(U[:, : ends[-1]], tuple(ends), exhausted=ends[-1] == len(U))


@dataclass(frozen=True)
class DualPath:
    """Removed directions as combinations of training rows: F = K A with Aᵀ K A = I."""

    A: Array  # (n, w)
    F: Array  # (n, w)

    def fair_gram(self, K: Array) -> Array:
        """Return K_m = K - F Fᵀ."""
        return downdate(K, self.F)

    def fair_block(self, K_t: Array) -> Array:
        """Return the test block K_t T_m."""
        return K_t - (K_t @ self.A) @ self.F.T

    def T(self) -> Array:
        """Return T_m = I - A Fᵀ, with which K_m = K T_m."""
        return np.eye(len(self.A)) - self.A @ self.F.T


def nystroem_dual_path(
    K: Array, S: Array, *, ridge: float, iterations: int, landmarks: IntArray
) -> DualPath:
    """Return the path of Algorithm 1 with Algorithm 2's inverse, without any factor of K.

    Costs O(n²) a step, and O(n q + n m l) memory beside K, which is only read. It forgoes what the
    feature space does for accuracy where K is singular; `nystroem_path` has that.
    """
    positive("ridge", ridge)
    A = np.empty((len(K), 0))
    F = np.empty((len(K), 0))
    for _ in range(whole("iterations", iterations, low=0)):
        K_nq = K[:, landmarks] - F @ F[landmarks].T
        for b in nystroem_inverse_product(K_nq, landmarks, S, ridge=ridge).T:
            before = np.sqrt(b @ (K @ b))
            # K-orthogonal to the columns of A, twice: Fᵀ b is Aᵀ K b.
            b = b - A @ (F.T @ b)
            b = b - A @ (F.T @ b)
            u = K @ b
            left = np.sqrt(max(b @ u, 0.0))
            if left > DEFLATION * before:
                A, F = np.column_stack([A, b / left]), np.column_stack([F, u / left])
    return DualPath(A, F)
