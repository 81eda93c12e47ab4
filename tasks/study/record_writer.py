"""Records on their way to the store while the next fits are computed."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from fkd.core.arrays import Array
from tasks.adapters.store import TrialRecord, TrialStore


class RecordWriter:
    """Writes one record at a time beside whoever makes the next; leaving it waits for the last.

    One is on its way at most: a process that is killed loses what it computes, with no more than
    the record before. A store that takes nothing is told by the next record, or by leaving; where
    a fit has failed too, the store's fault counts, which concerns every fit to come.
    """

    def __init__(self, store: TrialStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fkd-records")
        self._sent: Future[None] | None = None

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Also where a fit has failed: what was computed before it is kept.
        with self._thread:
            try:
                self._wait()
            except Exception:
                if error is None or isinstance(error, Exception):
                    raise  # else the process is to end, whatever the store says

    def write(self, record: TrialRecord, y_pred: Array | None) -> None:
        """Begin to keep a record, after the one before has come to its place."""
        self._wait()
        self._sent = self._thread.submit(self._store.write, record, y_pred)

    def _wait(self) -> None:
        """Raise what writing has met."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.result()
