"""Logs, progress and artifacts on Prefect's pages, sent by a background thread."""

import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from flows.log_lines import bound
from tasks.storage.settings import scrubbed

if TYPE_CHECKING:
    # Prefect is imported after `prefect_server` has set its environment variables.
    from prefect.client.orchestration import SyncPrefectClient

Request: TypeAlias = Callable[["SyncPrefectClient"], object]

_REQUEST_SECONDS = 10.0
_FLUSH_SECONDS = 5.0  # that the end of a run waits for its last requests
_POLL_SECONDS = 0.02
_UPDATE_SECONDS = 5.0


class RequestQueue:
    """A thread that sends requests to the Prefect server one by one and ignores failures."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Request, Context]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        threading.Thread(target=self._run, name="prefect-requests", daemon=True).start()

    def put(self, request: Request) -> None:
        """Queue a request with the caller's context, which contains the server's address."""
        with self._lock:
            self._waiting += 1
        self._requests.put((request, copy_context()))

    def wait(self, seconds: float) -> bool:
        """Return whether the queue was empty within some seconds."""
        deadline = time.monotonic() + seconds
        while self._waiting and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return not self._waiting

    def _run(self) -> None:
        while True:
            request, context = self._requests.get()
            try:
                context.run(_send_now, request)
            except Exception:
                # A run must not fail because a page lacks a table that is also in FKD_HOME.
                pass
            finally:
                with self._lock:
                    self._waiting -= 1


@cache
def _queue() -> RequestQueue:
    """Return the queue of this process."""
    return RequestQueue()


def send(request: Request) -> None:
    """Send a request in the background, in the order of the calls."""
    _queue().put(request)


def _send_now(request: Request) -> None:
    """Send one request."""
    from prefect.client.orchestration import get_client

    # Not the client of the run, which is closed when the run ends.
    settings = {"timeout": _REQUEST_SECONDS}
    with get_client(sync_client=True, httpx_settings=settings) as client:
        request(client)


def in_run() -> bool:
    """Return whether a Prefect flow or task is running here, without importing Prefect."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


@contextmanager
def tagged_run(tags: Iterable[str]) -> Iterator[None]:
    """Add tags to the current flow run, give it one progress bar, and flush its requests."""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is not None:
        all_tags = sorted({*run.tags, *tags})
        send(lambda client: client.update_flow_run(run.id, tags=all_tags))
    token = _progress.set(ProgressArtifact())
    try:
        with bound(flow_run=None if run is None else run.id):
            yield
    finally:
        _progress.reset(token)
        _queue().wait(_FLUSH_SECONDS)


def log_line(text: str) -> None:
    """Write a line to the log of the current run on Prefect's page, and nowhere else."""
    if not in_run():
        return
    from prefect.logging import get_run_logger

    adapter: Any = get_run_logger()
    logger, level = adapter.logger, logging.INFO
    if not logger.isEnabledFor(level):
        return
    shown = scrubbed(text)
    record = logger.makeRecord(logger.name, level, "", 0, shown, (), None, extra=adapter.extra)
    # Its own handlers send to the server; those of its parents would also print the line.
    for handler in logger.handlers:
        handler.handle(record)


def post_markdown(name: str, text: str, description: str) -> None:
    """Add a Markdown artifact to the current run. Artifacts of one name are its versions."""
    if in_run():
        send(_creation(type="markdown", key=artifact_key(name), data=text, description=description))


class ProgressArtifact:
    """The progress bar of a flow run, which shows one step of the run after the other."""

    def __init__(self) -> None:
        self._text, self._total, self._done = "", 0, 0
        self._updated = time.monotonic()
        self._id: UUID | None = None
        self._queued = False

    def start(self, text: str, total: int) -> None:
        """Show a new step of the run."""
        self._text, self._total, self._done = text, total, 0
        self._updated = time.monotonic()
        if not in_run():
            return
        if self._id is not None or self._queued:
            self.update()
            return
        create = _creation(type="progress", key="progress", **self._fields())
        self._queued = True

        def request(client: "SyncPrefectClient") -> None:
            self._queued = False
            self._id = create(client)

        send(request)

    def advance(self, steps: int) -> None:
        """Count steps, and update the page every few seconds."""
        self._done += steps
        now = time.monotonic()
        if now - self._updated >= _UPDATE_SECONDS and not self._queued:
            self._updated = now
            self.update()

    def update(self) -> None:
        """Update the page."""
        if not in_run():
            return
        self._queued = True

        def request(client: "SyncPrefectClient") -> None:
            from prefect.client.schemas.actions import ArtifactUpdate

            self._queued = False
            if self._id is not None:
                client.update_artifact(self._id, ArtifactUpdate(**self._fields()))

        send(request)

    def _fields(self) -> dict[str, Any]:
        share = 100.0 * self._done / self._total if self._total else 100.0
        return {
            "data": min(share, 100.0),
            "description": f"{self._done} of {self._total} {self._text}",
        }


_progress: ContextVar[ProgressArtifact | None] = ContextVar("progress artifact", default=None)


def progress_artifact() -> ProgressArtifact:
    """Return the progress bar of the current run, or one that sends nothing."""
    return _progress.get() or ProgressArtifact()


def artifact_key(text: str) -> str:
    """Return a text as a Prefect key: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"


def _creation(**fields: Any) -> Any:
    """Return a request that creates an artifact of the current run and returns its id."""
    from prefect.client.schemas.actions import ArtifactCreate
    from prefect.utilities.context import get_task_and_flow_run_ids

    task_run, flow_run = get_task_and_flow_run_ids()
    artifact = ArtifactCreate(task_run_id=task_run, flow_run_id=flow_run, **fields)
    return lambda client: client.create_artifact(artifact).id
