"""The printed Nystroem-inverse algorithm on a kernel matrix that is never held whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from fkd.core.arrays import Array, IntArray, row_blocks
from fkd.core.checks import positive, whole
from fkd.core.kernels import Kernel
from fkd.core.linalg import DEFLATION
from fkd.paper.printed import DualPath, nystroem_weights

# Rows of a kernel block: 2048 x 2048 numbers are 34 MB, large enough for BLAS.
TILE_ROWS = 2048


@dataclass(frozen=True)
class KernelRows:
    """Training rows whose kernel matrix K is made block by block, whenever it is read."""

    kernel: Kernel
    X: Array  # (n, d)
    landmarks: IntArray  # (q,)

    def landmark_block(self, rows: slice, F: Array, F_q: Array) -> Array:
        """Return rows of the landmarks' columns of K - F Fᵀ."""
        K_nq = self.kernel(self.X[rows], self.X[self.landmarks])
        return np.asarray(K_nq - F @ F_q.T)

    def landmark_gram(self, F_q: Array) -> Array:
        """Return K_qq - F_q F_qᵀ."""
        X_q = self.X[self.landmarks]
        return np.asarray(self.kernel(X_q, X_q) - F_q @ F_q.T)


# A piece of a pass over the kernel matrix; whoever holds the rows calls it.
Call = Callable[[KernelRows], Any]
# Runs the pieces of a pass anywhere, returns their results in the given order.
Execute = Callable[[Sequence[Call]], list[Any]]


def landmark_sums(
    data: KernelRows, *, rows: slice, S: Array, F: Array, F_q: Array
) -> tuple[Array, Array]:
    """Return what some rows add to K_qn K_nq with K_qn S, of K - F Fᵀ."""
    K_nq = data.landmark_block(rows, F, F_q)
    return K_nq.T @ K_nq, K_nq.T @ S


def landmark_product(data: KernelRows, *, rows: slice, z: Array, F: Array, F_q: Array) -> Array:
    """Return some rows of K_nq z, of K - F Fᵀ."""
    return data.landmark_block(rows, F, F_q) @ z


def product_part(data: KernelRows, *, rows: slice, B: Array) -> Array:
    """Return what the blocks of some rows from the diagonal on add to K B, (n, l).

    A block right of the diagonal also stands, transposed, for the one below it: all rows together
    make every pair once.
    """
    part = np.zeros(B.shape)
    for start in range(rows.start, rows.stop, TILE_ROWS):
        above = slice(start, min(start + TILE_ROWS, rows.stop))
        part[above] += data.kernel(data.X[above], data.X[above]) @ B[above]
        for left in range(above.stop, len(B), TILE_ROWS):
            columns = slice(left, min(left + TILE_ROWS, len(B)))
            K = data.kernel(data.X[above], data.X[columns])
            part[above] += K @ B[columns]
            part[columns] += K.T @ B[above]
    return part


def in_process(data: KernelRows) -> Execute:
    """Return an executor that works here, one piece after another."""
    return lambda calls: [call(data) for call in calls]


def chunked_dual_path(
    data: KernelRows,
    S: Array,
    *,
    ridge: float,
    iterations: int,
    execute: Execute | None = None,
    block_rows: int = TILE_ROWS,
) -> DualPath:
    """Return the path of `fkd.paper.printed.nystroem_dual_path` in O(n q) memory, K in blocks.

    K is only read, updates stay factored: K_i c = K c - F (Fᵀ c). An iteration reads the landmarks'
    columns twice and K once, for all sensitive columns together.

    Parameters
    ----------
    data
        Training rows with their kernel, the landmarks among them.
    S
        Sensitive columns (n, l).
    ridge, iterations
        As in `fkd.core.removal_path.removal_path`.
    execute
        Where the pieces of a pass are computed; in this process by default.
    block_rows
        Rows per piece. Results for other sizes differ by rounding.
    """
    positive("ridge", ridge)
    execute = execute or in_process(data)
    n, l = S.shape
    blocks = list(row_blocks(n, whole("block_rows", block_rows, low=1)))
    A = np.empty((n, min(n, whole("iterations", iterations, low=0) * l)), order="F")
    F = np.empty_like(A, order="F")
    w = 0
    for _ in range(iterations):
        B = _inverse_product(data, execute, blocks, S, F[:, :w], ridge)
        parts = execute([partial(product_part, rows=rows, B=B) for rows in blocks])
        before, w = w, _extend(A, F, w, B, reduce(add, parts))
        if w == before:
            break
    return DualPath(A[:, :w], F[:, :w])


def _inverse_product(
    data: KernelRows, execute: Execute, blocks: list[slice], S: Array, F: Array, ridge: float
) -> Array:
    """Return Algorithm 2's approximate (K_i + ridge·I)⁻¹ S, where K_i = K - F Fᵀ."""
    F_q = F[data.landmarks]
    sums = execute(
        [partial(landmark_sums, rows=r, S=S[r], F=F[r], F_q=F_q) for r in blocks],
    )
    C_q = reduce(add, (part[0] for part in sums))
    b_q = reduce(add, (part[1] for part in sums))
    z = nystroem_weights(data.landmark_gram(F_q), C_q, b_q, ridge=ridge)
    product = execute([partial(landmark_product, rows=r, z=z, F=F[r], F_q=F_q) for r in blocks])
    return S / ridge - np.concatenate(product) / ridge**2


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
