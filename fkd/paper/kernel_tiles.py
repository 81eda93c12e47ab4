"""The printed Nystroem-inverse algorithm on a kernel matrix that is never held whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from fkd.core.arrays import Array, IntArray, row_blocks
from fkd.core.kernels import Kernel
from fkd.core.linalg import DEFLATION
from fkd.core.parameters import whole
from fkd.paper.nystroem_removal import DualPath, take_out_all

# Rows of a kernel block: 2048 x 2048 numbers are 34 MB, large enough for BLAS.
TILE_ROWS = 2048


@dataclass(frozen=True)
class KernelRows:
    """Training rows whose kernel matrix K is made block by block, whenever it is read."""

    kernel: Kernel
    X: Array  # (n, d)
    landmarks: IntArray  # (q,)

    def block(self, rows: slice | IntArray, columns: slice | IntArray) -> Array:
        """Return these rows and columns of K; of a matrix that is at hand, without a copy."""
        if self.kernel.name == "precomputed":
            return self.X[rows][:, columns]
        return np.asarray(self.kernel(self.X[rows], self.X[columns]))

    def landmark_block(self, rows: slice, F: Array, F_q: Array) -> Array:
        """Return rows of the landmarks' columns of K - F Fᵀ."""
        return np.asarray(self.block(rows, self.landmarks) - F @ F_q.T)

    def landmark_gram(self, F_q: Array) -> Array:
        """Return K_qq - F_q F_qᵀ."""
        return np.asarray(self.block(self.landmarks, self.landmarks) - F_q @ F_q.T)


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
        part[above] += data.block(above, above) @ B[above]
        for left in range(above.stop, len(B), TILE_ROWS):
            columns = slice(left, min(left + TILE_ROWS, len(B)))
            K = data.block(above, columns)
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
    """Return the path of `nystroem_path` as combinations of rows, in O(n q) memory, K in blocks.

    K is only read, updates stay factored: K_i c = K c - F (Fᵀ c). An iteration reads the landmarks'
    columns twice and K once, for all sensitive columns together. It forgoes what the feature space
    does for accuracy where K is singular.

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
    n, l = S.shape
    blocks = list(row_blocks(n, whole("block_rows", block_rows, low=1)))
    room = np.empty((n, min(n, whole("iterations", iterations, low=0) * l)), order="F")
    left = TileRemainder(data, execute or in_process(data), blocks, room)
    take_out_all(left, S, ridge=ridge, iterations=iterations)
    return DualPath(left.A[:, : left.w], left.F[:, : left.w])


def nystroem_dual_path(
    K: Array, S: Array, *, ridge: float, iterations: int, landmarks: IntArray
) -> DualPath:
    """Return the path of `chunked_dual_path` on a kernel matrix that is at hand, only read."""
    data = KernelRows(Kernel("precomputed"), K, landmarks)
    return chunked_dual_path(data, S, ridge=ridge, iterations=iterations)


class TileRemainder:
    """What is left of K, with directions A as combinations of rows, F = K A."""

    def __init__(
        self, data: KernelRows, execute: Execute, blocks: list[slice], room: Array
    ) -> None:
        self.data, self.execute, self.blocks = data, execute, blocks
        self.A, self.F, self.w = room, np.empty_like(room, order="F"), 0

    def landmark_system(self, S: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of what is left."""
        F = self.F[:, : self.w]
        F_q = F[self.data.landmarks]
        parts = self.execute(
            [partial(landmark_sums, rows=r, S=S[r], F=F[r], F_q=F_q) for r in self.blocks]
        )
        C_q, b_q = (reduce(add, (part[i] for part in parts)) for i in (0, 1))
        return self.data.landmark_gram(F_q), C_q, b_q

    def landmark_product(self, z: Array) -> Array:
        """Return K_nq z of what is left."""
        F = self.F[:, : self.w]
        F_q = F[self.data.landmarks]
        calls = [partial(landmark_product, rows=r, z=z, F=F[r], F_q=F_q) for r in self.blocks]
        return np.concatenate(self.execute(calls))

    def take_out(self, B: Array) -> int:
        """Return how many columns of B were new; their images K B joined F = K A."""
        parts = self.execute([partial(product_part, rows=rows, B=B) for rows in self.blocks])
        before, self.w = self.w, _extend(self.A, self.F, self.w, B, reduce(add, parts))
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
