"""The Dask cluster of a run: local processes, threads, or a scheduler at an address."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
from distributed import Client, KilledWorker, LocalCluster, SchedulerPlugin, Security, get_worker
from distributed.client import FutureCancelledError
from distributed.utils import sync

from configs.errors import UserError
from configs.run import ClusterConfig
from tasks.cluster.kubernetes import kubernetes_cluster
from tasks.cluster.signals import defer_interrupt, spare_workers
from tasks.cluster.slurm import claimed_name, refused, slurm_cluster
from tasks.cluster.tls import agreed_address, named_certificates, plain_allowed, refusal, temporary
from tasks.cluster.workers import enrol, is_foreign
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings

# Above critical: a connection that closes on Ctrl-C is logged as such, with its traceback.
SILENT = logging.CRITICAL + 1
_START_SECONDS = 300.0
_CLOSE_SECONDS = 30
_PAGE = "127.0.0.1:0"  # for this machine only: it is not encrypted


@contextmanager
def own_cluster(
    config: ClusterConfig,
    home: Path,
    defaults: Mapping[str, Any],
    certificates: Mapping[str, str] | None,
) -> Iterator[Any]:
    """Yield a cluster with its workers on their way; it ends afterwards.

    Parameters
    ----------
    config
        Which workers are wanted.
    home
        FKD_HOME.
    defaults
        Settings of Dask, for workers that do not share our process.
    certificates
        By which its processes know each other, None for those that talk in plain.
    """
    with claimed_name(home) if config.kind == "slurm" else nullcontext("") as name:
        with spare_workers():
            cluster = _scheduler(config, home, defaults, certificates, name)
        try:
            _man(cluster, config)
            yield cluster
        except BaseException:
            with defer_interrupt():
                cluster.sync(_end_jobs, cluster, callback_timeout=_CLOSE_SECONDS)
            raise
        finally:
            # Dask asserts on the way that a worker whose start has failed had begun to close.
            with defer_interrupt(), suppress(AssertionError, TimeoutError):
                cluster.close(timeout=_CLOSE_SECONDS)


def security(certificates: Mapping[str, str] | None) -> Security:
    """Return how the processes of a cluster know each other: by certificates only, or not."""
    return Security(require_encryption=bool(certificates), **(certificates or {}))


def _scheduler(
    config: ClusterConfig,
    home: Path,
    defaults: Mapping[str, Any],
    certificates: Mapping[str, str] | None,
    name: str,
) -> Any:
    """Return a cluster without workers; jobs of a queue will have the name.

    They are started later, where Ctrl-C finds a cluster that can be closed.
    """
    if config.kind == "slurm":
        return slurm_cluster(
            config,
            home,
            {key: value for key, value in defaults.items() if key != "temporary-directory"},
            certificates,
            job_name=name,
            security=security(certificates) if certificates else None,
            scheduler_options={"dashboard_address": _PAGE},
            silence_logs=SILENT,
        )
    threads = config.kind == "threads"
    return LocalCluster(
        n_workers=0,
        threads_per_worker=_count(config) if threads else 1,
        processes=not threads,
        memory_limit=config.memory_limit,
        host=None if threads else "127.0.0.1",
        security=security(certificates),
        dashboard_address=_PAGE,
        silence_logs=SILENT,
    )


def _count(config: ClusterConfig) -> int:
    """Return how many workers, or threads, a cluster begins with."""
    return config.adapt.minimum if config.adapt else config.most_workers or os.cpu_count() or 1


def _man(cluster: Any, config: ClusterConfig) -> None:
    """Start the workers of a cluster, or say why there are none."""
    count = 1 if config.kind == "threads" else _count(config)
    while len(cluster.worker_spec) < count:
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(_started, cluster, callback_timeout=_START_SECONDS)
    except (RuntimeError, OSError) as error:
        if config.kind == "slurm":
            raise refused(error) from error
        raise UserError(
            f"The {count} worker processes of the local cluster cannot start ({_root(error)}); "
            "they need memory (`ulimit -v`), processes (`ulimit -u`) and a writable /dev/shm. "
            "Fewer by --set cluster.workers=1, or none: --set cluster.kind=threads."
        ) from error
    if config.adapt is not None:
        cluster.adapt(minimum=config.adapt.minimum, maximum=config.adapt.maximum)


async def _started(cluster: Any) -> None:
    """Return once every worker of a cluster has come up, or its job is in the queue."""
    await cluster


async def _end_jobs(cluster: Any) -> None:
    """End workers in the middle of their jobs: what is computed is kept, the rest not wanted."""
    nannies = [worker for worker in cluster.workers.values() if hasattr(worker, "kill")]
    await asyncio.gather(*(nanny.kill(timeout=0.2) for nanny in nannies), return_exceptions=True)


def _root(error: BaseException) -> str:
    """Return the first cause of an error as one line."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return " ".join(str(error).split()) or type(error).__name__


