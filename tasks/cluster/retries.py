"""Run jobs on a cluster with retries, time limits and replacement of lost workers."""

import errno
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from configs.errors import UserError
from tasks.cluster.cluster import PASSING, WorkerDiedError, submit
from tasks.cluster.workers import WorkerMonitor, check_connected, end_worker, is_foreign
from tasks.storage.backends import StoreUnreachableError

_POLL_SECONDS = 1.0
_LOOK_SECONDS = 5.0
_RESULT_SECONDS = 60.0
_UNBEGUN = 20  # submissions of a job that never began, on a scheduler that others started
# Faults that a person must mend, such as a missing file: another try would raise them again.
_LASTING = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS),
    *(errno.ENOSPC, errno.EDQUOT),
}


@dataclass(frozen=True)
class Failed:
    """A job without a result, and the cause."""

    job: Any
    cause: str


def _ignore(*_: Any) -> None:
    """Do nothing."""


def run_jobs(
    client: Any,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    retries: int,
    time_limit: float,
    on_start: Callable[[Any, str], None] = _ignore,
    on_result: Callable[[Any, Any], None] | None = None,
    on_done: Callable[[Any], None] = _ignore,
    log: Callable[[str], None] = _ignore,
) -> list[Failed]:
    """Compute jobs on a cluster and return those that failed.

    A job is repeated at most `retries` times if its worker died or if it met a passing fault of
    files or network. Other exceptions are not repeated. A job that runs longer than `time_limit`
    seconds is given up and its worker restarted. A `UserError` on a worker, or a store that cannot
    be reached, concerns all jobs and ends the run.

    Parameters
    ----------
    client
        A `RunClient`.
    function, jobs
        The function is called on a worker with one job.
    on_start
        Called with a job and the address of the worker that has begun it.
    on_result
        Called with a finished job and its result. Results are not fetched without it.
    on_done
        Called with each finished job.
    log
        Receives messages about missing workers.
    """
    queued = _JobQueue(client, function, jobs, retries, WorkerMonitor(client, log), on_start)
    # A worker without the package would end itself at the first job, before the check.
    queued.monitor.wait()
    for index in range(len(jobs)):
        queued.submit(index)
    while queued.pending:
        for index, future in queued.finished():
            queued.handle(index, future, on_done, on_result)
        queued.cancel_overdue(time_limit)
        queued.check_workers()
    return queued.failed


def run_here(
    function: Callable[[Any], Any], jobs: Sequence[Any], *, on_done: Callable[[Any], None] = _ignore
) -> list[Failed]:
    """Compute jobs one after another in this process and return those that failed.

    For jobs whose arrays are on the cluster: the process that owns these must outlive workers.
    """
    failed = []
    for job in jobs:
        try:
            function(job)
        except (UserError, StoreUnreachableError):
            raise
        except Exception as error:
            failed.append(Failed(job, _cause(error)))
        else:
            on_done(job)
    return failed


