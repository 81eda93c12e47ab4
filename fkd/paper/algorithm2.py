"""Removal with the paper's approximate inverse (Algorithm 2), on what is left of a kernel matrix.

B ≈ (K_i + ridge·I)⁻¹ comes from the columns of q landmarks alone. Whatever B is, what is taken out
is an exact projection in feature space; only which direction is taken is approximate.
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


# Rows of a kernel block: 2048 x 2048 numbers are 34 MB, large enough for BLAS.
TILE_ROWS = 2048
# Rows of a block that are multiplied at a time: they stay in the cache for every panel.
_STRIP_ROWS = 128


class KernelPasses(Protocol):
    """A kernel matrix K of n rows that is read in passes, with the columns of q landmarks.

    Panels are (n, l) or (q, l). Each is multiplied by itself: what others are there in a pass does
    not change a bit of its product.
    """

    @property
    def landmarks(self) -> IntArray:
        """Rows whose columns K_nq stand for all, (q,)."""

    def landmark_system(self, S: Array, F: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of K - F Fᵀ."""

    def landmark_products(self, panels: Sequence[Array], F: Array) -> list[Array]:
        """Return K_nq z of K - F Fᵀ, of each z."""

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K, of each R."""

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B of each B."""


@dataclass(frozen=True)
class KernelRows:
    """Training rows whose kernel matrix K is made tile by tile, whenever it is read."""

    kernel: Kernel
    X: Array  # (n, d)
    landmarks: IntArray  # (q,)
    tile_rows: int = TILE_ROWS  # results for other sizes differ by rounding

    def __post_init__(self) -> None:
        """Refuse tiles without rows."""
        whole("tile_rows", self.tile_rows, low=1)

    def block(self, rows: slice | IntArray, columns: slice | IntArray) -> Array:
        """Return these rows and columns of K; of a matrix that is at hand, without a copy."""
        if self.kernel.name == "precomputed":
            return self.X[rows][:, columns]
        return np.asarray(self.kernel(self.X[rows], self.X[columns]))

    def landmark_system(self, S: Array, F: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of K - F Fᵀ."""
        q, F_q = len(self.landmarks), F[self.landmarks]
        C_q, b_q = np.zeros((q, q)), np.zeros((q, S.shape[1]))
        for rows in self._tiles():
            K_nq = self.block(rows, self.landmarks) - F[rows] @ F_q.T
            C_q += K_nq.T @ K_nq
            b_q += K_nq.T @ S[rows]
        return self.block(self.landmarks, self.landmarks) - F_q @ F_q.T, C_q, b_q

    def landmark_products(self, panels: Sequence[Array], F: Array) -> list[Array]:
        """Return K_nq z of K - F Fᵀ, of each z."""
        F_q, found = F[self.landmarks], [np.empty((len(self.X), z.shape[1])) for z in panels]
        for rows in self._tiles():
            K_nq = self.block(rows, self.landmarks) - F[rows] @ F_q.T
            for whole_product, part in zip(found, multiplied(K_nq, panels), strict=True):
                whole_product[rows] = part
        return found

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K, of each R."""
        found = [np.zeros((len(self.landmarks), R.shape[1])) for R in panels]
        for rows in self._tiles():
            K_qn = self.block(rows, self.landmarks).T
            for total, part in zip(found, multiplied(K_qn, [R[rows] for R in panels]), strict=True):
                total += part
        return found

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B of each B.

        A tile right of the diagonal also stands, transposed, for the one below it: every pair of
        rows is made once.
        """
        found = [np.zeros(B.shape) for B in panels]
        for above in self._tiles():
            self._add(found, panels, above, above, self.block(above, above))
            for columns in self._tiles(first=above.stop):
                K = self.block(above, columns)
                self._add(found, panels, above, columns, K)
                self._add(found, panels, columns, above, K.T)
        return found

    def _tiles(self, first: int = 0) -> list[slice]:
        """Return the rows of each tile from a first row on."""
        blocks = row_blocks(len(self.X) - first, self.tile_rows)
        return [slice(first + rows.start, first + rows.stop) for rows in blocks]

    def _add(
        self,
        found: Sequence[Array],
        panels: Sequence[Array],
        rows: slice,
        columns: slice,
        K: Array,
    ) -> None:
        """Add what one tile gives to the products."""
        for total, part in zip(found, multiplied(K, [B[columns] for B in panels]), strict=True):
            total[rows] += part


def multiplied(K: AnyArray, panels: Sequence[Array]) -> list[Array]:
    """Return K B of each B, all of them from one reading of K."""
    # Own memory of one layout: how far apart the numbers of a panel lie is its caller's affair.
    panels = [np.ascontiguousarray(B) for B in panels]
    found = [np.empty((len(K), B.shape[1])) for B in panels]
    for rows in row_blocks(len(K), _STRIP_ROWS):
        for product, B in zip(found, panels, strict=True):
            product[rows] = K[rows] @ B
    return found


def chunked_dual_path(data: KernelPasses, S: Array, *, ridge: float, iterations: int) -> DualPath:
    """Return the path of `nystroem_path` as combinations of rows, K read in passes.

    K is only read, updates stay factored: K_i c = K c - F (Fᵀ c). An iteration reads the landmarks'
    columns twice and K once, for all sensitive columns together. It forgoes what the feature space
    does for accuracy where K is singular.

    Parameters
    ----------
    data
        The kernel matrix of the training rows, the landmarks among them.
    S
        Sensitive columns (n, l).
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    """
    n, l = S.shape
    room = np.empty((n, min(n, whole("iterations", iterations, low=0) * l)), order="F")
    left = DualRemainder(data, room)
    ends, exhausted = take_out_all(left, S, ridge=ridge, iterations=iterations)
    return DualPath(left.A[:, : left.w], left.F[:, : left.w], ends, exhausted or left.w == n)


def nystroem_dual_path(
    K: Array, S: Array, *, ridge: float, iterations: int, landmarks: IntArray
) -> DualPath:
    """Return the path of `chunked_dual_path` on a kernel matrix that is at hand, only read."""
    data = KernelRows(Kernel("precomputed"), K, landmarks)
    return chunked_dual_path(data, S, ridge=ridge, iterations=iterations)


class DualRemainder:
    """What is left of K, with directions A as combinations of rows, F = K A."""

    def __init__(self, data: KernelPasses, room: Array) -> None:
        self.data = data
        self.A, self.F, self.w = room, np.empty_like(room, order="F"), 0

    def landmark_system(self, S: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of what is left."""
        return self.data.landmark_system(S, self.F[:, : self.w])

    def landmark_product(self, z: Array) -> Array:
        """Return K_nq z of what is left."""
        (product,) = self.data.landmark_products([z], self.F[:, : self.w])
        return product

    def take_out(self, B: Array) -> int:
        """Return how many columns of B were new; their images K B joined F = K A."""
        (images,) = self.data.products([B])
        before, self.w = self.w, _extend(self.A, self.F, self.w, B, images)
        return self.w - before


def _extend(A: Array, F: Array, w: int, B: Array, images: Array) -> int:
    """Return the new width after the columns of B joined A, their images K B joined F = K A."""
    for b, u in zip(B.T, images.T, strict=True):
        before = np.sqrt(max(b @ u, 0.0))
        for _ in range(2):
            # Fᵀ b is Aᵀ K b, hence b becomes K-orthogonal to A while u stays K b.
            c = F[:, :w].T @ b
            b, u = b - A[:, :w] @ c, u - F[:, :w] @ c
        left = np.sqrt(max(b @ u, 0.0))
        if left > DEFLATION * before and w < A.shape[1]:
            A[:, w], F[:, w] = b / left, u / left
            w += 1
    return w


# Residuals relative to the right-hand side. The first is what is asked for; rounding may keep the
# true residual above it where a system is nearly singular, but never above the second unnoticed.
TOLERANCE = 1e-10
LARGEST_RESIDUAL = 1e-7
# Passes over the matrix; preconditioned, a census takes some dozens.
BUDGET = 2000

# From the numbers of some systems with one panel (n, w) of each: a panel of each.
Operator = Callable[[Sequence[int], Sequence[Array]], Sequence[Array]]


def solve_systems(
    apply: Operator,
    B: Sequence[Array],
    *,
    precondition: Operator,
    names: Sequence[str],
    budget: int = BUDGET,
) -> list[Array]:
    """Return X_i with A_i X_i = B_i of every positive definite system i.

    Systems share the passes in which `apply` multiplies; a system that has reached `TOLERANCE`
    takes no further part. Its numbers depend on no other system.

    Parameters
    ----------
    apply
        Returns A_i P_i of the systems that are named.
    B
        Right-hand sides, a panel (n, w) of each system; columns of a panel are solved each for
        itself.
    precondition
        Returns M_i R_i, M_i positive definite, close to the inverse of A_i.
    names
        What a system is called where it cannot be solved.
    budget
        Passes after which that is so.
    """
    runs = [_Run(b) for b in B]
    active = [i for i, run in enumerate(runs) if not run.converged]
    passes = 0
    while active:
        if passes == budget:
            worst = max(active, key=lambda i: runs[i].residual)
            raise ValueError(_unsolved(names[worst], runs[worst].residual, budget))
        for i, Z in zip(active, precondition(active, [runs[i].R for i in active]), strict=True):
            runs[i].turn(Z)
        for i, AP in zip(active, apply(active, [runs[i].P for i in active]), strict=True):
            runs[i].step(AP)
        passes += 1
        active = [i for i in active if not runs[i].converged]
    found = [run.X for run in runs]
    images = apply(range(len(B)), found)
    for name, b, AX in zip(names, B, images, strict=True):
        residual = _relative(b - AX, b).max()
        if not residual <= LARGEST_RESIDUAL:
            raise ValueError(_unsolved(name, residual, passes))
    return found


def _unsolved(name: str, residual: float, passes: int) -> str:
    """Return the sentence on a system that was not solved."""
    return (
        f"conjugate gradients must leave at most {TOLERANCE:g} of the right-hand side (rounding "
        f"apart), got {residual:.1e} after {passes} passes for {name}; use a larger "
        "ridge, or more landmarks"
    )


def _relative(R: Array, B: Array) -> Array:
    """Return the norm of each column of R in units of that of B, 0 for what has no length."""
    norms = np.linalg.norm(B, axis=0)
    return np.asarray(np.linalg.norm(R, axis=0) / np.where(norms > 0, norms, 1.0))


class _Run:
    """One system on its way: solution so far, residual, direction of search."""

    def __init__(self, B: Array) -> None:
        self.B, self.X, self.R = B, np.zeros_like(B), B.copy()
        self.P, self.rz = np.zeros_like(B), np.ones(B.shape[1])
        self._look()

    def _look(self) -> None:
        """Note which columns are not solved yet."""
        relative = _relative(self.R, self.B)
        self.residual = float(relative.max())
        # NaN is not solved either: it ends the budget, hence is named.
        self.open = ~(relative <= TOLERANCE)
        self.converged = not self.open.any()

    def turn(self, Z: Array) -> None:
        """Take the next direction from the preconditioned residual."""
        rz = np.einsum("ij,ij->j", self.R, Z)
        self.P = Z + self.P * (rz / self.rz)
        # A solved column rests: its numbers would soon be rounding errors of zero.
        self.P[:, ~self.open] = 0.0
        self.rz = np.where(self.open, rz, 1.0)

    def step(self, AP: Array) -> None:
        """Go along the direction to the least residual."""
        curvature = np.einsum("ij,ij->j", self.P, AP)
        length = np.where(self.open, self.rz, 0.0) / np.where(self.open, curvature, 1.0)
        self.X += self.P * length
        self.R -= AP * length
        self._look()


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


@dataclass(frozen=True)
class DualWeights:
    """f(x) = k(x, X)·coef + intercept."""

    coef: Array  # (n,)
    intercept: float


@dataclass(frozen=True)
class DualRidge:
    """One setting of ridge regression: iterations of the removal, ridge, a constant or none."""

    iterations: int
    alpha: float
    fit_intercept: bool = False

    def __str__(self) -> str:
        """Return what a setting is called where it cannot be solved."""
        return f"alpha={self.alpha:g} (iterations={self.iterations})"


def dual_ridge(
    K: KernelPasses,
    path: DualPath,
    y: Array,
    settings: Sequence[DualRidge],
    *,
    budget: int = BUDGET,
) -> list[DualWeights]:
    """Return the weights of each setting, (K_m + alpha·I)⁻¹ y as an expansion on the rows of K.

    By conjugate gradients with the landmarks' own inverse as preconditioner. A pass over K serves
    all settings; none of them changes another one's numbers.

    Parameters
    ----------
    K
        The kernel matrix of the training rows.
    path
        What was removed from it, at least as long as any setting asks for.
    y
        Target, (n,).
    settings
        What is wanted; a constant is fitted unpenalised.
    budget
        Passes over K after which a setting counts as unsolvable.
    """
    for p in settings:
        positive("alpha", p.alpha)
    heads = [path.head(p.iterations) for p in settings]
    features = LandmarkFeatures.of(K, len(y))
    removed = features.removed(path)
    inverses = [
        LandmarkInverse(features.lam, removed[: len(head.ends) - 1], p.alpha)
        for p, head in zip(settings, heads, strict=True)
    ]

    def apply(which: Sequence[int], panels: Sequence[Array]) -> list[Array]:
        parts = zip(which, panels, K.products(panels), strict=True)
        return [KP - heads[i].F @ (heads[i].F.T @ P) + settings[i].alpha * P for i, P, KP in parts]

    ones = np.ones_like(y)
    solved = solve_systems(
        apply,
        [np.column_stack([y, ones] if p.fit_intercept else [y]) for p in settings],
        precondition=lambda which, R: precondition(features, [inverses[i] for i in which], R),
        names=[str(p) for p in settings],
        budget=budget,
    )
    return [_weights(head, X) for head, X in zip(heads, solved, strict=True)]


def _weights(path: DualPath, X: Array) -> DualWeights:
    """Return the expansion of a solution; its second column is the constant's."""
    beta, intercept = X[:, 0], 0.0
    if X.shape[1] > 1:
        # The constant is free: what is left over must have the mean zero.
        intercept = float(X[:, 0].sum(axis=0) / X[:, 1].sum(axis=0))
        beta = X[:, 0] - intercept * X[:, 1]
    return DualWeights(beta - path.A @ (path.F.T @ beta), intercept)
