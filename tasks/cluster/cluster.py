"""Connect a run to a Dask cluster: a cluster class that the run starts, or a running scheduler."""

import asyncio
import importlib
import inspect
import ipaddress
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import dask
from distributed import (
    Client,
    KilledWorker,
    LocalCluster,
    SchedulerPlugin,
    Security,
    SpecCluster,
    get_worker,
)
from distributed.client import FutureCancelledError
from distributed.core import Status
from distributed.deploy.cluster import Cluster
from distributed.utils import sync

from configs.cluster import LOCAL, ClusterConfig
from configs.errors import UserError
from tasks.cluster.signals import defer_interrupt, spare_workers
from tasks.cluster.tls import agreed_address, named_certificates, plain_allowed, refusal
from tasks.cluster.workers import ready
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings, read_secret, scrubbed

WorkerDiedError = KilledWorker
# Errors after which a job is tried again: a lost worker, a passing fault of files or network.
PASSING = (KilledWorker, FutureCancelledError, OSError)

# By default Dask's workers return every freed page to the system. Our jobs allocate it again a
# moment later, which made the training of a network 1.3 times slower (benchmarks/allocator.py).
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
# Above critical: distributed logs a connection that closes on Ctrl-C with its traceback.
SILENT = logging.CRITICAL + 1
PAGE = "dask_report.html"

_SPAWN = "distributed.nanny.pre-spawn-environ"
_DASHBOARD = "127.0.0.1:0"  # plain HTTP, therefore for this machine only
_START_SECONDS = 300.0
_CLOSE_SECONDS = 30
_CONNECT_SECONDS = 8.0
_REASON_SECONDS = 2.0  # to find out why a connection failed
_ANNOUNCE_SECONDS = 60
_REPORT_SECONDS = 60
_JOB = "fkd-job-"  # prefix of our task keys, on a scheduler that others may use too
# Errors of a connection to something that is not a scheduler.
_NO_SCHEDULER = (OSError, ValueError, TypeError, MemoryError, OverflowError, ImportError)


class RunClient(Client):
    """A Dask client with the settings of a run and one deadline for all steps of its start.

    Parameters
    ----------
    run_settings
        Settings whose store the workers must be able to use, None if only the package counts.
    worker_timeout
        Seconds without any worker after which the run ends.
    """

    def __init__(
        self,
        address: Any,
        *,
        run_settings: Settings | None = None,
        worker_timeout: float = 300.0,
        **kwargs: Any,
    ) -> None:
        self.run_settings, self.worker_timeout = run_settings, worker_timeout
        self.checked: set[str] = set()  # addresses of workers that have passed `check_workers`
        super().__init__(address, timeout=_CONNECT_SECONDS, **kwargs)

    async def _start(self, *args: Any, **kwargs: Any) -> Client:
        try:
            return await asyncio.wait_for(super()._start(*args, **kwargs), _CONNECT_SECONDS)
        except _NO_SCHEDULER:
            await self._close(fast=True)
            raise


@contextmanager
def connect(config: ClusterConfig, settings: Settings) -> Iterator[RunClient]:
    """Yield a client of the configured cluster. A cluster that the run starts ends with it."""
    user = dask.config.collect()  # the user's files and variables win over our defaults
    if "logging" not in user:
        # The run reports lost workers itself.
        for name in ("distributed", "asyncio", "tornado.application"):
            logging.getLogger(name).setLevel(SILENT)
    defaults = {
        key: value
        for key, value in _dask_defaults(config, settings).items()
        if dask.config.get(key, None, config=user) is None
    }
    page = settings.home / "dask.json"
    with dask.config.set(defaults), _client(config, settings, user) as client:
        # A scheduler that accepts no plugins repeats jobs itself; these repeats are counted then.
        with suppress(ValueError, RuntimeError):
            client.register_plugin(_return_lost_jobs())
        found = {"dashboard": client.dashboard_link, "pid": os.getpid()}
        write_atomic(page, json.dumps(found).encode())
        try:
            yield client
        finally:
            page.unlink(missing_ok=True)