@dataclass
class _JobQueue:
    """Pending jobs with their workers, start times and number of tries."""

    client: Any
    function: Callable[[Any], Any]
    jobs: Sequence[Any]
    retries: int
    monitor: WorkerMonitor
    on_start: Callable[[Any, str], None]
    failed: list[Failed] = field(default_factory=list)
    pending: dict[int, Any] = field(default_factory=dict)  # future by job
    submitted: Counter[int] = field(default_factory=Counter)
    begun: Counter[int] = field(default_factory=Counter)
    started: dict[int, tuple[str, float]] = field(default_factory=dict)  # worker and time by job
    held: int = 0  # threads of cancelled jobs that never return
    checked: float = field(default_factory=time.monotonic)
    topic: str = field(default_factory=lambda: f"fkd-{uuid4().hex}")
    inbox: "queue.SimpleQueue[tuple[int, Any]]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.client.subscribe_topic(self.topic, self._note_start)

    def _note_start(self, event: tuple[float, Any]) -> None:
        """Note that a worker has begun a job."""
        index, worker = event[1]["index"], str(event[1]["worker"])
        self.begun[index] += 1
        self.started[index] = (worker, time.monotonic())
        self.on_start(self.jobs[index], worker)

    def submit(self, index: int) -> None:
        """Send one job to the cluster; earlier jobs have priority."""
        self.submitted[index] += 1
        future = submit(self.client, self.function, self.jobs[index], topic=self.topic, index=index)
        self.pending[index] = future
        future.add_done_callback(lambda f: self.inbox.put((index, f)))

    def finished(self) -> Iterator[tuple[int, Any]]:
        """Yield futures that have ended, after a short wait for the first."""
        try:
            yield self.inbox.get(timeout=_POLL_SECONDS)
            while True:
                yield self.inbox.get_nowait()
        except queue.Empty:
            return

    def handle(
        self,
        index: int,
        future: Any,
        on_done: Callable[[Any], None],
        on_result: Callable[[Any, Any], None] | None,
    ) -> None:
        """Pass on the result of a job, submit it again, or keep the cause of its failure."""
        if index not in self.pending or self.pending[index] is not future:
            return  # it was cancelled meanwhile
        del self.pending[index]
        self.started.pop(index, None)
        error, result = _outcome(future, wanted=on_result is not None)
        if error is None:
            if on_result is not None:
                on_result(self.jobs[index], result)
            on_done(self.jobs[index])
        elif isinstance(error, UserError):
            raise UserError(str(error)) from error
        elif (
            isinstance(error, PASSING)
            and getattr(error, "errno", None) not in _LASTING
            and self._tries(index) <= self.retries
        ):
            self.submit(index)
        elif isinstance(error, StoreUnreachableError):
            raise UserError(str(error)) from error  # no other job could store its result either
        else:
            self._fail(index, _cause(error))

    def _tries(self, index: int) -> int:
        """Return how often a job was executed, by us or by a scheduler that repeats jobs itself.

        On such a scheduler a job can come back unbegun, if it waited on a worker that died.
        """
        unbegun = _UNBEGUN if is_foreign(self.client) else 0
        return max(self.begun[index], self.submitted[index] - unbegun)

    def _fail(self, index: int, cause: str) -> None:
        self.failed.append(Failed(self.jobs[index], cause))

    def cancel_overdue(self, time_limit: float) -> None:
        """Cancel jobs that run too long and restart their workers."""
        now = time.monotonic()
        for index, (worker, since) in list(self.started.items()):
            if now - since <= time_limit or index not in self.pending:
                continue
            self.pending.pop(index).cancel(force=True)
            self.started.pop(index, None)
            limit = f"cluster.time_limit ({time_limit:g} s)"
            self._fail(index, f"TimeoutError: it ran longer than {limit}")
            self.held += not end_worker(self.client, worker)

    def check_workers(self) -> None:
        """End the run, or fail the remaining jobs, if nothing can compute them."""
        check_connected(self.client)
        now = time.monotonic()
        if now - self.checked < _LOOK_SECONDS:
            return
        self.checked, threads = now, self.monitor.check()
        if 0 < threads <= self.held:
            for index in list(self.pending):
                self.pending.pop(index).cancel(force=True)
                self._fail(index, "TimeoutError: jobs over their time limit hold every thread")


def _outcome(future: Any, *, wanted: bool) -> tuple[BaseException | None, Any]:
    """Return the error of a future that has ended, or its result if that is wanted."""
    try:
        if future.status == "error":
            return future.exception(), None
        if future.status != "finished":
            return ConnectionError(f"the job was {future.status} on the cluster"), None
        # Fetched at once: a result that stays on its worker is lost with it.
        return None, future.result(timeout=_RESULT_SECONDS) if wanted else None
    except PASSING as error:
        return error, None


def _cause(error: BaseException) -> str:
    """Return the cause of a failure on one line."""
    if isinstance(error, WorkerDiedError):
        return (
            "KilledWorker: its worker died each time it was tried (killed, stopped, out of memory)"
        )
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
