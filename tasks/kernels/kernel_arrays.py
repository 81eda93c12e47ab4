"""Kernel matrices as Dask arrays in chunks, and passes over them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from scipy.sparse import csr_array

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.kernels import Kernel, KernelColumns
from fkd.core.validation import whole
from fkd.methods import method
from fkd.methods.paper_methods import WHOLE_ROWS
from fkd.paper.algorithm2 import panel_products
from fkd.problems.encoder import Encoder
from tasks.cluster.workers import WorkerMonitor, check_connected, cluster_memory
from tasks.kernels.shared_map import encoder_of
from tasks.plan.splits import Fold
from tasks.plan.training import make_training
from tasks.plan.trials import Inputs, Job, check_versions
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest

_LOOK_SECONDS = 5.0


def task_array(
    name: str,
    layer: Mapping[Any, Any],
    sources: Sequence[Any],
    chunks: tuple[tuple[int, ...], ...],
    dtype: Any = float,
) -> da.Array:
    """Return an array whose chunks are the tasks of a layer on top of other arrays."""
    return da.Array(HighLevelGraph.from_collections(name, layer, sources), name, chunks, dtype)


def compute_array(
    client: Any,
    array: Any,
    *,
    retries: int,
    time_limit: float,
    log: Callable[[str], None] = lambda message: None,
) -> Any:
    """Return the values of a Dask array.

    A task whose worker died, or that met a passing fault, is repeated by Dask at most `retries`
    times, together with the chunks that worker held. An array that takes longer than `time_limit`
    seconds is cancelled. `log` receives messages about missing workers.
    """
    monitor, start, landed = WorkerMonitor(client, log), time.monotonic(), threading.Event()
    future = client.compute(array, retries=retries)
    future.add_done_callback(lambda _: landed.set())
    while not landed.wait(_LOOK_SECONDS):
        check_connected(client)
        monitor.check()
        if time.monotonic() - start > time_limit:
            future.cancel(force=True)
            limit = f"cluster.time_limit ({time_limit:g} s)"
            raise TimeoutError(f"a pass over the kernel matrix ran longer than {limit}")
    if future.status != "finished":
        check_connected(client)
    return future.result()


# Rows of a chunk: 4096 x 4096 numbers are 134 MB, of which a pass makes one product each.
CHUNK_ROWS = 4096
# Chunks are kept on the workers if they take at most this share of their memory. Others are
# computed again in each pass. The share is below Dask's target (0.6), above which a worker spills
# to disk, because the chunks of a lost worker are added to those of the others.
KEPT_SHARE = 0.5
# Rows with fewer nonzero values than 1 in this number are multiplied as sparse arrays.
_MOSTLY_ZEROS = 8
_MIRROR = "mirrored-"


def kernel_array(
    kernel: Kernel,
    X: Any,
    Z: Any = None,
    *,
    chunks: int | tuple[int, int] = CHUNK_ROWS,
    dtype: Any = np.float64,
    threads: int = 1,
) -> da.Array:
    """Return the kernel matrix k(x_i, z_j) as a Dask array; without Z, that of X with itself.

    A chunk is a task. Its key is the digest of rows and kernel, so that the same matrix has the
    same keys wherever it is built. Chunks below the diagonal of a symmetric matrix are transposes.

    Parameters
    ----------
    kernel
        Any but a precomputed one.
    X, Z
        Rows (n, d) and (q, d), as numpy arrays, which become part of the graph, or as Dask arrays,
        whose blocks are computed on the workers.
    chunks
        Rows and columns of a chunk, as one number or, with Z, as a pair.
    dtype
        Of the values, float64 or float32.
    threads
        BLAS threads of a task.
    """
    if kernel.name == "precomputed":
        raise ValueError(
            "kernel must be computed from rows, got 'precomputed'. Use dask.array.from_array for a "
            "matrix"
        )
    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")
    heights, widths = chunks if isinstance(chunks, tuple) else (chunks, chunks)
    if Z is None and heights != widths:
        raise ValueError(f"chunks of a symmetric matrix must be square, got {chunks}")
    A = _rows(X, heights)
    B = A if Z is None else _rows(Z, widths)
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"Z must have as many columns as X ({A.shape[1]}), got {B.shape[1]}; encode both alike"
        )
    single = np.dtype(dtype) == np.dtype(np.float32)
    make = partial(_chunk, kernel, single, whole("threads", threads, low=1))
    name = f"kernel-{tokenize(kernel, A.name, B.name, single, threads)}"
    made: dict[Any, Any] = {
        (name, i, j): (make, (A.name, i, 0), (B.name, j, 0))
        for i in range(A.numblocks[0])
        for j in range(i if Z is None else 0, B.numblocks[0])
    }
    K = task_array(name, made, [A, B], (A.chunks[0], B.chunks[0]), dtype)
    return K if Z is not None else _mirrored(K)


def keep_what_fits(client: Any, arrays: Sequence[da.Array], memory: int | None) -> list[da.Array]:
    """Return kernel arrays; start to compute those that fit into the workers' memory.

    Parameters
    ----------
    client
        Of the cluster.
    arrays
        Results of `kernel_array`, in order of priority.
    memory
        Sum of the workers' memory limits in bytes. Without limits nothing is kept.
    """
    room, found = KEPT_SHARE * (memory or 0), []
    for K in arrays:
        fits = chunk_bytes(K) <= room
        room -= chunk_bytes(K) if fits else 0
        found.append(_kept(client, K) if fits else K)
    return found


def is_kept(K: da.Array) -> bool:
    """Return True if the chunks of a kernel array are kept on the workers."""
    return not K.dask.dependencies[_made_name(K)]


def chunk_bytes(K: da.Array) -> int:
    """Return the bytes of the computed chunks, without transposes."""
    heights, widths = K.chunks
    entries = sum(heights[i] * widths[j] for _, i, j in K.dask.layers[_made_name(K)])
    return int(entries * K.dtype.itemsize)


def _kept(client: Any, K: da.Array) -> da.Array:
    """Return the array on top of futures of its chunks."""
    name = _made_name(K)
    keys = list(K.dask.layers[name])
    futures = client.get(K.dask, keys, sync=False)
    made = task_array(name, dict(zip(keys, futures, strict=True)), [], K.chunks, K.dtype)
    return made if name == K.name else _mirrored(made)


def _made_name(K: da.Array) -> str:
    """Return the name of the layer with the computed chunks of a kernel array."""
    return str(K.name.removeprefix(_MIRROR))


def _mirrored(K: da.Array) -> da.Array:
    """Return an array with the missing chunks below the diagonal as transposes."""
    count, mirror = K.numblocks[0], _MIRROR + K.name
    layer: dict[Any, Any] = {
        (mirror, i, j): (K.name, i, j) if i <= j else (np.transpose, (K.name, j, i))
        for i in range(count)
        for j in range(count)
    }
    return task_array(mirror, layer, [K], K.chunks, K.dtype)


def _rows(X: Any, size: int) -> da.Array:
    """Return rows as a Dask array with blocks of `size` rows."""
    size = whole("chunks", size, low=1)
    if isinstance(X, da.Array):
        found: da.Array = X.rechunk((size, -1))
        return found
    A = np.asarray(X, dtype=np.float64)
    if A.ndim != 2 or not A.size:
        raise ValueError(f"rows must be two-dimensional with columns, got shape {A.shape}")
    found = da.from_array(A, chunks=(size, -1))
    return found


def aligned(*arrays: AnyArray) -> list[AnyArray]:
    """Return arrays that are aligned in memory, with unchanged order of rows and columns.

    Arrays from other workers may be unaligned. numpy copies such an array and may multiply the copy
    with another BLAS routine, so that the last bits would depend on which worker computed it.
    """
    return [np.require(array, requirements="A") for array in arrays]


def _chunk(kernel: Kernel, single: bool, threads: int, X: Array, Z: Array) -> AnyArray:
    """Return one chunk of a kernel matrix."""
    X, Z = aligned(X, Z)
    if not (np.isfinite(X).all() and np.isfinite(Z).all()):
        raise ValueError("rows must be finite, got NaN or infinity; drop or fill such values")
    rows = csr_array(X) if _MOSTLY_ZEROS * np.count_nonzero(X) < X.size else X
    with blas_threads(threads):
        return KernelColumns(kernel, Z, single)(rows)


# Function that computes an array on the cluster.
Compute = Callable[[da.Array], AnyArray]


@dataclass(frozen=True)
class KernelArrays:
    """A kernel matrix on a cluster as `fkd.paper.algorithm2.KernelPasses`, chunk by chunk.

    Parts are added in the order of the chunks, so that the result does not depend on the number of
    workers or on lost ones.
    """

    K: da.Array  # (n, n)
    K_nq: da.Array  # (n, q), one chunk wide
    landmarks: IntArray  # (q,)
    compute: Compute
    threads: int = 1  # BLAS threads of a task

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
        """Return K_nq z of K - F Fᵀ for each z."""
        widths = _widths(panels)
        beside = np.hstack([*panels, F[self.landmarks]])
        make = partial(_landmark_products, self.threads, widths)
        found = self.compute(self._by_rows(make, [F], beside, (0, sum(widths))))
        return _split(found, widths)

    def landmark_adjoints(self, panels: Sequence[Array]) -> list[Array]:
        """Return K_qn R of K for each R."""
        widths = _widths(panels)
        if not widths:
            return []
        make = partial(_landmark_adjoints, self.threads, widths)
        shape = (1, len(self.landmarks), sum(widths))
        sums = self._by_rows(make, [np.hstack(panels)], np.empty(0), shape)
        return _split(self.compute(sums.sum(axis=0)), widths)

    def products(self, panels: Sequence[Array]) -> list[Array]:
        """Return K B for each B."""
        widths = _widths(panels)
        # Without a name by content, whose digest would take time in every pass.
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
        """Return ``make(K_nq, *columns, beside)`` for each block of rows, stacked.

        `shape` is the shape of one part; a first length of 0 stands for the number of rows.
        """
        heights = self.K_nq.chunks[0]
        first = (shape[0],) * len(heights) if shape[0] else heights
        # Names that are not digests of the content, which would take time in every pass.
        found: da.Array = da.map_blocks(
            make,
            self.K_nq,
            *(da.from_array(part, chunks=(heights, -1), name=False) for part in columns),
            da.from_array(beside, chunks=-1, name=False),
            name=f"landmarks-{uuid4().hex}",
            chunks=(first, *((size,) for size in shape[1:])),
            new_axis=[2] if len(shape) == 3 else None,
            meta=np.empty((0,) * len(shape)),
        )
        return found


def _widths(panels: Sequence[Array]) -> list[int]:
    """Return the number of columns of each panel."""
    return [panel.shape[1] for panel in panels]


def _split(found: AnyArray, widths: Sequence[int]) -> list[Array]:
    """Return the panels of one array."""
    return np.split(found, np.cumsum(widths)[:-1], axis=1)


def _products(threads: int, widths: Sequence[int], K: AnyArray, V: Array) -> Array:
    """Return the contribution of one chunk to the products, (rows, 1, columns)."""
    K, V = aligned(K, V)
    with blas_threads(threads):
        return np.hstack(panel_products(K, _split(V, widths)))[:, None, :]


def _system(threads: int, K_nq: AnyArray, S: Array, F: Array, F_q: Array) -> Array:
    """Return the contribution of rows to K_qn K_nq and K_qn S, of K - F Fᵀ."""
    K_nq, S, F, F_q = aligned(K_nq, S, F, F_q)
    with blas_threads(threads):
        left = K_nq - F @ F_q.T
        return np.hstack([left.T @ left, left.T @ S])[None]


def _landmark_products(
    threads: int, widths: Sequence[int], K_nq: AnyArray, F: Array, beside: Array
) -> Array:
    """Return rows of K_nq z, of K - F Fᵀ."""
    K_nq, F, beside = aligned(K_nq, F, beside)
    *panels, F_q = _split(beside, [*widths, F.shape[1]])
    with blas_threads(threads):
        return np.hstack(panel_products(K_nq - F @ F_q.T, panels))


def _landmark_adjoints(
    threads: int, widths: Sequence[int], K_nq: AnyArray, R: Array, _: Array
) -> Array:
    """Return the contribution of rows to K_qn R."""
    K_nq, R = aligned(K_nq, R)
    with blas_threads(threads):
        return np.hstack(panel_products(K_nq.T, _split(R, widths)))[None]


def is_chunked(job: Job) -> bool:
    """Return True if a job's kernel matrix is a Dask array, which its number of rows decides."""
    if not all(method(trial.method).in_passes for trial in job.trials):
        return False
    return len(SplitRows(job.inputs, job.split).fold.train) > WHOLE_ROWS