def _dask_defaults(config: ClusterConfig, settings: Settings) -> dict[str, Any]:
    """Return Dask's settings for clusters of a run."""
    return {
        # Applies to arrays only: `_return_lost_jobs` returns jobs at once.
        "distributed.scheduler.allowed-failures": config.retries,
        # The graph of a pass over an array contains the matrix to multiply with.
        "distributed.admin.large-graph-warning-threshold": "1GiB",
        # No job waits on a worker, so that the death of a worker affects one job only.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.worker.profile.interval": "100ms",  # 10 ms costs time and shows no more
        "distributed.scheduler.worker-ttl": "60s",  # a stopped worker is given up after this
        # On a busy machine a new worker needs more than the usual 15 s.
        "distributed.deploy.lost-worker-timeout": "60s",
        "distributed.worker.memory.spill": False,
        # An adaptive cluster asks for one worker per waiting job, before any duration is known.
        "distributed.scheduler.default-task-durations": {_JOB.rstrip("-"): "60s"},
        **{f"{_SPAWN}.{name}": size for name, size in ALLOCATOR.items()},
        f"{_SPAWN}.FKD_HOME": str(settings.home),
        "temporary-directory": str(settings.home / "dask"),
    }


@contextmanager
def _client(config: ClusterConfig, settings: Settings, user: dict[str, Any]) -> Iterator[RunClient]:
    """Yield a client of a running scheduler, or of a cluster that is started for it."""
    options: Any = {"run_settings": settings, "worker_timeout": config.worker_timeout}
    address = config.address
    if config.cluster_class == LOCAL:  # a scheduler named by DASK_SCHEDULER_ADDRESS replaces it
        address = address or settings.dask_scheduler_address
    if address is None:
        with _started(config, user) as cluster, RunClient(cluster, **options) as client:
            yield client
        return
    certificates = named_certificates(config.tls, user, ["client"])
    address = agreed_address(address, certificates, plain=plain_allowed(user))
    certificates = certificates if address.startswith("tls:") else None
    try:
        client = RunClient(address, security=_security(certificates), **options)
    except _NO_SCHEDULER as error:
        reason = refusal(address, certificates, _REASON_SECONDS)
        raise UserError(
            reason
            or f"cluster.address must name a running Dask scheduler, but {address} did not answer "
            f"as one within {_CONNECT_SECONDS:g} s. Start one with `dask scheduler`, and workers "
            f"with `dask worker {address} --nthreads 1`."
        ) from error
    with client:
        yield client


def _security(certificates: Mapping[str, str] | None) -> Security:
    """Return Dask's security object, which requires encryption if there are certificates."""
    return Security(require_encryption=bool(certificates), **(certificates or {}))


@contextmanager
def _started(config: ClusterConfig, user: dict[str, Any]) -> Iterator[Any]:
    """Yield a new cluster whose workers are starting. It is closed afterwards."""
    # Workers start in a second step, in which Ctrl-C finds a cluster that can be closed.
    with spare_workers():
        cluster = _new_cluster(config, user)
    try:
        _check_encryption(cluster, config)
        _start_workers(cluster, config)
        yield cluster
    except BaseException:
        with defer_interrupt(), suppress(TimeoutError):
            cluster.sync(_kill_workers, cluster, callback_timeout=_CLOSE_SECONDS)
        raise
    finally:
        # Dask asserts that a worker whose start has failed had begun to close.
        with defer_interrupt(), suppress(AssertionError, TimeoutError):
            cluster.close(timeout=_CLOSE_SECONDS)