WorkerDiedError = KilledWorker
# What another try may mend: a worker that went, a passing fault of files or network.
PASSING = (KilledWorker, FutureCancelledError, OSError)

# Dask has workers give back every freed page at once. Our jobs ask for it again a moment later: a
# network's training took 1.3 times as long (`python -m benchmarks allocator`).
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
_SPAWN = "distributed.nanny.pre-spawn-environ"

_CONNECT_SECONDS = 8.0
_ASK_SECONDS = 2.0  # then, for the reason why there is no connection
_ANNOUNCE_SECONDS = 60
_POLL_SECONDS = 1.0
_JOB = "fkd-job-"  # how the keys of our jobs begin on a scheduler that others use too
# What a wrong address brings, besides nothing at all: the bytes of another protocol.
_NO_SCHEDULER = (OSError, ValueError, TypeError, MemoryError, OverflowError, ImportError)


@contextmanager
def connect(config: ClusterConfig, settings: Settings) -> Iterator[Client]:
    """Yield a client of the configured cluster; a cluster that we started ends with it."""
    defaults = {
        # Of arrays alone: a job whose worker died comes back to us at once (`_own_count`).
        "distributed.scheduler.allowed-failures": config.retries,
        # What a pass over an array multiplies travels inside its graph.
        "distributed.admin.large-graph-warning-threshold": "1GiB",
        # No job waits on a worker, so that a death hits the one that runs there alone.
        "distributed.scheduler.worker-saturation": 1.0,
        # A picture of where workers spend hours needs no hundred looks a second.
        "distributed.worker.profile.interval": "100ms",
        "distributed.scheduler.worker-ttl": "60s",  # a stopped worker is given up after this
        # On a busy machine a new worker takes longer than the usual 15 s to come up.
        "distributed.deploy.lost-worker-timeout": "60s",
        "distributed.worker.memory.spill": False,
        # As many workers are asked for as jobs wait, though nobody knows yet how long one takes.
        "distributed.scheduler.default-task-durations": {_JOB.rstrip("-"): "60s"},
        **{f"{_SPAWN}.{name}": size for name, size in ALLOCATOR.items()},
        f"{_SPAWN}.FKD_HOME": str(settings.home),  # workers of ours share what is local
        "temporary-directory": str(settings.home / "dask"),
    }
    named = dask.config.collect()  # the user's own files and variables, which win
    if "logging" not in named:
        # A lost worker is our sentence, not a traceback; LocalCluster's own silence ends too early.
        for name in ("distributed", "asyncio", "tornado.application"):
            logging.getLogger(name).setLevel(SILENT)
    ours = {k: v for k, v in defaults.items() if dask.config.get(k, None, config=named) is None}
    with dask.config.set(ours), _client(config, settings, named, ours) as client:
        client.patience = config.worker_wait  # of whoever waits for its workers
        page = settings.home / "dask.json"
        text = json.dumps({"dashboard": client.dashboard_link, "pid": os.getpid()})
        write_atomic(page, text.encode())
        enrol(client, settings)
        try:
            yield client
        finally:
            page.unlink(missing_ok=True)


def _client(
    config: ClusterConfig, settings: Settings, told: dict[str, Any], defaults: Mapping[str, Any]
) -> Any:
    """Return the context of a client: of an existing scheduler, or of a cluster that we start."""
    address = config.address
    if config.kind == "local":  # a scheduler that the user has named to Dask takes its place
        address = settings.dask_scheduler_address
    if address is not None:
        certificates = named_certificates(config.tls, told, ["client"])
        address = agreed_address(address, certificates, plain=plain_allowed(told))
        return _existing(address, certificates if address.startswith("tls:") else None)
    if config.kubernetes is not None:
        secret = config.kubernetes.tls_secret
        return _pods(config, named_certificates(config.tls, told, ["client"]) if secret else None)
    encrypted = config.kind != "threads" and not plain_allowed(told)  # threads talk in memory
    certificates = (named_certificates(config.tls, told) or temporary()) if encrypted else None
    return _own(own_cluster(config, settings.home, defaults, certificates))


@contextmanager
def _own(cluster: Any) -> Iterator[Client]:
    """Yield a client of a cluster that ends with it."""
    with cluster as started, Client(started) as client:
        client.register_plugin(_own_count())
        yield client


