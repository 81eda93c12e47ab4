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
from tasks.cluster.workers import Muster, check_connected, end_worker, is_foreign
from tasks.storage.backends import StoreUnreachableError

_POLL_SECONDS = 1.0
_LOOK_SECONDS = 5.0
_RESULT_SECONDS = 60.0
_BESIDE = 20  # times that a job which never began may be lost with another one's worker
# What a person must cure, such as a file that is not there: another try would raise it again.
_LASTING = frozenset(
    getattr(errno, name)
    for name in ("ENOENT", "EACCES", "EPERM", "ENOTDIR", "EISDIR", "EROFS", "ENOSPC", "EDQUOT")
)


@dataclass(frozen=True)
class Failed:
    """A job that gave no result, with its cause."""

    job: Any
    cause: str


def _nothing(told: Any) -> None:
    """Hear of something without doing anything."""


def run_jobs(
    client: Any,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    retries: int,
    time_limit: float,
    done: Callable[[Any], None] = _nothing,
    keep: Callable[[Any, Any], None] | None = None,
    say: Callable[[str], None] = _nothing,
    begun: Callable[[tuple[Any, str]], None] = _nothing,
) -> list[Failed]:
    """Return the jobs that failed; `done` hears of each finished one, `keep` of its result too.

    A job whose worker died, or that met a passing fault of files or network, is executed again at
    most `retries` times; one that raises otherwise is not, because it would raise again. A job that
    runs longer than `time_limit` seconds is given up and its worker restarted. A `UserError` on a
    worker concerns all jobs, as does a store that never answers, hence ends the run. `say` hears
    what is waited for, `begun` of every job that a worker begins, with its address.
    """
    board = _Board(client, function, jobs, retries, Muster(client, say), begun)
    # A worker that lacks the package ends itself at the first job, before it could be asked.
    board.muster.wait()
    for index in range(len(jobs)):
        board.submit(index)
    while board.pending:
        for index, future in board.finished():
            board.settle(index, future, done, keep)
        board.give_up_overdue(time_limit)
        board.look_after_workers()
    return board.failed


def run_here(
    function: Callable[[Any], Any], jobs: Sequence[Any], *, done: Callable[[Any], None] = _nothing
) -> list[Failed]:
    """Return the jobs that failed, computed one after another in this process.

    For jobs whose work lies on the cluster as arrays: whoever holds these must outlive workers.
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
            done(job)
    return failed


@dataclass
class _Board:
    """Who computes which job, since when, how often it was tried."""

    client: Any
    function: Callable[[Any], Any]
    jobs: Sequence[Any]
    retries: int
    muster: Muster
    heard: Callable[[tuple[Any, str]], None] = _nothing
    failed: list[Failed] = field(default_factory=list)
    pending: dict[int, Any] = field(default_factory=dict)  # job: its future
    sent: Counter[int] = field(default_factory=Counter)  # how often a job was submitted
    begun: Counter[int] = field(default_factory=Counter)  # how often a worker began it
    started: dict[int, tuple[str, float]] = field(default_factory=dict)  # job: worker, since
    held: int = 0  # threads that given up jobs will never return
    looked: float = field(default_factory=time.monotonic)
    topic: str = field(default_factory=lambda: f"fkd-{uuid4().hex}")
    inbox: "queue.SimpleQueue[tuple[int, Any]]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.client.subscribe_topic(self.topic, self._hear)

    def _hear(self, event: tuple[float, Any]) -> None:
        """Note that a worker has begun a job."""
        said = event[1]
        self.begun[said["index"]] += 1
        self.started[said["index"]] = (said["worker"], time.monotonic())
        self.heard((self.jobs[said["index"]], str(said["worker"])))

    def submit(self, index: int) -> None:
        """Send one job; earlier ones go first, so that all fronts fill in evenly."""
        self.sent[index] += 1
        future = submit(self.client, self.function, self.jobs[index], topic=self.topic, index=index)
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
        error, result = _outcome(future, wanted=keep is not None)
        if error is None:
            if keep is not None:
                keep(self.jobs[index], result)
            done(self.jobs[index])
        elif isinstance(error, UserError):
            raise UserError(str(error)) from error
        elif _passes(error) and self._tries(index) <= self.retries:
            self.submit(index)
        elif isinstance(error, StoreUnreachableError):
            raise UserError(str(error)) from error  # no other job could keep its result either
        else:
            self._fail(index, _cause(error))

    def _tries(self, index: int) -> int:
        """Return how often a job was executed, whether we asked for it or a foreign scheduler did.

        There jobs also wait on workers, and come back unbegun when another one's death ends it.
        """
        unbegun = _BESIDE if is_foreign(self.client) else 0
        return max(self.begun[index], self.sent[index] - unbegun)

    def _fail(self, index: int, cause: str) -> None:
        self.failed.append(Failed(self.jobs[index], cause))

    def give_up_overdue(self, time_limit: float) -> None:
        """Fail the jobs that run too long, restart their workers."""
        now = time.monotonic()
        for index, (worker, since) in list(self.started.items()):
            if now - since <= time_limit or index not in self.pending:
                continue
            self.pending.pop(index).cancel(force=True)
            self.started.pop(index, None)
            limit = f"cluster.time_limit ({time_limit:g} s)"
            self._fail(index, f"TimeoutError: it ran longer than {limit}")
            self.held += not end_worker(self.client, worker)

    def look_after_workers(self) -> None:
        """Stop waiting where nobody is left to compute anything."""
        check_connected(self.client)
        now = time.monotonic()
        if now - self.looked < _LOOK_SECONDS:
            return
        self.looked, threads = now, self.muster.look()
        if 0 < threads <= self.held:
            for index in list(self.pending):
                self.pending.pop(index).cancel(force=True)
                self._fail(index, "TimeoutError: jobs over their time limit hold every thread")


def _outcome(future: Any, *, wanted: bool) -> tuple[BaseException | None, Any]:
    """Return the error of a future that has ended, else its result if that is wanted."""
    try:
        if future.status == "error":
            return future.exception(), None
        if future.status != "finished":
            return ConnectionError(f"the job was {future.status} on the cluster"), None
        # Taken at once: what lies on a worker is lost with it.
        return None, future.result(timeout=_RESULT_SECONDS) if wanted else None
    except PASSING as error:
        return error, None


def _passes(error: BaseException) -> bool:
    """Return whether another try may mend an error."""
    return isinstance(error, PASSING) and getattr(error, "errno", None) not in _LASTING


def _cause(error: BaseException) -> str:
    """Return why a job gave no result, as one line."""
    if isinstance(error, WorkerDiedError):
        return (
            "KilledWorker: its worker died each time it was tried (killed, stopped, out of memory)"
        )
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
