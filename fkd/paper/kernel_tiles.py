"""The printed Nystroem-inverse algorithm on a kernel matrix that is never held whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.kernels import Kernel
from fkd.core.linalg import DEFLATION
from fkd.core.validation import whole
from fkd.paper.nystroem_removal import DualPath, take_out_all

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
