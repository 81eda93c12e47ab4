"""Algorithm 2 of the paper: removal with a Nystroem approximation of the inverse.

**Algorithm 2.** Iteration i of Algorithm 1 needs b = (K_i + ridge·I)⁻¹ S. Algorithm 2 takes the
columns K_nq of q landmarks from K_i and replaces the inverse by ::

    B = I / ridge - K_nq (K_qq + K_qn K_nq / ridge)⁻¹ K_qn / ridge².

Only b = B S is needed, so B is never formed::

    z = (K_qq + K_qn K_nq / ridge)⁻¹ K_qn S,      b = S / ridge - K_nq z / ridge².

For any b, K_(i+1) = K_i - u (bᵀ u)⁻¹ uᵀ with u = K_i b is an exact orthogonal projection in feature
space. The approximation changes which directions are removed, but not that they are removed.
`nystroem_path` keeps the directions orthonormal in features G with G Gᵀ = K.

**In passes over the kernel matrix.** A kernel matrix of many rows does not fit into memory.
`chunked_dual_path` writes the directions as combinations A of training rows, with F = K A and
Aᵀ K A = I. Then K_m = K - F Fᵀ, and K is read but never changed: each iteration reads the landmark
columns twice and K once. `KernelPasses` is the interface to K. `KernelRows` implements it for one
process and computes K in tiles whenever it is read.

**Ridge regression.** `dual_ridge` solves (K_m + alpha·I) beta = y by conjugate gradients, which
only multiply by K. All settings share the passes, and none of them changes the numbers of another
one. The preconditioner uses the landmarks. Let C_q = K_qn K_nq and C_q V = K_qq V Λ. The columns of
W = K_nq V Λ^(-1/2) are orthonormal, and W Λ Wᵀ approximates K. Removing the same directions there
gives W C Wᵀ, which approximates K_m, and ::

    (W C Wᵀ + alpha·I)⁻¹ = (I - W C (C + alpha·I)⁻¹ Wᵀ) / alpha.

An intercept is not penalised. It needs a second right-hand side of ones: if X_y and X_1 are the two
solutions, beta = X_y - intercept · X_1 must sum to 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, qr

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.kernels import Kernel
from fkd.core.linalg import DEFLATION, downdate, psd_factor, rank_cut
from fkd.core.removal import RemovalPath, empty_basis, extend_basis
from fkd.core.validation import positive, whole

# Rows of a tile: 2048 x 2048 numbers are 34 MB, enough for BLAS to be efficient.
TILE_ROWS = 2048
# Rows of a tile that are multiplied at a time, so that they stay in the cache for all panels.
_STRIP_ROWS = 128

# Bounds of residuals relative to the right-hand side. Conjugate gradients stop at the first.
# Because of rounding the true residual may be larger; beyond the second an error is raised.
TOLERANCE = 1e-10
LARGEST_RESIDUAL = 1e-7
# Passes over K after which a system counts as unsolvable. Census tables need some dozens.
MAX_PASSES = 2000

# Added to K_qq, relative to its mean diagonal, because landmarks may be duplicates. A
# preconditioner need not be exact.
_JITTER = 1e-10
# Landmark features below this share of the largest eigenvalue do not improve the preconditioner.
_SMALLEST = 1e-10


# Algorithm 2 in the space of features.


def nystroem_path(
    G: Array, S: Array, *, ridge: float, iterations: int, landmarks: IntArray
) -> RemovalPath:
    """Return the removal path of Algorithm 2, orthonormal in feature space.

    Parameters
    ----------
    G
        Features of the training rows with G Gᵀ = K, (n, r).
    S
        Sensitive columns (n, l).
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    landmarks
        Positions of the landmarks, the same in all iterations, (q,).
    """
    positive("ridge", ridge)
    U = empty_basis(G.T @ S, whole("iterations", iterations, low=0))
    K_nq, ends, exhausted = G @ G[landmarks].T, [0], False
    for _ in range(iterations):
        w = ends[-1]
        z = nystroem_weights(K_nq[landmarks], K_nq.T @ K_nq, K_nq.T @ S, ridge=ridge)
        b = S / ridge - K_nq @ z / ridge**2
        new = extend_basis(U, w, G.T @ b)
        if new == w:
            exhausted = True
            break
        ends.append(new)
        F = G @ U[:, w:new]
        K_nq = K_nq - F @ F[landmarks].T
    return RemovalPath(U[:, : ends[-1]], tuple(ends), exhausted or ends[-1] == G.shape[1])


def nystroem_weights(K_qq: Array, C_q: Array, b_q: Array, *, ridge: float) -> Array:
    """Return z = (K_qq + C_q / ridge)⁻¹ b_q.

    Parameters
    ----------
    K_qq
        Kernel matrix of the landmarks, (q, q).
    C_q, b_q
        K_qn K_nq and K_qn S. Both are sums over rows.
    """
    inner = K_qq + C_q / ridge
    inner = (inner + inner.T) / 2
    # Without jitter: even 1e-10 of the mean diagonal changes the result.
    try:
        return np.asarray(cho_solve(cho_factor(inner, lower=True), b_q))
    except np.linalg.LinAlgError:
        # The matrix is singular to rounding. A pivoted factor is cheaper than eigenvectors;
        # landmarks without a pivot get the weight 0.
        L, pivots = psd_factor(inner)
        kept = np.arange(len(inner)) if pivots is None else pivots
        z = np.zeros_like(b_q)
        z[kept] = cho_solve((L[kept], True), b_q[kept])
        return z


# The same in passes over the kernel matrix.


class KernelPasses(Protocol):
    """A kernel matrix K of n rows that is read in passes, with the columns of q landmarks.

    Panels are arrays (n, l) or (q, l). Each is multiplied separately, so that its product does not
    depend on the other panels of a pass in any bit.
    """

    @property
    def landmarks(self) -> IntArray:
        """Positions of the landmarks, (q,)."""

    def landmark_system(self, S: Array, F: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq and K_qn S of K - F Fᵀ."""

    def landmark_products(self, panels: Sequence[Array], F: Array) -> list[Array]:
        """Return K_nq z of K - F Fᵀ for each panel z."""

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K for each panel R."""

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B for each panel B."""


