"""Notes to Prefect's server that no run waits for, or fails by."""

import queue
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    # Prefect itself is imported late, after `prefect_server` has decided where its state lies.
    from prefect.client.orchestration import SyncPrefectClient

Note: TypeAlias = Callable[["SyncPrefectClient"], object]

_ANSWER = 10.0  # seconds for one request
_PATIENCE = 5.0  # seconds that the end of a run waits for its last notes
_POLL = 0.02


def send(note: Note) -> None:
    """Have a note delivered in the background, in the order of sending."""
    _post().put(note)


def delivered(patience: float = _PATIENCE) -> bool:
    """Return whether everything sent so far went out, waiting a little for it."""
    return _post().wait(patience)


class Post:
    """A thread that delivers notes one by one; what the server does not take is dropped."""

    def __init__(self) -> None:
        self._notes: queue.SimpleQueue[tuple[Note, Context]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        threading.Thread(target=self._deliver, name="prefect-post", daemon=True).start()

    def put(self, note: Note) -> None:
        """Queue a note with the settings of the caller, which name the server."""
        with self._lock:
            self._waiting += 1
        self._notes.put((note, copy_context()))

    def wait(self, patience: float) -> bool:
        """Return whether the queue became empty in time."""
        deadline = time.monotonic() + patience
        while self._waiting and time.monotonic() < deadline:
            time.sleep(_POLL)
        return not self._waiting

    def _deliver(self) -> None:
        """Deliver for as long as the process lives."""
        while True:
            note, context = self._notes.get()
            try:
                context.run(_deliver_one, note)
            except Exception:
                # A page that lacks a table is a lesser evil than a run that fails for it: the
                # same facts lie in FKD_HOME.
                pass
            finally:
                with self._lock:
                    self._waiting -= 1


@cache
def _post() -> Post:
    """Return the thread of this process."""
    return Post()


def _deliver_one(note: Note) -> None:
    """Hand one note to the server."""
    from prefect.client.orchestration import get_client

    # A client of our own: that of the run is closed when the run ends.
    with get_client(sync_client=True, httpx_settings={"timeout": _ANSWER}) as client:
        note(client)
