"""The Dask cluster of a run, the only place that knows `distributed`."""

import json
import logging
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import dask
from distributed import Client, KilledWorker, LocalCluster, get_worker

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.files import write_atomic
from tasks.settings import Settings

_CONNECT_SECONDS = 10
_POLL_SECONDS = 1.0
_RESTART_SECONDS = 10
# Above critical: a connection that closes on Ctrl-C is logged as such, with its traceback.
_SILENT = logging.CRITICAL + 1


@dataclass(frozen=True)
class Failed:
    """A job that gave no result, with its cause."""

    job: Any
    cause: str


@contextmanager
def connect(config: ClusterConfig, settings: Settings) -> Iterator[Client]:
    """Yield a client of the configured cluster; a cluster that we started ends with it."""
    defaults = {
        # A job whose worker died comes back to us at once: we count its tries ourselves.
        "distributed.scheduler.allowed-failures": 0,
        # No job waits on a worker, so that a death hits the one that runs there alone.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.scheduler.worker-ttl": "60s",  # a stopped worker is given up after this
        "distributed.worker.memory.spill": False,
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


def _nothing(job: Any) -> None:
    """Hear of a finished job without doing anything."""


def run_jobs(
    client: Client,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    retries: int,
    time_limit: float,
    done: Callable[[Any], None] = _nothing,
    keep: Callable[[Any, Any], None] | None = None,
) -> list[Failed]:
    """Return the jobs that failed; `done` hears of each finished one, `keep` of its result too.

    A job whose worker died, or that met a passing fault of files or network, is submitted again at
    most `retries` times; one that raises otherwise is not, because it would raise again. A job that
    runs longer than `time_limit` seconds is given up and its worker restarted.
    """
    board = _Board(client, function, jobs, retries)
    for index in range(len(jobs)):
        board.submit(index)
    while board.pending:
        for index, future in board.finished():
            board.settle(index, future, done, keep)
        board.give_up_overdue(time_limit)
    return board.failed


@dataclass
class _Board:
    """Who computes which job, since when, how often it was tried."""

    client: Client
    function: Callable[[Any], Any]
    jobs: Sequence[Any]
    retries: int
    failed: list[Failed] = field(default_factory=list)
    pending: dict[int, Any] = field(default_factory=dict)  # job: its future
    tries: dict[int, int] = field(default_factory=dict)
    started: dict[int, tuple[str, float]] = field(default_factory=dict)  # job: worker, since
    topic: str = field(default_factory=lambda: f"fkd-{uuid4().hex}")
    inbox: "queue.SimpleQueue[tuple[int, Any]]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.client.subscribe_topic(self.topic, self._hear)

    def _hear(self, event: tuple[float, Any]) -> None:
        """Note that a worker has begun a job."""
        said = event[1]
        self.started[said["index"]] = (said["worker"], time.monotonic())

    def submit(self, index: int) -> None:
        """Send one job; earlier ones go first, so that all fronts fill in evenly."""
        future = self.client.submit(
            _announced,
            self.function,
            self.jobs[index],
            self.topic,
            index,
            pure=False,  # jobs are idempotent, but a repeat must not be taken for the first try
            priority=-index,
        )
        self.pending[index] = future
        future.add_done_callback(lambda f: self.inbox.put((index, f)))

    def finished(self) -> Iterator[tuple[int, Any]]:
        """Yield what has come in, waiting a moment for the first."""
        try:
            yield self.inbox.get(timeout=_POLL_SECONDS)
            while True:
                yield self.inbox.get_nowait()
        except queue.Empty:
            return

    def settle(
        self,
        index: int,
        future: Any,
        done: Callable[[Any], None],
        keep: Callable[[Any, Any], None] | None,
    ) -> None:
        """Count a finished job, try a lost one again, keep a failed one's cause."""
        if index not in self.pending or self.pending[index] is not future:
            return  # it was given up meanwhile
        del self.pending[index]
        self.started.pop(index, None)
        status = future.status
        error = future.exception() if status == "error" else None
        passing = isinstance(error, KilledWorker | OSError) or status in ("cancelled", "lost")
        if status == "finished":
            if keep is not None:
                # Taken at once: what lies on a worker is lost with it.
                keep(self.jobs[index], future.result())
            done(self.jobs[index])
        elif passing and self.tries.get(index, 0) < self.retries:
            self.tries[index] = self.tries.get(index, 0) + 1
            self.submit(index)
        else:
            self.failed.append(Failed(self.jobs[index], _cause(error, status)))

    def give_up_overdue(self, time_limit: float) -> None:
        """Fail the jobs that run too long, restart their workers."""
        now = time.monotonic()
        for index, (worker, since) in list(self.started.items()):
            if now - since <= time_limit or index not in self.pending:
                continue
            self.pending.pop(index).cancel(force=True)
            self.started.pop(index, None)
            cause = f"TimeoutError: it ran longer than cluster.time_limit ({time_limit:g} s)"
            self.failed.append(Failed(self.jobs[index], cause))
            if worker.startswith("tcp") or worker.startswith("tls"):
                # In-process workers cannot be ended; the others keep working beside it.
                # A worker that has gone meanwhile needs no restart.
                with suppress(KeyError, ValueError):
                    self.client.restart_workers(
                        [worker], timeout=_RESTART_SECONDS, raise_for_error=False
                    )


def _announced(function: Callable[[Any], Any], job: Any, topic: str, index: int) -> Any:
    """Run a job on a worker, after telling the driver that it begins."""
    worker = get_worker()
    worker.log_event(topic, {"index": index, "worker": worker.address})
    return function(job)


def _cause(error: BaseException | None, status: str) -> str:
    """Return why a job gave no result, as one line."""
    if error is None:
        return f"the task was {status} on the cluster"
    if isinstance(error, KilledWorker):
        return (
            "KilledWorker: its worker died each time it was tried (killed, stopped, out of memory)"
        )
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
