"""Wait for workers, check their versions and settings, and replace lost ones."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import fkd
from configs.errors import UserError
from fkd import __version__
from tasks.cluster.slurm import queue_state, queued_jobs
from tasks.storage.environment import own_kernels
from tasks.storage.records import code_versions
from tasks.storage.settings import Settings, scrubbed
from tasks.storage.store import open_store

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


_NAMED = 3  # workers, in a sentence
_SENTENCE = 160  # characters of what a worker says of its fault
_AGAIN = "then run the same command: what was computed is kept."


@dataclass(frozen=True)
class Answer:
    """What a worker says of itself."""

    package: str
    versions: Mapping[str, int]
    saw: bool  # what the driver had written into the store
    wrote: str = ""  # the name of the blob that it wrote for the driver
    fault: str = ""  # why it cannot use the store


@dataclass
class Preflight:
    """The workers of one connection that have been asked, what they are asked for.

    Parameters
    ----------
    settings
        Of the run, whose store the workers must see; None where only the package counts.
    """

    settings: Settings | None = None
    asked: set[str] = field(default_factory=set)

    def unasked(self, client: Any) -> set[str]:
        """Return the workers that have not answered yet."""
        return workers_of_others(client) - self.asked

    def check(self, client: Any) -> None:
        """Raise where a worker that has not answered yet cannot do the work."""
        new = self.unasked(client)
        if not new:
            return
        nonce, note = uuid4().hex, ""
        if self.settings is not None:
            note = f"probes/{nonce}"
            open_store(self.settings).write(note, nonce.encode())
        settings = None if self.settings is None else self.settings.for_workers()
        told = {
            where: found
            for where, found in ask_workers(client, partial(answer, settings, nonce), new).items()
            # Without an error number it is Dask's: the connection broke, as if the worker died.
            # The worker is asked again at the next look if it is still there.
            if not (isinstance(found, OSError) and found.errno is None)
        }
        self.asked |= set(told)
        try:
            self._judge(told, nonce)
        finally:
            self._clear([note, *(a.wrote for a in told.values() if isinstance(a, Answer))])

    def _judge(self, told: Mapping[str, Any], nonce: str) -> None:
        """Raise for the first kind of fault that workers have."""
        _refuse(
            {where: _difference(found) for where, found in told.items()},
            f"have the package of this run, fkd {fkd.__version__}",
            "install it where they start, or end them",
        )
        if self.settings is None:
            return
        store = open_store(self.settings)
        _refuse(
            {where: self._unseen(found, nonce) for where, found in told.items()},
            f"read and write the store of this run, {store.backend.address}",
            "let FKD_STORE be a place that driver and workers see: a folder that all of them "
            "mount, or s3://bucket/folder with the AWS_* variables of each machine",
        )

    def _unseen(self, found: Any, nonce: str) -> str:
        """Return why a worker and the driver do not see one store, nothing where they do."""
        if found.fault:
            return f"cannot ({found.fault})"
        if not found.saw:
            return "does not find there what was just written"
        assert self.settings is not None
        seen = open_store(self.settings).read(found.wrote) == nonce.encode()
        return "" if seen else "writes there what is not to be seen here"

    def _clear(self, names: list[str]) -> None:
        """Remove the notes that were exchanged."""
        for name in filter(None, names):
            if self.settings is not None:
                open_store(self.settings).remove(name)


_OF_CLIENTS: WeakKeyDictionary[Any, Preflight] = WeakKeyDictionary()


def enrol(client: Any, settings: Settings) -> None:
    """Have the workers of a connection asked for a run's store too."""
    _OF_CLIENTS[client] = Preflight(settings)


def preflight_of(client: Any) -> Preflight:
    """Return what is known of the workers of a connection."""
    return _OF_CLIENTS.setdefault(client, Preflight())


def answer(settings: Settings | None, nonce: str) -> Answer:
    """Return, on a worker, what it is and whether it sees the store."""
    if settings is None:
        return Answer(fkd.__version__, code_versions(), saw=True)
    wrote = f"probes/{nonce}-{uuid4().hex}"
    try:
        store = open_store(settings)
        if store.read(f"probes/{nonce}") != nonce.encode():
            return Answer(fkd.__version__, code_versions(), saw=False)
        store.write(wrote, nonce.encode())
    except (UserError, OSError) as error:
        return Answer(fkd.__version__, code_versions(), saw=False, fault=_short(error))
    return Answer(fkd.__version__, code_versions(), saw=True, wrote=wrote)


