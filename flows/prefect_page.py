"""Logs, progress and artifacts on Prefect's pages, sent in the background."""

import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from flows.log_lines import bound
from tasks.storage.settings import scrubbed

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


if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_UPDATE_SECONDS = 5.0


@contextmanager
def tagged_run(tags: Iterable[str]) -> Iterator[None]:
    """Give the flow run that is on these tags beside its own; send all its notes at the end."""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is not None:
        everything = sorted({*run.tags, *tags})
        send(lambda client: client.update_flow_run(run.id, tags=everything))
    try:
        with bound(flow_run=None if run is None else run.id):
            yield
    finally:
        delivered()


def log_line(text: str) -> None:
    """Put a line into Prefect's log of the run that is on, nowhere else."""
    if not in_run():
        return
    from prefect.logging import get_run_logger

    adapter: Any = get_run_logger()
    logger, level = adapter.logger, logging.INFO
    if not logger.isEnabledFor(level):
        return
    shown = scrubbed(text)
    record = logger.makeRecord(logger.name, level, "", 0, shown, (), None, extra=adapter.extra)
    # Its own handlers send to the server; those above it would print the line a second time.
    for handler in logger.handlers:
        handler.handle(record)


def post_markdown(name: str, text: str, description: str) -> None:
    """Put a page of markdown on the run that is on; those of one name are its versions."""
    if in_run():
        send(_creation(type="markdown", key=artifact_key(name), data=text, description=description))


class ProgressArtifact:
    """A bar on the run's page that moves every few seconds."""

    def __init__(self, text: str, total: int) -> None:
        self._text, self._total = text, total
        self._done, self._last = 0, time.monotonic()
        self._id: UUID | None = None
        self._queued = False
        if in_run():
            self._begin()

    def advance(self, steps: int) -> None:
        """Tell that steps were done."""
        self._done += steps
        now = time.monotonic()
        if now - self._last >= _UPDATE_SECONDS and not self._queued:
            self._last = now
            self._update()

    def end(self) -> None:
        """Show where it ended, at once."""
        self._update()

    def _fields(self) -> dict[str, Any]:
        """Return what the artifact shows now."""
        share = 100.0 * self._done / self._total if self._total else 100.0
        return {
            "data": min(share, 100.0),
            "description": f"{self._done} of {self._total} {self._text}",
        }

    def _begin(self) -> None:
        key = artifact_key(f"progress-{self._text}")
        create = _creation(type="progress", key=key, **self._fields())

        def note(client: "SyncPrefectClient") -> None:
            self._id = create(client)

        send(note)

    def _update(self) -> None:
        if not in_run():
            return
        self._queued = True

        def note(client: "SyncPrefectClient") -> None:
            from prefect.client.schemas.actions import ArtifactUpdate

            self._queued = False
            if self._id is not None:
                client.update_artifact(self._id, ArtifactUpdate(**self._fields()))

        send(note)


def artifact_key(text: str) -> str:
    """Return a text as Prefect wants keys: lower case letters, digits, dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"


def in_run() -> bool:
    """Return whether a flow run of Prefect is on here; Prefect is not imported for the question."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def _creation(**fields: Any) -> Any:
    """Return a note that creates an artifact of the run that is on and returns its id."""
    from prefect.client.schemas.actions import ArtifactCreate
    from prefect.utilities.context import get_task_and_flow_run_ids

    task_run, flow_run = get_task_and_flow_run_ids()
    artifact = ArtifactCreate(task_run_id=task_run, flow_run_id=flow_run, **fields)
    return lambda client: client.create_artifact(artifact).id
