"""Kernel matrices as Dask arrays, in chunks that a cluster keeps or makes again."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from scipy.sparse import csr_array

from fkd.core.arrays import AnyArray, Array
from fkd.core.kernels import Kernel, KernelColumns
from fkd.core.validation import whole
from tasks.adapters.blas import blas_threads
from tasks.adapters.graphs import task_array

# Rows of a chunk: 4096 x 4096 numbers are 134 MB, of which a pass makes one product each.
CHUNK_ROWS = 4096
# The rule: chunks that together take at most this share of the workers' memory are computed once,
# kept there; what is more than that is made again in each pass. It is below Dask's target (0.6),
# over which a worker spills to disk: that happens where a lost worker's chunks join its own.
KEPT_SHARE = 0.5
# Numbers to one entry from which on rows of indicators are multiplied as sparse ones.
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

    A chunk is a task, named by the content of the rows and by the kernel: the same matrix has the
    same keys wherever it is built. Of a symmetric matrix the chunks on and above the diagonal are
    made, those below are their transposes.

    Parameters
    ----------
    kernel
        Any but a precomputed one.
    X, Z
        Rows (n, d) and (q, d), as numpy arrays, which then travel inside the graph, or as Dask
        arrays, whose blocks of rows are made where they are needed.
    chunks
        Rows and columns of a chunk: one number for both, or a pair where there is Z.
    dtype
        Of the values, float64 or float32.
    threads
        BLAS threads of a task.
    """
    if kernel.name == "precomputed":
        raise ValueError(
            "kernel must be computed from rows, got 'precomputed'; that matrix is an array already "
            "(dask.array.from_array)"
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
    """Return kernel arrays, those that the rule lets the workers keep as what they compute now.

    Parameters
    ----------
    client
        Of the cluster.
    arrays
        Of `kernel_array`; the first ones are kept first.
    memory
        Bytes of all workers together; where nobody has set a limit, nothing is kept.
    """
    room, found = KEPT_SHARE * (memory or 0), []
    for K in arrays:
        fits = chunk_bytes(K) <= room
        room -= chunk_bytes(K) if fits else 0
        found.append(_kept(client, K) if fits else K)
    return found


def is_kept(K: da.Array) -> bool:
    """Return whether the chunks of a kernel array are results on workers, not tasks."""
    return not K.dask.dependencies[_made_name(K)]


def chunk_bytes(K: da.Array) -> int:
    """Return what the chunks that are made take; transposes take nothing."""
    heights, widths = K.chunks
    entries = sum(heights[i] * widths[j] for _, i, j in K.dask.layers[_made_name(K)])
    return int(entries * K.dtype.itemsize)


def _kept(client: Any, K: da.Array) -> da.Array:
    """Return the array on top of what the workers now compute."""
    name = _made_name(K)
    keys = list(K.dask.layers[name])
    futures = client.get(K.dask, keys, sync=False)
    made = task_array(name, dict(zip(keys, futures, strict=True)), [], K.chunks, K.dtype)
    return made if name == K.name else _mirrored(made)


def _made_name(K: da.Array) -> str:
    """Return the layer of a kernel array whose chunks are made."""
    return str(K.name.removeprefix(_MIRROR))


def _mirrored(K: da.Array) -> da.Array:
    """Return the array with the chunks below the diagonal, which has those above it alone."""
    count, mirror = K.numblocks[0], _MIRROR + K.name
    layer: dict[Any, Any] = {
        (mirror, i, j): (K.name, i, j) if i <= j else (np.transpose, (K.name, j, i))
        for i in range(count)
        for j in range(count)
    }
    return task_array(mirror, layer, [K], K.chunks, K.dtype)


def _rows(X: Any, size: int) -> da.Array:
    """Return rows as a Dask array of so many whole rows each."""
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
    """Return arrays that begin where numbers may, in the order of rows and columns that they have.

    What comes from another worker can begin anywhere. numpy multiplies a copy of such an array,
    transposed as it may be, by another routine of BLAS: the last bits would tell who computed it.
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