def _new_cluster(config: ClusterConfig, user: dict[str, Any]) -> Any:
    """Return a cluster of the configured class. A `SpecCluster` has no workers yet."""
    cluster_class = _import_class(config.cluster_class)
    accepted = inspect.signature(cluster_class).parameters
    given = config.arguments(read_secret)
    if given.get("security", True) is None:  # as if it were absent, not "without encryption"
        del given["security"]
    options: dict[str, Any] = {}
    if "silence_logs" in accepted:
        options["silence_logs"] = SILENT
    if "scheduler_options" in accepted:
        options["scheduler_options"] = {"dashboard_address": _DASHBOARD}
    elif "dashboard_address" in accepted:
        options["dashboard_address"] = _DASHBOARD
    certificates = named_certificates(config.tls, user) if "security" in accepted else None
    if certificates is not None:
        options["security"] = _security(certificates)
    if config.tls is not None and "security" not in accepted:
        raise UserError(
            f"cluster.tls must not be given with {config.cluster_class}, which has no parameter "
            "`security`. Encrypt the cluster by its own arguments in cluster.cluster_kwargs."
        )
    if issubclass(cluster_class, LocalCluster):
        options |= {"threads_per_worker": 1}
        encrypted = given.get("processes", True) and not plain_allowed(user)
        if encrypted and certificates is None:
            options["security"] = Security.temporary()
        if not encrypted:
            options.pop("security", None)
    if issubclass(cluster_class, SpecCluster) and "n_workers" in accepted:
        given["n_workers"] = 0
    try:
        return cluster_class(**{**options, **given})
    except UserError:
        raise
    except Exception as error:  # anything may be raised by a class that is not ours
        raise UserError(
            f"cluster.cluster_class {config.cluster_class} did not accept cluster.cluster_kwargs "
            f"({_cause(error)}). The class's documentation lists its arguments."
        ) from error


def _import_class(path: str) -> type:
    """Return the class of an import path; raise a UserError if it is not a Dask cluster."""
    if path == LOCAL:
        return LocalCluster
    rule = (
        "cluster.cluster_class must be local or the import path of a Dask cluster class such as "
        f"dask_jobqueue.PBSCluster, got {path!r}"
    )
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{rule}, which cannot be imported ({_cause(error)}). Correct the path, or install the "
            "package where the run starts."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Cluster)):
        raise UserError(f"{rule}, which is not a subclass of distributed.deploy.Cluster.")
    return found


def _check_encryption(cluster: Any, config: ClusterConfig) -> None:
    """Refuse a scheduler that accepts unencrypted connections from other machines."""
    address = str(cluster.scheduler_address)
    if config.insecure or address.startswith(("tls:", "inproc:")):
        return
    host = urlsplit(address).hostname or ""
    with suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    raise UserError(
        f"The scheduler of {config.cluster_class} must be encrypted, but it listens at {address} "
        "without TLS. Anybody who reaches this port can run code. Name certificates by "
        "cluster.tls, pass security=true in cluster.cluster_kwargs if the class accepts it, or "
        "set cluster.insecure=true on a network that you trust."
    )


def _start_workers(cluster: Any, config: ClusterConfig) -> None:
    """Start the first workers and wait until each runs, or its job is in the queue."""
    adapt = config.adapt_kwargs
    if not isinstance(cluster, SpecCluster):  # its constructor starts `n_workers` by itself
        if config.workers is not None:
            cluster.scale(config.workers)
    else:
        count = adapt.minimum if adapt else config.most_workers or os.cpu_count() or 1
        while len(cluster.worker_spec) < count:
            cluster.worker_spec.update(cluster.new_worker_spec())
        try:
            cluster.sync(ready, cluster, callback_timeout=_START_SECONDS)
        except Exception as error:  # whatever the workers of a class raise
            hint = "Correct cluster.cluster_kwargs, or ask for fewer by cluster.workers."
            if isinstance(cluster, LocalCluster) and not config.cluster_kwargs:
                hint = (
                    "They need memory (`ulimit -v`), processes (`ulimit -u`) and a writable "
                    "/dev/shm. Try --set cluster.workers=1."
                )
            raise UserError(
                f"The {count} workers of cluster.cluster_class {config.cluster_class} cannot "
                f"start ({_cause(error)}). {hint}"
            ) from error
    if adapt is not None:
        cluster.adapt(minimum=adapt.minimum, maximum=adapt.maximum)