@dataclass(frozen=True)
class SplitRows:
    """Reference to the training rows of a split in the prepared table."""

    inputs: Inputs
    split: str

    @property
    def fold(self) -> Fold:
        """The split."""
        return self.inputs.splits.all(self.inputs.table)[self.split]


@dataclass(frozen=True)
class ChunkedKernel:
    """The RBF kernel matrix of a split's training rows as Dask arrays, for one landmark set."""

    gamma: float
    landmarks: IntArray
    K: da.Array  # (n, n)
    K_nq: da.Array  # (n, q)
    threads: int

    def passes(self, compute: Compute) -> Callable[[float, IntArray], KernelArrays]:
        """Return the function by which a method asks for this kernel matrix."""

        def passes(gamma: float, landmarks: IntArray) -> KernelArrays:
            if gamma != self.gamma or not np.array_equal(landmarks, self.landmarks):
                raise ValueError("a job must read the kernel matrix that was built for it")
            return KernelArrays(self.K, self.K_nq, landmarks, compute, self.threads)

        return passes


def build_kernel(client: Any, job: Job) -> ChunkedKernel:
    """Start the computation of a chunked job's kernel matrix on the workers.

    Chunks that fit into `KEPT_SHARE` of the workers' memory stay there. Others are computed again
    in each pass.
    """
    rows, size = SplitRows(job.inputs, job.split), CHUNK_ROWS
    training, _ = make_training(job.inputs.table, rows.fold, job.inputs)
    setting = job.trials[0].setting()  # trials of one job share width and landmarks
    landmarks, threads = setting.landmarks(training), job.inputs.blas_threads
    kernel = Kernel("rbf", setting.gamma)
    X = rows_array(rows, np.arange(len(rows.fold.train)), size)
    Z = rows_array(rows, landmarks, len(landmarks))
    K = kernel_array(kernel, X, chunks=size, threads=threads)
    K_nq = kernel_array(kernel, X, Z, chunks=(size, len(landmarks)), threads=threads)
    # K_nq is first: it is read twice as often.
    K_nq, K = keep_what_fits(client, [K_nq, K], cluster_memory(client))
    return ChunkedKernel(setting.gamma, landmarks, K, K_nq, threads)


def rows_array(rows: SplitRows, chosen: IntArray, size: int) -> da.Array:
    """Return encoded training rows as a Dask array with `size` rows per block."""
    # Everything that decides encoded rows.
    identity = {
        **rows.inputs.fit_identity(),
        "rows": rows.fold.digest,
        "chosen": [int(i) for i in chosen],
    }
    name = f"rows-{digest(identity)}"
    blocks = [chosen[first : first + size] for first in range(0, len(chosen), size)]
    layer: dict[Any, Any] = {
        (name, i, 0): (encoded_rows, rows, block) for i, block in enumerate(blocks)
    }
    width = encoded_rows(rows, chosen[:1]).shape[1]
    return task_array(name, layer, [], (tuple(map(len, blocks)), (width,)))


def encoded_rows(rows: SplitRows, chosen: IntArray) -> Array:
    """Return encoded training rows, read from the prepared table."""
    check_versions((), rows.inputs)
    return _encoder(rows).transform(rows.inputs.table.take(rows.fold.train[chosen]))


@lru_cache(maxsize=2)
def _encoder(rows: SplitRows) -> Encoder:
    """Return the encoder of a split, fitted once per worker."""
    return encoder_of(rows.inputs.table.take(rows.fold.train), rows.inputs)
