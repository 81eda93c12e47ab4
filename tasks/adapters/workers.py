"""The workers of a cluster: who is there, what they compute with, how one is ended or replaced."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from configs.errors import UserError
from tasks.adapters.environment import own_kernels

_RESTART_SECONDS = 10
_ANSWER_SECONDS = 30
_GONE = frozenset({"closed", "failed", "created"})


def worker_memory(client: Any) -> int | None:
    """Return the memory limit of the smallest worker in bytes, None where there is none."""
    workers = _workers(client).values()
    return min((w["memory_limit"] for w in workers if w["memory_limit"]), default=None)


def cluster_memory(client: Any) -> int | None:
    """Return the memory limits of all workers together, None where one has none."""
    limits = [worker["memory_limit"] for worker in _workers(client).values()]
    return sum(limits) if limits and all(limits) else None


def worker_kernels(client: Any) -> Counter[str]:
    """Return how many workers compute with which kernels; none where they do not answer."""
    told = ask_workers(client, own_kernels).values()
    return Counter(kernels for kernels in told if not isinstance(kernels, Exception))


def ask_workers(
    client: Any, function: Callable[[], Any], workers: Collection[str] | None = None
) -> dict[str, Any]:
    """Return what each worker answers, or the error that it met; nothing where one is silent."""
    asked = None if workers is None else list(workers)
    try:
        # `run` by itself would wait for ever for a worker that is stopped.
        told: dict[str, Any] = client.sync(
            client.run, function, workers=asked, on_error="return", callback_timeout=_ANSWER_SECONDS
        )
    except OSError:
        return {}
    return told


def is_foreign(client: Any) -> bool:
    """Return whether others started this cluster, with settings and packages of their own."""
    return client.cluster is None


def workers_of_others(client: Any) -> set[str]:
    """Return the addresses of workers that are no children of this process.

    Those of a local cluster have its package, its variables, its disk.
    """
    local = type(client.cluster).__name__ == "LocalCluster"
    return set() if local else set(_workers(client))


def threads_at_work(client: Any) -> int:
    """Return how many jobs can run at once; a local cluster gets back workers that it has lost."""
    if not is_foreign(client):
        client.cluster.sync(_refill, client.cluster)
    return sum(worker["nthreads"] for worker in _workers(client).values())


def end_worker(client: Any, worker: str) -> bool:
    """Return whether a worker that hangs was ended; its nanny starts another in its place."""
    if not worker.startswith(("tcp", "tls")):
        return False  # a thread of this process
    try:
        client.restart_workers([worker], timeout=_RESTART_SECONDS, raise_for_error=False)
    except (KeyError, OSError):
        return True  # it has gone meanwhile, or the scheduler with all of them
    except ValueError:
        return False  # it has no nanny
    return True


def connected(client: Any) -> bool:
    """Return whether the scheduler is there; every future is lost with it."""
    return bool(client.status == "running")


def check_connected(client: Any) -> None:
    """Raise where the scheduler is gone."""
    if not connected(client):
        raise UserError(
            "the Dask scheduler is gone; start it again, then run the same command: what was "
            "computed is kept."
        )


def _workers(client: Any) -> dict[str, dict[str, Any]]:
    """Return what the scheduler knows of its workers; nothing where it does not answer."""
    try:
        told = client.sync(
            client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_SECONDS
        )
    except OSError:
        return {}  # the connection is breaking, which `connected` tells next
    found: dict[str, dict[str, Any]] = told["workers"]
    return found


_refills: set["asyncio.Task[None]"] = set()  # the loop by itself would forget them


async def _refill(cluster: Any) -> None:
    """Start workers for those whose nannies have given up, as they do if a start fails."""
    # A job that the queue did not take stays as it was created.
    gone = [name for name, worker in cluster.workers.items() if worker.status.name in _GONE]
    for name in gone:
        del cluster.workers[name]
    if len(cluster.workers) < len(cluster.worker_spec):
        task = asyncio.create_task(_started(cluster))
        _refills.add(task)
        task.add_done_callback(_refilled)


async def _started(cluster: Any) -> None:
    """Return once the workers of a cluster have come up."""
    await cluster


def _refilled(task: "asyncio.Task[None]") -> None:
    """Forget a refill; a failed one is tried again at the next look."""
    _refills.discard(task)
    if not task.cancelled():
        task.exception()
