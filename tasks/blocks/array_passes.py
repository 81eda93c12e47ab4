"""Passes over a kernel matrix whose chunks are Dask arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.paper.algorithm2 import panel_products
from tasks.adapters.blas import blas_threads
from tasks.adapters.graphs import task_array
from tasks.blocks.kernel_arrays import aligned

# Computes an array on the cluster.
Compute = Callable[[da.Array], AnyArray]


@dataclass(frozen=True)
class KernelArrays:
    """A kernel matrix as `fkd.paper.algorithm2.KernelPasses` on a cluster, chunk by chunk.

    Parts are added in the order of the chunks, whoever computed them: neither the number of
    workers nor the loss of one changes a bit.
    """

    K: da.Array  # (n, n)
    K_nq: da.Array  # (n, q), one chunk wide
    landmarks: IntArray  # (q,)
    compute: Compute
    threads: int = 1  # of BLAS, in a task

    @cached_property
    def _K_qq(self) -> Array:
        return np.asarray(self.compute(self.K_nq[self.landmarks]), dtype=np.float64)

    def landmark_system(self, S: Array, F: Array) -> tuple[Array, Array, Array]:
        """Return K_qq, K_qn K_nq, K_qn S of K - F Fᵀ."""
        q, l, F_q = len(self.landmarks), S.shape[1], F[self.landmarks]
        sums = self._by_rows(partial(_system, self.threads), [S, F], F_q, (1, q, q + l))
        found = self.compute(sums.sum(axis=0))
        return self._K_qq - F_q @ F_q.T, found[:, :q], found[:, q:]

    def landmark_products(self, panels: Sequence[Array], F: Array) -> list[Array]:
        """Return K_nq z of K - F Fᵀ, of each z."""
        widths = _widths(panels)
        beside = np.hstack([*panels, F[self.landmarks]])
        make = partial(_landmark_products, self.threads, widths)
        found = self.compute(self._by_rows(make, [F], beside, (0, sum(widths))))
        return _split(found, widths)

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K, of each R."""
        widths = _widths(panels)
        if not widths:
            return []
        make = partial(_landmark_adjoints, self.threads, widths)
        shape = (1, len(self.landmarks), sum(widths))
        sums = self._by_rows(make, [np.hstack(panels)], np.empty(0), shape)
        return _split(self.compute(sums.sum(axis=0)), widths)

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B of each B."""
        widths = _widths(panels)
        # Not named by its content: that would have to be digested in every pass.
        V = da.from_array(np.hstack(panels), chunks=(self.K.chunks[1], -1), name=False)
        parts = da.blockwise(
            partial(_products, self.threads, widths),
            "ikp",
            self.K,
            "ik",
            V,
            "kp",
            adjust_chunks={"k": 1},
            dtype=np.float64,
            meta=np.empty((0, 0, 0)),
        )
        return _split(self.compute(parts.sum(axis=1)), widths)

    def _by_rows(
        self,
        make: Callable[..., Array],
        columns: Sequence[Array],
        beside: Array,
        shape: tuple[int, ...],
    ) -> da.Array:
        """Return ``make(K_nq, *columns, beside)`` of each block of rows, one below the other.

        `shape` is that of one part; its first length is 0 where it is the number of rows.
        """
        name, shared = f"landmarks-{uuid4().hex}", f"beside-{uuid4().hex}"
        heights, rest = self.K_nq.chunks[0], (0,) * (len(shape) - 1)
        layer: dict[Any, Any] = {shared: beside}
        start = 0
        for i, height in enumerate(heights):
            parts = [np.ascontiguousarray(part[start : start + height]) for part in columns]
            layer[(name, i, *rest)] = (make, (self.K_nq.name, i, 0), *parts, shared)
            start += height
        first = (shape[0],) * len(heights) if shape[0] else heights
        chunks = (first, *((size,) for size in shape[1:]))
        return task_array(name, layer, [self.K_nq], chunks)


def _widths(panels: Sequence[Array]) -> list[int]:
    """Return the columns of each panel."""
    return [panel.shape[1] for panel in panels]


def _split(found: AnyArray, widths: Sequence[int]) -> list[Array]:
    """Return the panels of one array."""
    return np.split(found, np.cumsum(widths)[:-1], axis=1)


def _products(threads: int, widths: Sequence[int], K: AnyArray, V: Array) -> Array:
    """Return what one chunk adds to the products, (rows, 1, columns)."""
    K, V = aligned(K, V)
    with blas_threads(threads):
        return np.hstack(panel_products(K, _split(V, widths)))[:, None, :]


def _system(threads: int, K_nq: AnyArray, S: Array, F: Array, F_q: Array) -> Array:
    """Return what some rows add to K_qn K_nq beside K_qn S, of K - F Fᵀ."""
    K_nq, S, F, F_q = aligned(K_nq, S, F, F_q)
    with blas_threads(threads):
        left = K_nq - F @ F_q.T
        return np.hstack([left.T @ left, left.T @ S])[None]


def _landmark_products(
    threads: int, widths: Sequence[int], K_nq: AnyArray, F: Array, beside: Array
) -> Array:
    """Return some rows of K_nq z, of K - F Fᵀ."""
    K_nq, F, beside = aligned(K_nq, F, beside)
    *panels, F_q = _split(beside, [*widths, F.shape[1]])
    with blas_threads(threads):
        return np.hstack(panel_products(K_nq - F @ F_q.T, panels))


def _landmark_adjoints(
    threads: int, widths: Sequence[int], K_nq: AnyArray, R: Array, _: Array
) -> Array:
    """Return what some rows add to K_qn R."""
    K_nq, R = aligned(K_nq, R)
    with blas_threads(threads):
        return np.hstack(panel_products(K_nq.T, _split(R, widths)))[None]
