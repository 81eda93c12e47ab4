"""A split's kernel matrix on the cluster, from rows that workers read in the prepared table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dask.array as da
import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.kernels import Kernel
from fkd.methods import method
from fkd.methods.paper_methods import WHOLE_ROWS
from fkd.problems.encoder import Encoder
from tasks.adapters.graphs import task_array
from tasks.adapters.store import digest
from tasks.adapters.workers import cluster_memory
from tasks.blocks.array_passes import Compute, KernelArrays
from tasks.blocks.kernel_arrays import (
    CHUNK_ROWS,
    chunk_bytes,
    is_kept,
    keep_what_fits,
    kernel_array,
)
from tasks.blocks.shared_map import encoder_of
from tasks.planned.folds import Fold
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs, Job, check_versions


def is_chunked(job: Job) -> bool:
    """Return whether a job's kernel matrix lies on the cluster in chunks, which its rows decide."""
    if not all(method(trial.method).in_passes for trial in job.trials):
        return False
    return len(_fold(SplitRows(job.inputs, job.split)).train) > WHOLE_ROWS


@dataclass(frozen=True)
class SplitRows:
    """Which rows are meant: the training rows of a split, in the prepared table."""

    inputs: Inputs
    split: str


def cluster_passes(
    client: Any, rows: SplitRows, compute: Compute, tell: Callable[[str], None]
) -> Callable[[float, IntArray], KernelArrays]:
    """Return how to get the RBF kernel matrix of some rows as arrays of a cluster.

    Parameters
    ----------
    client, compute
        Of the cluster; what computes an array there.
    rows
        Training rows of a split.
    tell
        Hears what is kept, what is made again.
    """

    def passes(gamma: float, landmarks: IntArray) -> KernelArrays:
        kernel, threads = Kernel("rbf", gamma), rows.inputs.blas_threads
        size, memory = CHUNK_ROWS, cluster_memory(client)
        X = rows_array(rows, np.arange(len(_fold(rows).train)), size)
        Z = rows_array(rows, landmarks, len(landmarks))
        K = kernel_array(kernel, X, chunks=size, threads=threads)
        K_nq = kernel_array(kernel, X, Z, chunks=(size, len(landmarks)), threads=threads)
        # The columns of the landmarks are read twice as often.
        K_nq, K = keep_what_fits(client, [K_nq, K], memory)
        tell(_told(K, memory))
        return KernelArrays(K, K_nq, landmarks, compute, threads)

    return passes


def rows_array(rows: SplitRows, chosen: IntArray, size: int) -> da.Array:
    """Return encoded training rows of these numbers as a Dask array, `size` of them in a block."""
    name = f"rows-{_identity(rows, chosen)}"
    blocks = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    layer: dict[Any, Any] = {
        (name, i, 0): (encoded_rows, rows, block) for i, block in enumerate(blocks)
    }
    width = encoded_rows(rows, chosen[:1]).shape[1]
    return task_array(name, layer, [], (tuple(map(len, blocks)), (width,)))


def encoded_rows(rows: SplitRows, chosen: IntArray) -> Array:
    """Return training rows of these numbers as arrays, read by whoever needs them."""
    check_versions((), rows.inputs)
    table = cached_table(rows.inputs.settings, rows.inputs.table_digest)
    return _encoder(rows).transform(table.take(_fold(rows).train[chosen]))


@lru_cache(maxsize=2)
def _encoder(rows: SplitRows) -> Encoder:
    """Return the encoder of a split, learnt once per worker."""
    table = cached_table(rows.inputs.settings, rows.inputs.table_digest)
    return encoder_of(table.take(_fold(rows).train), rows.inputs)


def _fold(rows: SplitRows) -> Fold:
    """Return the split itself."""
    table = cached_table(rows.inputs.settings, rows.inputs.table_digest)
    return rows.inputs.splits.all(table)[rows.split]


def _identity(rows: SplitRows, chosen: IntArray) -> str:
    """Return the digest of all that decides some encoded rows."""
    identity = {
        **rows.inputs.identity(),
        "rows": _fold(rows).digest,
        "chosen": [int(i) for i in chosen],
    }
    return digest(identity)


def _told(K: da.Array, memory: int | None) -> str:
    """Return a sentence on what becomes of the chunks of K."""
    n, count = K.shape[0], K.numblocks[0]
    size = f"kernel matrix of {n} rows in {count} x {count} chunks, {_gib(chunk_bytes(K))} to make"
    if is_kept(K):
        return f"{size}: kept on the workers, which have {_gib(memory or 0)}"
    limit = "no limit is known" if memory is None else f"they have {_gib(memory)}"
    return f"{size}: too much to be kept on the workers ({limit}), made again in every pass"


def _gib(size: float) -> str:
    """Return a size in words."""
    return f"{size / 2**30:.2f} GiB"