@dataclass(frozen=True)
class KernelRows:
    """The kernel matrix of training rows, computed in tiles whenever it is read.

    Parameters
    ----------
    kernel, X
        Kernel and training rows (n, d). The kernel "precomputed" takes the matrix itself as X.
    landmarks
        Positions of the landmarks, (q,).
    tile_rows
        Rows of a tile. Results of different sizes differ by rounding.
    """

    kernel: Kernel
    X: Array
    landmarks: IntArray
    tile_rows: int = TILE_ROWS

    def __post_init__(self) -> None:
        """Check the number of rows of a tile."""
        whole("tile_rows", self.tile_rows, low=1)

    def landmark_system(self, S: Array, F: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq and K_qn S of K - F Fᵀ."""
        q, F_q = len(self.landmarks), F[self.landmarks]
        C_q, b_q = np.zeros((q, q)), np.zeros((q, S.shape[1]))
        for rows in self._tiles():
            K_nq = self._block(rows, self.landmarks) - F[rows] @ F_q.T
            C_q += K_nq.T @ K_nq
            b_q += K_nq.T @ S[rows]
        return self._block(self.landmarks, self.landmarks) - F_q @ F_q.T, C_q, b_q

    def landmark_products(self, panels: Sequence[Array], F: Array) -> list[Array]:
        """Return K_nq z of K - F Fᵀ for each panel z."""
        F_q, found = F[self.landmarks], [np.empty((len(self.X), z.shape[1])) for z in panels]
        for rows in self._tiles():
            K_nq = self._block(rows, self.landmarks) - F[rows] @ F_q.T
            for product, part in zip(found, panel_products(K_nq, panels), strict=True):
                product[rows] = part
        return found

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K for each panel R."""
        found = [np.zeros((len(self.landmarks), R.shape[1])) for R in panels]
        for rows in self._tiles():
            K_qn = self._block(rows, self.landmarks).T
            parts = panel_products(K_qn, [R[rows] for R in panels])
            for total, part in zip(found, parts, strict=True):
                total += part
        return found

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B for each panel B. Every pair of rows is computed once."""
        found = [np.zeros(B.shape) for B in panels]

        def add(rows: slice, columns: slice, K: Array) -> None:
            parts = panel_products(K, [B[columns] for B in panels])
            for total, part in zip(found, parts, strict=True):
                total[rows] += part

        for rows in self._tiles():
            add(rows, rows, self._block(rows, rows))
            for columns in self._tiles(first=rows.stop):
                # A tile above the diagonal is, transposed, the tile below it.
                K = self._block(rows, columns)
                add(rows, columns, K)
                add(columns, rows, K.T)
        return found

    def _tiles(self, first: int = 0) -> list[slice]:
        blocks = row_blocks(len(self.X) - first, self.tile_rows)
        return [slice(first + rows.start, first + rows.stop) for rows in blocks]

    def _block(self, rows: slice | IntArray, columns: slice | IntArray) -> Array:
        if self.kernel.name == "precomputed":
            return self.X[rows][:, columns]  # without the copy of a kernel function
        return np.asarray(self.kernel(self.X[rows], self.X[columns]))


def panel_products(K: AnyArray, panels: Sequence[Array]) -> list[Array]:
    """Return K B for each panel B, reading K once."""
    # BLAS results depend on the memory layout: copies have the same layout for every caller.
    panels = [np.ascontiguousarray(B) for B in panels]
    found = [np.empty((len(K), B.shape[1])) for B in panels]
    for rows in row_blocks(len(K), _STRIP_ROWS):
        for product, B in zip(found, panels, strict=True):
            product[rows] = K[rows] @ B
    return found


@dataclass(frozen=True)
class DualPath:
    """Removed directions as combinations of training rows: F = K A with Aᵀ K A = I.

    Parameters
    ----------
    A, F
        Arrays (n, w).
    ends
        Number of directions after 0, 1, 2, ... iterations.
    exhausted
        True if further iterations would find no new direction.
    """

    A: Array
    F: Array
    ends: tuple[int, ...]
    exhausted: bool = False

    def head(self, m: int) -> "DualPath":
        """Return the path of the first m iterations. The arrays are shared."""
        path = RemovalPath(self.A, self.ends, self.exhausted).head(m)
        w = path.ends[-1]
        return DualPath(self.A[:, :w], self.F[:, :w], path.ends, path.exhausted)

    def fair_gram(self, K: Array) -> Array:
        """Return K_m = K - F Fᵀ."""
        return downdate(K, self.F)


def chunked_dual_path(K: KernelPasses, S: Array, *, ridge: float, iterations: int) -> DualPath:
    """Return the removal path of Algorithm 2 as combinations of rows, from passes over K.

    It is less accurate than `nystroem_path` if K is nearly singular.

    Parameters
    ----------
    K
        The kernel matrix of the training rows.
    S
        Sensitive columns (n, l).
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    """
    positive("ridge", ridge)
    n = len(S)
    A = empty_basis(S, whole("iterations", iterations, low=0))
    F, ends, exhausted = np.empty_like(A, order="F"), [0], False
    for _ in range(iterations):
        w = ends[-1]
        z = nystroem_weights(*K.landmark_system(S, F[:, :w]), ridge=ridge)
        (K_z,) = K.landmark_products([z], F[:, :w])
        b = S / ridge - K_z / ridge**2
        (K_b,) = K.products([b])
        new = _extend_dual(A, F, w, b, K_b)
        if new == w:
            exhausted = True
            break
        ends.append(new)
    w = ends[-1]
    return DualPath(A[:, :w], F[:, :w], tuple(ends), exhausted or w == n)


def _extend_dual(A: Array, F: Array, w: int, B: Array, K_B: Array) -> int:
    """Append the columns of B to A and those of K B to F = K A; return the new width."""
    for b, u in zip(B.T, K_B.T, strict=True):
        before = np.sqrt(max(b @ u, 0.0))
        for _ in range(2):
            # Fᵀ b is Aᵀ K b. Hence b becomes K-orthogonal to A, and u stays K b.
            c = F[:, :w].T @ b
            b, u = b - A[:, :w] @ c, u - F[:, :w] @ c
        left = np.sqrt(max(b @ u, 0.0))
        if left > DEFLATION * before and w < A.shape[1]:
            A[:, w], F[:, w] = b / left, u / left
            w += 1
    return w


# Ridge regression by preconditioned conjugate gradients.


@dataclass(frozen=True)
class DualRidge:
    """One setting of ridge regression on the fair kernel.

    Parameters
    ----------
    iterations
        Iterations of the removal.
    alpha
        Ridge.
    fit_intercept
        Fit an intercept, which is not penalised.
    """

    iterations: int
    alpha: float
    fit_intercept: bool = False

    def __str__(self) -> str:
        return f"alpha={self.alpha:g} (iterations={self.iterations})"


@dataclass(frozen=True)
class DualWeights:
    """The fitted function f(x) = k(x, X)·coef + intercept."""

    coef: Array  # (n,)
    intercept: float


def dual_ridge(
    K: KernelPasses,
    path: DualPath,
    y: Array,
    settings: Sequence[DualRidge],
    *,
    max_passes: int = MAX_PASSES,
) -> list[DualWeights]:
    """Return (K_m + alpha·I)⁻¹ y for each setting, as weights of the training rows.

    Parameters
    ----------
    K
        The kernel matrix of the training rows.
    path
        The removal path, at least as long as the longest setting.
    y
        Target, (n,).
    settings
        Settings to fit. They share the passes over K.
    max_passes
        Passes over K after which ValueError is raised for a setting that is not solved.
    """
    for p in settings:
        positive("alpha", p.alpha)
    heads = [path.head(p.iterations) for p in settings]

    def apply(which: Sequence[int], panels: Sequence[Array]) -> list[Array]:
        parts = zip(which, panels, K.products(panels), strict=True)
        return [KP - heads[i].F @ (heads[i].F.T @ P) + settings[i].alpha * P for i, P, KP in parts]

    ones = np.ones_like(y)
    solved = solve_systems(
        apply,
        [np.column_stack([y, ones] if p.fit_intercept else [y]) for p in settings],
        precondition=LandmarkPreconditioner(K, path, settings),
        names=[str(p) for p in settings],
        max_passes=max_passes,
    )
    found = []
    for head, X in zip(heads, solved, strict=True):
        beta, intercept = X[:, 0], 0.0
        if X.shape[1] > 1:
            intercept = float(X[:, 0].sum(axis=0) / X[:, 1].sum(axis=0))
            beta = X[:, 0] - intercept * X[:, 1]
        found.append(DualWeights(beta - head.A @ (head.F.T @ beta), intercept))
    return found


# Takes indices of systems and one panel (n, w) of each, and returns one panel of each.
Operator = Callable[[Sequence[int], Sequence[Array]], Sequence[Array]]


def solve_systems(
    apply: Operator,
    B: Sequence[Array],
    *,
    precondition: Operator,
    names: Sequence[str],
    max_passes: int = MAX_PASSES,
) -> list[Array]:
    """Return X_i with A_i X_i = B_i of several positive definite systems.

    The systems share passes, in which `apply` multiplies. A system that has reached `TOLERANCE`
    takes part in no further pass. Its numbers do not depend on the other systems.

    Parameters
    ----------
    apply
        Returns A_i P_i of the given systems.
    B
        Right-hand sides, one panel (n, w) per system. Columns are solved independently.
    precondition
        Returns M_i R_i of the given systems. M_i is positive definite, close to the inverse of A_i.
    names
        Names of the systems, for errors.
    max_passes
        Passes after which an unsolved system raises ValueError.
    """
    systems = [_System(b) for b in B]
    active = [i for i, system in enumerate(systems) if system.open.any()]
    passes = 0
    while active:
        if passes == max_passes:
            worst = max(active, key=lambda i: systems[i].residual)
            raise _unsolved(names[worst], systems[worst].residual, passes)
        for i, Z in zip(active, precondition(active, [systems[i].R for i in active]), strict=True):
            systems[i].turn(Z)
        for i, AP in zip(active, apply(active, [systems[i].P for i in active]), strict=True):
            systems[i].step(AP)
        passes += 1
        active = [i for i in active if systems[i].open.any()]
    found = [system.X for system in systems]
    for name, b, AX in zip(names, B, apply(range(len(B)), found), strict=True):
        residual = _relative_norms(b - AX, b).max()
        if not residual <= LARGEST_RESIDUAL:
            raise _unsolved(name, residual, passes)
    return found


class _System:
    """State of conjugate gradients: solution X, residual R, search direction P."""

    def __init__(self, B: Array) -> None:
        self.B, self.X, self.R = B, np.zeros_like(B), B.copy()
        self.P, self.rz = np.zeros_like(B), np.ones(B.shape[1])
        self._update_residual()

    def turn(self, Z: Array) -> None:
        """Set the search direction from the preconditioned residual."""
        rz = np.einsum("ij,ij->j", self.R, Z)
        self.P = Z + self.P * (rz / self.rz)
        # Solved columns are left alone: their numbers would soon be rounding errors of zero.
        self.P[:, ~self.open] = 0.0
        self.rz = np.where(self.open, rz, 1.0)

    def step(self, AP: Array) -> None:
        """Move along the search direction to the smallest error."""
        curvature = np.einsum("ij,ij->j", self.P, AP)
        length = np.where(self.open, self.rz, 0.0) / np.where(self.open, curvature, 1.0)
        self.X += self.P * length
        self.R -= AP * length
        self._update_residual()

    def _update_residual(self) -> None:
        relative = _relative_norms(self.R, self.B)
        self.residual = float(relative.max())
        # NaN counts as unsolved, so that it ends in an error.
        self.open = ~(relative <= TOLERANCE)


def _relative_norms(R: Array, B: Array) -> Array:
    """Return the norms of the columns of R, relative to those of B that are not 0."""
    norms = np.linalg.norm(B, axis=0)
    return np.asarray(np.linalg.norm(R, axis=0) / np.where(norms > 0, norms, 1.0))


def _unsolved(name: str, residual: float, passes: int) -> ValueError:
    return ValueError(
        f"the residual of {name} must be at most {TOLERANCE:g} of the right-hand side (rounding "
        f"apart), got {residual:.1e} after {passes} passes. Use a larger alpha or more landmarks."
    )


class LandmarkPreconditioner:
    """(W C Wᵀ + alpha·I)⁻¹ of each setting, an `Operator`. W = K_nq T is never formed.

    Parameters
    ----------
    K, path, settings
        As in `dual_ridge`.
    """

    def __init__(self, K: KernelPasses, path: DualPath, settings: Sequence[DualRidge]) -> None:
        nothing = np.empty((len(path.A), 0))
        K_qq, C_q, _ = K.landmark_system(nothing, nothing)
        q = len(K_qq)
        shift = max(_JITTER * K_qq.trace() / q, rank_cut(q, float(K_qq.diagonal().max())))
        # C_q V = (K_qq + shift·I) V diag(lam), hence Tᵀ C_q T = I for any shift.
        lam, V = eigh((C_q + C_q.T) / 2, (K_qq + K_qq.T) / 2 + shift * np.eye(q))
        kept = lam > _SMALLEST * lam[-1]
        lam, self.T = lam[kept], V[:, kept] / np.sqrt(lam[kept])
        self.K, self.nothing = K, nothing
        # Removed directions in these features. Each iteration is a panel of its own, so that a
        # longer path gives a shorter setting the same bits.
        parts = K.landmark_adjoints([path.A[:, a:b] for a, b in pairwise(path.ends)])
        removed = [np.sqrt(lam)[:, None] * (self.T.T @ part) for part in parts]
        self.inverses = [_FeatureInverse(lam, removed[: p.iterations], p.alpha) for p in settings]

    def __call__(self, which: Sequence[int], panels: Sequence[Array]) -> list[Array]:
        """Return M_i R_i for each panel R_i, from two passes over the landmark columns."""
        inverses = [self.inverses[i] for i in which]
        features = [self.T.T @ part for part in self.K.landmark_adjoints(panels)]
        fitted = [M.fitted(z) for M, z in zip(inverses, features, strict=True)]
        products = self.K.landmark_products([self.T @ h for h in fitted], self.nothing)
        triples = zip(inverses, panels, products, strict=True)
        return [(R - product) / M.alpha for M, R, product in triples]


class _FeatureInverse:
    """C (C + alpha·I)⁻¹ for one setting, where C is diag(lam) without the removed directions."""

    def __init__(self, lam: Array, removed: Sequence[Array], alpha: float) -> None:
        D = 1.0 / (lam + alpha)
        self.alpha, self.kept = alpha, lam * D
        U = np.hstack([np.empty((len(lam), 0)), *removed])
        U = qr(U, mode="economic")[0] if U.shape[1] else U
        # By Woodbury's identity.
        self.DU = (D * np.sqrt(lam))[:, None] * U
        self.inner = cho_factor(U.T @ (D[:, None] * U), lower=True) if U.shape[1] else None

    def fitted(self, z: Array) -> Array:
        """Return C (C + alpha·I)⁻¹ z."""
        fitted = self.kept[:, None] * z
        if self.inner is None:
            return np.asarray(fitted)
        return np.asarray(fitted - self.DU @ cho_solve(self.inner, self.DU.T @ z))
