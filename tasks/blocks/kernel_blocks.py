"""The printed Nystroem-inverse algorithm with its kernel matrix in blocks on the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fkd.core.arrays import Array
from fkd.core.kernels import Kernel
from fkd.core.parameters import positive, whole
from fkd.paper.kernel_tiles import TILE_ROWS, Call, KernelRows, chunked_dual_path
from fkd.paper.nystroem_removal import DualPath
from tasks.adapters.blas import blas_threads
from tasks.blocks.runner import RunBlocks
from tasks.planned.rows import cached_table
from tasks.planned.training import make_training
from tasks.planned.trials import Inputs


@dataclass(frozen=True)
class KernelSource:
    """Which kernel matrix is meant: that of a split's training rows, from the table on disk."""

    inputs: Inputs
    split: str
    gamma: float
    landmarks: int  # drawn uniformly, the same in every iteration


@dataclass(frozen=True, eq=False)
class Piece:
    """What one task computes of a pass over the kernel matrix."""

    source: KernelSource
    call: Call
    position: int


@lru_cache(maxsize=1)
def kernel_rows(source: KernelSource) -> tuple[KernelRows, Array]:
    """Return the rows whose kernel it is with their sensitive columns, encoded once per worker."""
    inputs = source.inputs
    table = cached_table(inputs.settings, inputs.table_digest)
    training, _ = make_training(table, inputs.splits.all(table)[source.split], inputs)
    n = len(training.X)
    q = whole("landmarks", source.landmarks, low=1, high=n)
    landmarks = np.sort(np.random.default_rng(source.inputs.seed).choice(n, q, replace=False))
    kernel = Kernel("rbf", positive("gamma", source.gamma))
    return KernelRows(kernel, training.X, landmarks), training.S


def compute_piece(piece: Piece) -> Any:
    """Return what one task adds; the blocks that it reads are made anew."""
    data, _ = kernel_rows(piece.source)
    with blas_threads(piece.source.inputs.blas_threads):
        return piece.call(data)


def literal_path(
    run: RunBlocks,
    source: KernelSource,
    *,
    ridge: float,
    iterations: int,
    block_rows: int = TILE_ROWS,
) -> DualPath:
    """Return the path of Algorithm 1 with Algorithm 2's inverse, K never held whole.

    Every block is made by a task from the prepared table: a lost worker costs the task it had.

    Parameters
    ----------
    run
        ``run(function, jobs, keep)`` computes jobs on the cluster, calling ``keep(job, result)``
        for each; it returns those that failed.
    source
        Rows, kernel, landmarks.
    ridge, iterations
        As in `fkd.core.removal_path.removal_path`.
    block_rows
        Rows per task.
    """
    data, S = kernel_rows(source)

    def execute(calls: Sequence[Call]) -> list[Any]:
        results: dict[int, Any] = {}
        pieces = [Piece(source, call, i) for i, call in enumerate(calls)]
        failed = run(compute_piece, pieces, lambda p, value: results.update({p.position: value}))
        if failed:
            raise RuntimeError(
                f"{len(failed)} of {len(pieces)} kernel blocks gave no result: {failed[0].cause}"
            )
        return [results[i] for i in range(len(pieces))]

    with blas_threads(source.inputs.blas_threads):
        return chunked_dual_path(
            data, S, ridge=ridge, iterations=iterations, execute=execute, block_rows=block_rows
        )
