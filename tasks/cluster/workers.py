"""Workers of a cluster: wait for them, check them before their first job, replace lost ones."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import fkd
from configs.errors import UserError
from tasks.storage.environment import own_kernels
from tasks.storage.records import code_versions
from tasks.storage.settings import Settings, short_error
from tasks.storage.store import open_store

_RESTART_SECONDS = 10
_ANSWER_SECONDS = 30
_CHECK_SECONDS = 300.0  # a connected worker that does not answer is no longer waited for
_LOG_SECONDS = 10.0  # until the first message about missing workers
_POLL_SECONDS = 0.2
_SHOWN = 3  # workers in a message
_FAULT_LENGTH = 160
_GONE = frozenset({"closed", "failed", "created"})
_AGAIN = "Then run the same command: computed results are kept."


def worker_memory(client: Any) -> int | None:
    """Return the memory limit of the smallest worker in bytes, None without limits."""
    limits = [limit for w in _workers(client).values() if (limit := w["memory_limit"])]
    return min(limits, default=None)


def cluster_memory(client: Any) -> int | None:
    """Return the sum of the workers' memory limits in bytes, None if a worker has none."""
    limits = [worker["memory_limit"] for worker in _workers(client).values()]
    return sum(limits) if limits and all(limits) else None


def worker_kernels(client: Any) -> Counter[str]:
    """Return how many workers compute with which BLAS kernels."""
    answers = ask_workers(client, own_kernels).values()
    return Counter(kernels for kernels in answers if not isinstance(kernels, Exception))


def ask_workers(
    client: Any, function: Callable[[], Any], workers: Collection[str] | None = None
) -> dict[str, Any]:
    """Return by address what each worker answers, or its exception. Silent workers are left out."""
    asked = None if workers is None else list(workers)
    try:
        # `client.run` alone would wait without limit for a worker that is stopped.
        answers: dict[str, Any] = client.sync(
            client.run, function, workers=asked, on_error="return", callback_timeout=_ANSWER_SECONDS
        )
    except OSError:
        return {}
    return answers


def is_foreign(client: Any) -> bool:
    """Return True if the run connected to a scheduler that it did not start."""
    return client.cluster is None


def count_threads(client: Any) -> int:
    """Return how many jobs can run at once. Lost workers of our own cluster are started again."""
    if hasattr(client.cluster, "worker_spec"):
        client.cluster.sync(_refill, client.cluster)
    return sum(worker["nthreads"] for worker in _workers(client).values())


def end_worker(client: Any, worker: str) -> bool:
    """End a worker that hangs; return False if it cannot be ended. Its nanny starts another."""
    if not worker.startswith(("tcp", "tls")):
        return False  # a thread of this process
    try:
        client.restart_workers([worker], timeout=_RESTART_SECONDS, raise_for_error=False)
    except (KeyError, OSError):
        return True  # the worker or the scheduler has ended meanwhile
    except ValueError:
        return False  # the worker has no nanny
    return True


def check_connected(client: Any) -> None:
    """Raise a UserError if the scheduler has ended. Every future is lost with it."""
    if client.status != "running":
        raise UserError(f"The Dask scheduler has ended. Start it again. {_AGAIN}")


def _workers(client: Any) -> dict[str, dict[str, Any]]:
    """Return the scheduler's record of each worker by address; empty if it does not answer."""
    try:
        answer = client.sync(
            client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_SECONDS
        )
    except OSError:
        return {}  # the connection is lost, which `check_connected` reports
    found: dict[str, dict[str, Any]] = answer["workers"]
    return found


_refills: set["asyncio.Task[None]"] = set()  # the event loop keeps weak references only


async def _refill(cluster: Any) -> None:
    """Start workers for those whose nannies have given up because a start failed."""
    # A job that the queue did not accept keeps the status `created`.
    gone = [name for name, worker in cluster.workers.items() if worker.status.name in _GONE]
    for name in gone:
        del cluster.workers[name]
    if len(cluster.workers) < len(cluster.worker_spec):
        task = asyncio.create_task(ready(cluster))
        _refills.add(task)
        task.add_done_callback(_refilled)


async def ready(cluster: Any) -> None:
    """Wait until the workers of a cluster have started."""
    await cluster


def _refilled(task: "asyncio.Task[None]") -> None:
    """Drop a refill; a failed one is repeated at the next check."""
    _refills.discard(task)
    if not task.cancelled():
        task.exception()


@dataclass
class WorkerMonitor:
    """Wait for workers, and end the run if there is none for too long.

    Parameters
    ----------
    client
        A `RunClient`.
    log
        Receives messages about missing workers.
    """

    client: Any
    log: Callable[[str], None]
    seen: float = field(default_factory=time.monotonic)  # when a worker was last connected
    logged: bool = False

    def wait(self) -> None:
        """Wait for the first worker, and until the connected workers have passed their check.

        A worker that does not answer is not waited for without limit. It is checked again later.
        """
        deadline = time.monotonic() + _CHECK_SECONDS
        while not self.check():
            time.sleep(_POLL_SECONDS)
            deadline = time.monotonic() + _CHECK_SECONDS
        while set(_workers(self.client)) - self.client.checked and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            self.check()

    def check(self) -> int:
        """Return how many jobs can run at once, after checks of new workers.

        Raise a UserError if a worker cannot do the work, or if none has come for too long.
        """
        threads, now = count_threads(self.client), time.monotonic()
        if threads:
            self.seen, self.logged = now, False
            check_workers(self.client)
        elif now - self.seen > self.client.worker_timeout:
            raise UserError(
                f"No worker connected to {self.client.scheduler.address} within "
                f"{self.client.worker_timeout:g} s (cluster.worker_timeout){self._jobs()}. "
                f"{self._remedy()} {_AGAIN}"
            )
        elif now - self.seen > _LOG_SECONDS and not self.logged:
            self.logged = True
            self.log(
                f"waiting for a Dask worker at {self.client.scheduler.address} (none connected "
                f"within {_LOG_SECONDS:g} s){self._jobs()}"
            )
        return threads

    def _jobs(self) -> str:
        """Return the state of the workers' jobs in a queue, if the cluster class describes it."""
        describe = getattr(self.client.cluster, "describe_jobs", None)
        return f": {text}" if describe and (text := describe()) else ""

    def _remedy(self) -> str:
        """Return what the user can do about missing workers."""
        if hasattr(self.client.cluster, "describe_jobs"):
            return "Read the logs of jobs that ended, or raise cluster.worker_timeout."
        if not is_foreign(self.client):
            return "Start fewer workers, for instance by --set cluster.workers=1."
        where = str(self.client.scheduler.address)
        keys = " --tls-ca-file CA --tls-cert CERT --tls-key KEY" if where[:4] == "tls:" else ""
        return f"Start one with fkd {fkd.__version__}: `dask worker {where} --nthreads 1{keys}`."