@contextmanager
def _pods(config: ClusterConfig, certificates: Mapping[str, str] | None) -> Iterator[Client]:
    """Yield a client of a cluster in pods, which ends with it."""
    with kubernetes_cluster(config) as address:
        deadline = time.monotonic() + config.worker_wait
        while not _answers(address, certificates):  # its image may have to be fetched
            if time.monotonic() > deadline:
                raise UserError(
                    f"the scheduler's pod at {address} did not answer within "
                    f"{config.worker_wait:g} s (cluster.worker_wait); `kubectl get pods` tells "
                    "why, and the run must be inside the cluster to reach it (deploy/README.md)."
                )
            time.sleep(_POLL_SECONDS)
        with _existing(address, certificates) as client:
            yield client


def _answers(address: str, certificates: Mapping[str, str] | None) -> bool:
    """Return whether a scheduler answers at an address."""
    try:
        _PromptClient(address, timeout=_CONNECT_SECONDS, security=security(certificates)).close()
    except _NO_SCHEDULER:
        return False
    return True


class _PromptClient(Client):
    """A client that has one deadline for all steps of its start; Dask has none for the first."""

    async def _start(self, *args: Any, **kwargs: Any) -> Client:
        try:
            return await asyncio.wait_for(super()._start(*args, **kwargs), _CONNECT_SECONDS)
        except _NO_SCHEDULER:
            await self._close(fast=True)
            raise


@contextmanager
def _existing(address: str, certificates: Mapping[str, str] | None) -> Iterator[Client]:
    """Yield a client of a scheduler that others started."""
    try:
        known = security(certificates)
        client = _PromptClient(address, timeout=_CONNECT_SECONDS, security=known)
    except _NO_SCHEDULER as error:
        reason = refusal(address, certificates, _ASK_SECONDS)
        raise UserError(
            reason
            or f"cluster.address must name a running Dask scheduler, but {address} did not answer "
            f"as one within {_CONNECT_SECONDS:g} s; start one by `dask scheduler`, workers by "
            f"`dask worker {address}`."
        ) from error
    try:
        # One that takes no plugins repeats jobs by itself; those executions are counted then.
        with suppress(ValueError, RuntimeError):
            client.register_plugin(_own_count())
        yield client
    finally:
        client.close()


def _own_count() -> SchedulerPlugin:
    """Return what has a scheduler give our jobs back at once when their worker has died.

    By itself it tries them three times more (`allowed-failures`), before we hear of it. Other
    people's jobs on it keep that. The class is local, so that it travels whole: a scheduler need
    not have this package.
    """

    class OwnCount(SchedulerPlugin):
        name = "fkd-own-count"
        idempotent = True

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler

        def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
            if finish == "processing" and str(key).startswith(_JOB):
                self.scheduler.tasks[key].suspicious = self.scheduler.allowed_failures

    return OwnCount()


def submit(
    client: Client, function: Callable[[Any], Any], job: Any, *, topic: str, index: int
) -> Any:
    """Return the future of a job that says on the topic when it begins; low indices go first."""
    # Jobs are idempotent, but a repeat must not be taken for the first try: a key of its own.
    key = f"{_JOB}{uuid4().hex}"
    return client.submit(_announced, function, job, topic, index, key=key, priority=-index)


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


PAGE = "dask_report.html"
_ANSWER_SECONDS = 60
# A scheduler that is gone, busy, or without the package that draws the page.
_FAULTS = (OSError, ImportError, AttributeError, RuntimeError, TypeError, ValueError)


def is_reported(config: ClusterConfig, client: Any) -> bool:
    """Return whether a report is wanted: if nothing is said, of processes that are ours alone."""
    if config.report is not None:
        return config.report
    return config.kind != "threads" and not is_foreign(client)


@contextmanager
def performance(
    client: Any, keep: Callable[[bytes], None], say: Callable[[str], None]
) -> Iterator[None]:
    """Keep the report on what the cluster does meanwhile; where there is none, say why.

    A run never fails by it, nor is there one where the run itself fails.
    """
    start, said = time.time(), list[BaseException]()
    try:
        # A nameless function travels whole: a scheduler need not have this package.
        count = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.monitor.count)
        client.get_task_stream(start=0, stop=0)  # from now on it remembers who did what when
    except _FAULTS as error:
        said.append(error)
    yield
    try:
        if not said:
            page = client.sync(
                client.scheduler.performance_report,
                start=start,
                last_count=count,
                code="",
                mode="inline",  # it opens from disk, without the network
                callback_timeout=_ANSWER_SECONDS,
            )
            keep(page.encode())
    except _FAULTS as error:
        said.append(error)
    for fault in said:
        cause = " ".join(str(fault).split())[:200]
        say(f"no performance report by Dask ({type(fault).__name__}: {cause})")
