"""The Dask cluster of a run, the only place that knows `distributed`."""

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, Status, get_worker
from distributed.client import FutureCancelledError
from distributed.utils import sync

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.adapters.environment import own_kernels
from tasks.adapters.files import write_atomic
from tasks.adapters.settings import Settings

WorkerDiedError = KilledWorker
# What another try may mend: a worker that went, a passing fault of files or network.
PASSING = (KilledWorker, FutureCancelledError, OSError)

# Dask has workers give back every freed page at once. Our jobs ask for it again a moment later: a
# network's training took 1.3 times as long (`python -m benchmarks allocator`).
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
_SPAWN = "distributed.nanny.pre-spawn-environ"

_CONNECT_SECONDS = 10
_ANNOUNCE_SECONDS = 60
_RESTART_SECONDS = 10
_KERNELS_SECONDS = 30
# Above critical: a connection that closes on Ctrl-C is logged as such, with its traceback.
_SILENT = logging.CRITICAL + 1


@contextmanager
def connect(config: ClusterConfig, settings: Settings) -> Iterator[Client]:
    """Yield a client of the configured cluster; a cluster that we started ends with it."""
    defaults = {
        # A job whose worker died comes back to us at once: we count its tries ourselves.
        "distributed.scheduler.allowed-failures": 0,
        # No job waits on a worker, so that a death hits the one that runs there alone.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.scheduler.worker-ttl": "60s",  # a stopped worker is given up after this
        # On a busy machine a new worker takes longer than the usual 15 s to come up.
        "distributed.deploy.lost-worker-timeout": "60s",
        "distributed.worker.memory.spill": False,
        **{f"{_SPAWN}.{name}": size for name, size in ALLOCATOR.items()},
        "temporary-directory": str(settings.home / "dask"),
    }
    named = dask.config.collect()  # the user's own files and variables, which win
    if "logging" not in named:
        # A lost worker is our sentence, not a traceback; LocalCluster's own silence ends too early.
        logging.getLogger("distributed").setLevel(_SILENT)
    ours = {k: v for k, v in defaults.items() if dask.config.get(k, None, config=named) is None}
    with dask.config.set(ours), _client(config) as client:
        page = settings.home / "dask.json"
        text = json.dumps({"dashboard": client.dashboard_link, "pid": os.getpid()})
        write_atomic(page, text.encode())
        try:
            yield client
        finally:
            page.unlink(missing_ok=True)


@contextmanager
def _client(config: ClusterConfig) -> Iterator[Client]:
    """Yield a client of an existing scheduler, or of a local cluster on loopback."""
    if config.address is not None:
        with _existing(config.address) as client:
            yield client
        return
    workers = config.workers or os.cpu_count() or 1
    with (
        LocalCluster(
            n_workers=1 if config.kind == "threads" else workers,
            threads_per_worker=workers if config.kind == "threads" else 1,
            processes=config.kind == "local",
            memory_limit=config.memory_limit,
            host="127.0.0.1" if config.kind == "local" else None,  # threads talk in memory
            dashboard_address="127.0.0.1:0",
            silence_logs=_SILENT,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def _existing(address: str) -> Iterator[Client]:
    """Yield a client of a scheduler that others started."""
    try:
        client = Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise UserError(
            f"cluster.address must name a running Dask scheduler, but {address} did not answer "
            f"within {_CONNECT_SECONDS} s; start one by `dask scheduler`, workers by "
            f"`dask worker {address}`."
        ) from error
    try:
        yield client
    finally:
        client.close()


def worker_memory(client: Client) -> int | None:
    """Return the memory limit of the smallest worker in bytes, None where there is none."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return min((w["memory_limit"] for w in workers if w["memory_limit"]), default=None)


def worker_kernels(client: Client) -> Counter[str]:
    """Return how many workers compute with which kernels; none where they do not answer."""
    try:
        # `run` by itself would wait for ever for a worker that is stopped.
        told = client.sync(
            client.run, own_kernels, on_error="ignore", callback_timeout=_KERNELS_SECONDS
        )
    except OSError:
        return Counter()
    return Counter(told.values())


def submit(
    client: Client, function: Callable[[Any], Any], job: Any, *, topic: str, index: int
) -> Any:
    """Return the future of a job that says on the topic when it begins; low indices go first."""
    # Jobs are idempotent, but a repeat must not be taken for the first try.
    return client.submit(_announced, function, job, topic, index, pure=False, priority=-index)


def _announced(function: Callable[[Any], Any], job: Any, topic: str, index: int) -> Any:
    """Run a job on a worker, after the scheduler has heard that it begins.

    It waits for the answer: a note that lies in the worker's outgoing mail is lost if the job stops
    the process, and nobody would know how long it has been running.
    """
    worker = get_worker()
    said = {"index": index, "worker": worker.address}
    sync(
        worker.loop,
        worker.scheduler.log_event,
        topic=topic,
        msg=said,
        callback_timeout=_ANNOUNCE_SECONDS,
    )
    return function(job)


def end_worker(client: Client, worker: str) -> bool:
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


def threads_at_work(client: Client) -> int:
    """Return how many jobs can run at once; a local cluster gets back workers that it has lost."""
    if isinstance(client.cluster, LocalCluster):
        client.cluster.sync(_refill, client.cluster)
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    except OSError:
        return 0  # the connection is breaking, which `connected` tells next
    return sum(worker["nthreads"] for worker in workers)


async def _refill(cluster: LocalCluster) -> None:
    """Start workers for those whose nannies have given up, as they do if a start fails."""
    gone = [n for n, w in cluster.workers.items() if w.status in (Status.closed, Status.failed)]
    for name in gone:
        del cluster.workers[name]
    if len(cluster.workers) < len(cluster.worker_spec):
        cluster.scale(len(cluster.worker_spec))


def connected(client: Client) -> bool:
    """Return whether the scheduler is there; every future is lost with it."""
    return bool(client.status == "running")
