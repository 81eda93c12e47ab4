"""Dask arrays by hand: a layer of tasks as an array, its values from a cluster."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask.array as da
from dask.highlevelgraph import HighLevelGraph

from tasks.adapters.muster import Muster
from tasks.adapters.workers import check_connected

_LOOK_SECONDS = 5.0


def task_array(
    name: str,
    layer: Mapping[Any, Any],
    sources: Sequence[Any],
    chunks: tuple[tuple[int, ...], ...],
    dtype: Any = float,
) -> da.Array:
    """Return the array whose chunks are the tasks of a layer, which read those of other arrays."""
    return da.Array(HighLevelGraph.from_collections(name, layer, sources), name, chunks, dtype)


def compute_array(
    client: Any,
    array: Any,
    *,
    retries: int,
    time_limit: float,
    say: Callable[[str], None] = lambda told: None,
) -> Any:
    """Return the values of a Dask array.

    Its tasks are Dask's own: one whose worker died, or that met a passing fault, is executed again
    at most `retries` times, with what lay on that worker. An array that takes longer than
    `time_limit` seconds is given up. `say` hears what is waited for.
    """
    muster, start, landed = Muster(client, say), time.monotonic(), threading.Event()
    future = client.compute(array, retries=retries)
    future.add_done_callback(lambda _: landed.set())
    while not landed.wait(_LOOK_SECONDS):
        check_connected(client)
        muster.look()
        if time.monotonic() - start > time_limit:
            future.cancel(force=True)
            limit = f"cluster.time_limit ({time_limit:g} s)"
            raise TimeoutError(f"a pass over the kernel matrix ran longer than {limit}")
    if future.status != "finished":
        check_connected(client)
    return future.result()
