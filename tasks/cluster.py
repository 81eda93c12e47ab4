"""The Dask cluster of a run, the only place that knows `distributed`."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, as_completed

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.files import write_atomic
from tasks.settings import Settings

_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Failed:
    """A job that gave no result, with its cause."""

    job: Any
    cause: str


@contextmanager
def connect(config: ClusterConfig, settings: Settings) -> Iterator[Client]:
    """Yield a client of the configured cluster; a cluster that we started ends with it."""
    defaults = {
        # Our figures, unless the user's own Dask configuration names others.
        "distributed.scheduler.allowed-failures": config.retries,
        "distributed.worker.memory.spill": False,
        "temporary-directory": str(settings.home / "dask"),
    }
    chosen = {k: dask.config.get(k, v) for k, v in defaults.items()}
    with dask.config.set(chosen), _client(config) as client:
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
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,  # critical: a lost worker is our message, not a traceback
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


def run_jobs(
    client: Client,
    function: Callable[[Any], int],
    jobs: Sequence[Any],
    *,
    retries: int,
    done: Callable[[Any, int], None],
) -> list[Failed]:
    """Return the jobs that failed; `done` hears of each finished one with its result.

    A job whose worker died is submitted again, at most `retries` times; a job that raises is not,
    because it would raise again.
    """
    tries = [0] * len(jobs)
    failed: list[Failed] = []
    futures = {_submit(client, function, job): i for i, job in enumerate(jobs)}
    waiting = as_completed(list(futures))
    for future in waiting:
        index = futures.pop(future)
        error = future.exception() if future.status == "error" else None
        lost = future.status in ("cancelled", "lost") or isinstance(error, KilledWorker)
        if future.status == "finished":
            done(jobs[index], future.result())
        elif lost and tries[index] < retries:
            tries[index] += 1
            again = _submit(client, function, jobs[index])
            futures[again] = index
            waiting.add(again)
        else:
            failed.append(Failed(jobs[index], _cause(error, future.status)))
        future.release()
    return failed


def _submit(client: Client, function: Callable[[Any], int], job: Any) -> Any:
    """Submit one job; jobs are idempotent, so Dask must not merge equal ones by their key."""
    return client.submit(function, job, pure=False)


def _cause(error: BaseException | None, status: str) -> str:
    """Return why a job gave no result, as one line."""
    if error is None:
        return f"the task was {status} on the cluster"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