def _difference(found: Any) -> str:
    """Return in which package a worker differs from this process, nothing where in none."""
    if isinstance(found, Exception):
        return f"has none ({_short(found)})"
    if found.package != fkd.__version__:
        return f"has fkd {found.package}"
    own, theirs = code_versions(), found.versions
    other = [
        f"{name} {theirs.get(name, 'absent')} instead of {own.get(name, 'absent')}"
        for name in sorted({*own, *theirs})
        if own.get(name) != theirs.get(name)
    ]
    return f"has {', '.join(other[:_NAMED])}" if other else ""


def _refuse(faults: Mapping[str, str], rule: str, cure: str) -> None:
    """Raise one sentence on the workers that have a fault."""
    named = [f"{where} {fault}" for where, fault in sorted(faults.items()) if fault]
    if not named:
        return
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    raise UserError(
        f"Dask workers must {rule}, but {', '.join(named[:_NAMED])}{more}; {cure}, {_AGAIN}"
    )


def _short(error: Exception) -> str:
    """Return what a worker met in a few words."""
    return scrubbed(" ".join(str(error).split()))[:_SENTENCE].rstrip(".;, ")


_TELL_SECONDS = 10.0  # what is waited for is told after so long
_POLL_SECONDS = 0.2
_SILENT_SECONDS = 300.0  # a worker that is there has so long to say what it is


@dataclass
class Muster:
    """Who is there to compute, since when nobody is."""

    client: Any
    say: Callable[[str], None]
    manned: float = field(default_factory=time.monotonic)  # when a worker was last seen
    told: bool = False

    def wait(self) -> None:
        """Return once there is a worker, and those that are there have answered.

        One that stays silent is not waited for without end; it is asked again at every look.
        """
        silent = time.monotonic() + _SILENT_SECONDS
        while not self.look():
            time.sleep(_POLL_SECONDS)
            silent = time.monotonic() + _SILENT_SECONDS
        while preflight_of(self.client).unasked(self.client) and time.monotonic() < silent:
            time.sleep(_POLL_SECONDS)
            self.look()

    def look(self) -> int:
        """Return how many jobs can run at once; raise where nobody comes, or a stranger does."""
        threads, now = threads_at_work(self.client), time.monotonic()
        if threads:
            self.manned, self.told = now, False
            preflight_of(self.client).check(self.client)
        elif now - self.manned > self.client.patience:
            raise UserError(
                f"no Dask worker at {self._address()} has been there for "
                f"{self.client.patience:g} s (cluster.worker_wait){self._queue()}; "
                f"{self._cure()}, then run the same command: what was computed is kept."
            )
        elif now - self.manned > _TELL_SECONDS and not self.told:
            self.told = True
            self.say(
                f"waiting for a Dask worker at {self._address()} (none has come within "
                f"{_TELL_SECONDS:g} s){self._queue()}"
            )
        return threads

    def _address(self) -> str:
        """Return where workers find the scheduler."""
        return str(self.client.scheduler.address)

    def _queue(self) -> str:
        """Return what a queue says of the workers' jobs."""
        told = queue_state(self.client.cluster)
        return f": SLURM says that {told}" if told else ""

    def _cure(self) -> str:
        """Return what helps."""
        if queued_jobs(self.client.cluster):
            return (
                "jobs that ended by themselves have written why into cluster.slurm.logs "
                "(FKD_HOME/dask/slurm); for a long queue wait longer (--set "
                "cluster.worker_wait=86400) or ask for less"
            )
        if not is_foreign(self.client):
            return "give the machine's memory to fewer of them (--set cluster.workers=1)"
        where = self._address()
        keys = " --tls-ca-file CA --tls-cert CERT --tls-key KEY" if where[:4] == "tls:" else ""
        return f"start one, with fkd {__version__}, by `dask worker {where}{keys}`"