async def _kill_workers(cluster: Any) -> None:
    """End local workers in the middle of their jobs. Stored results are kept."""
    workers = getattr(cluster, "workers", {}).values()
    for worker in workers:
        if worker.status == Status.created:  # its job was refused; a cluster would wait for it
            worker.status = Status.failed
    nannies = [worker for worker in workers if hasattr(worker, "kill")]
    await asyncio.gather(*(nanny.kill(timeout=0.2) for nanny in nannies), return_exceptions=True)


def _cause(error: BaseException) -> str:
    """Return the first cause of an error on one line, without secrets."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    text = str(error)
    if "stderr:" in text:  # of a queue's command, as dask-jobqueue reports it
        text = text.partition("stderr:")[2]
    return scrubbed(" ".join(text.split()))[:400] or type(error).__name__


def _return_lost_jobs() -> SchedulerPlugin:
    """Return a scheduler plugin that gives a job back as soon as its worker has died.

    Without it, the scheduler tries the job `allowed-failures` times before the client learns of
    it. Tasks of others keep that behaviour. The class is local, so that pickle sends its code:
    a scheduler need not have this package.
    """

    class ReturnLostJobs(SchedulerPlugin):
        name = "fkd-return-lost-jobs"
        idempotent = True

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler

        def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
            if finish == "processing" and str(key).startswith(_JOB):
                self.scheduler.tasks[key].suspicious = self.scheduler.allowed_failures

    return ReturnLostJobs()


def submit(
    client: Client, function: Callable[[Any], Any], job: Any, *, topic: str, index: int
) -> Any:
    """Return the future of a job. The job logs its start to the topic; low indices go first."""
    # A repeated job needs a key of its own, or Dask would return the first try's result.
    key = f"{_JOB}{uuid4().hex}"
    return client.submit(_announced, function, job, topic, index, key=key, priority=-index)


def _announced(function: Callable[[Any], Any], job: Any, topic: str, index: int) -> Any:
    """Run a job on a worker, after the scheduler has confirmed the message of its start.

    An unconfirmed message would be lost if the job stopped the process, and the client would not
    know since when the job runs.
    """
    worker = get_worker()
    message = {"index": index, "worker": worker.address}
    sync(
        worker.loop,
        worker.scheduler.log_event,
        topic=topic,
        msg=message,
        callback_timeout=_ANNOUNCE_SECONDS,
    )
    return function(job)


# A scheduler that has ended, is busy, or lacks the package that draws the page.
_REPORT_FAULTS = (OSError, ImportError, AttributeError, RuntimeError, TypeError, ValueError)


def is_reported(config: ClusterConfig, client: Any) -> bool:
    """Return True if Dask's report is wanted: by default, of processes that the run started."""
    if config.report is not None:
        return config.report
    inside = str(client.scheduler.address).startswith("inproc:")
    return client.cluster is not None and not inside


@contextmanager
def performance(
    client: Any, keep: Callable[[bytes], None], warn: Callable[[str], None]
) -> Iterator[None]:
    """Keep Dask's performance report of the block, or warn why there is none.

    A missing report never fails a run. There is none if the block raises.
    """
    start, faults = time.time(), list[BaseException]()
    try:
        # pickle sends the code of a lambda: a scheduler need not have this package.
        count = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.monitor.count)
        client.get_task_stream(start=0, stop=0)  # starts the recording of tasks
    except _REPORT_FAULTS as error:
        faults.append(error)
    yield
    try:
        if not faults:
            page = client.sync(
                client.scheduler.performance_report,
                start=start,
                last_count=count,
                code="",
                mode="inline",  # the page opens from disk, without the network
                callback_timeout=_REPORT_SECONDS,
            )
            keep(page.encode())
    except _REPORT_FAULTS as error:
        faults.append(error)
    for fault in faults:
        cause = " ".join(str(fault).split())[:200]
        warn(f"no performance report by Dask ({type(fault).__name__}: {cause})")