@dataclass(frozen=True)
class Answer:
    """Answer of a worker to `answer_check`."""

    package: str
    versions: Mapping[str, int]
    found: bool  # the driver's probe in the store
    wrote: str = ""  # name of the worker's own probe
    fault: str = ""  # error of the store


def check_workers(client: Any) -> None:
    """Check threads, package and store of every new worker; raise a UserError at a fault.

    Workers of a `LocalCluster` share this process's package and disk: only their threads count.
    """
    new = {where: w for where, w in _workers(client).items() if where not in client.checked}
    _refuse(
        {
            where: f"has {worker['nthreads']}" if worker["nthreads"] != 1 else ""
            for where, worker in new.items()
        },
        "have one thread, because trials set the number of BLAS threads per process",
        "Set threads_per_worker: 1, or the class's own name for it, in cluster.cluster_kwargs. "
        "Start workers of your own with `--nthreads 1`, more of them for more cores.",
    )
    if type(client.cluster).__name__ == "LocalCluster":
        client.checked |= set(new)
        return
    if not new:
        return
    nonce, probe = uuid4().hex, ""
    settings = client.run_settings
    if settings is not None:
        probe = f"probes/{nonce}"
        open_store(settings).write(probe, nonce.encode())
    asked = None if settings is None else settings.for_workers()
    answers = {
        where: answer
        for where, answer in ask_workers(client, partial(answer_check, asked, nonce), new).items()
        # An OSError without number is Dask's: the connection broke, and the next check asks again.
        if not (isinstance(answer, OSError) and answer.errno is None)
    }
    client.checked |= set(answers)
    try:
        _judge(answers, nonce, settings)
    finally:
        names = [probe, *(a.wrote for a in answers.values() if isinstance(a, Answer))]
        for name in filter(None, names):
            open_store(settings).remove(name)


def _judge(answers: Mapping[str, Any], nonce: str, settings: Settings | None) -> None:
    """Raise a UserError for the first kind of fault among the answers."""
    _refuse(
        {where: _difference(answer) for where, answer in answers.items()},
        f"have the package of this run, fkd {fkd.__version__}",
        "Install it in the workers' environment, or end these workers.",
    )
    if settings is None:
        return
    store = open_store(settings)

    def fault(answer: Answer) -> str:
        if answer.fault:
            return f"cannot ({answer.fault})"
        if not answer.found:
            return "cannot read what the driver wrote"
        return "" if store.read(answer.wrote) == nonce.encode() else "writes to another place"

    _refuse(
        {where: fault(answer) for where, answer in answers.items()},
        f"read and write the store of this run, {store.backend.address}",
        "Set FKD_STORE to a location that driver and workers can reach: a shared folder, or "
        "s3://bucket/folder with the AWS_* variables of each machine.",
    )


def answer_check(settings: Settings | None, nonce: str) -> Answer:
    """Return, on a worker, its package and whether it can use the store."""
    answer = Answer(fkd.__version__, code_versions(), found=True)
    if settings is None:
        return answer
    wrote = f"probes/{nonce}-{uuid4().hex}"
    try:
        store = open_store(settings)
        if store.read(f"probes/{nonce}") != nonce.encode():
            return replace(answer, found=False)
        store.write(wrote, nonce.encode())
    except (UserError, OSError) as error:
        return replace(answer, found=False, fault=short_error(error, _FAULT_LENGTH))
    return replace(answer, wrote=wrote)


def _difference(answer: Any) -> str:
    """Return how a worker's package differs from this process's, empty if it does not."""
    if isinstance(answer, Exception):
        return f"has none ({short_error(answer, _FAULT_LENGTH)})"
    if answer.package != fkd.__version__:
        return f"has fkd {answer.package}"
    own, theirs = code_versions(), answer.versions
    other = [
        f"{name} {theirs.get(name, 'absent')} instead of {own.get(name, 'absent')}"
        for name in sorted({*own, *theirs})
        if own.get(name) != theirs.get(name)
    ]
    return f"has {', '.join(other[:_SHOWN])}" if other else ""


def _refuse(faults: Mapping[str, str], rule: str, remedy: str) -> None:
    """Raise a UserError that names the workers with a fault, if there are any."""
    named = [f"{where} {fault}" for where, fault in sorted(faults.items()) if fault]
    if named:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        raise UserError(
            f"Dask workers must {rule}, but {', '.join(named[:_SHOWN])}{more}. {remedy} {_AGAIN}"
        )
