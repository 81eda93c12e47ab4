"""Messages and progress of a run: for people or as JSON lines, and on Prefect's pages."""

import codecs
import json
import logging
import os
import queue
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tasks.storage.settings import LOG_LEVELS, read_log_form, scrubbed

if TYPE_CHECKING:
    # Prefect is imported after `prefect_server` has set its environment variables.
    from prefect.client.orchestration import SyncPrefectClient

Advance: TypeAlias = Callable[[int], None]  # counts finished steps
Request: TypeAlias = Callable[["SyncPrefectClient"], object]

console = Console(stderr=True, highlight=False)
_LINE_SECONDS = 10.0
_REQUEST_SECONDS = 10.0
_FLUSH_SECONDS = 5.0  # that the end of a run waits for its last requests
_UPDATE_SECONDS = 5.0


@dataclass(frozen=True)
class RunLog:
    """Messages, events and progress of a run, in one form and on Prefect's page."""

    form: Literal["terminal", "text", "json"]

    def log(self, text: str, level: str = "info") -> None:
        """Write a message."""
        if shows(level):
            self._write(text, level)
        log_line(text)

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write an event, such as a finished fit, with its fields; as text only for debugging."""
        if self.form == "json":
            write_line(level, event, message, **fields)
        elif shows("debug"):
            self._write(message, level)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Advance]:
        """Yield a function that counts finished steps of `total`."""
        artifact = progress_artifact()
        artifact.start(text, total)
        bar = (
            _bar(text, total) if self.form == "terminal" else nullcontext(self._lines(text, total))
        )
        with bar as show:

            def advance(steps: int) -> None:
                show(steps)
                artifact.advance(steps)

            try:
                yield advance
            finally:
                artifact.update()

    def _write(self, text: str, level: str) -> None:
        """Write one line; on a terminal above the bar."""
        if self.form == "json":
            write_line(level, "log", text)
        elif self.form == "terminal":
            console.print(f"[dim]·[/dim] {escape(text)}")
        else:
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            sys.stderr.flush()

    def _lines(self, text: str, total: int) -> Advance:
        """Return a function that writes a line every few seconds and at the end."""
        start = last = time.monotonic()
        done = 0

        def advance(steps: int) -> None:
            nonlocal done, last
            done += steps
            now = time.monotonic()
            if now - last < _LINE_SECONDS and done < total:
                return
            last, seconds, message = now, now - start, f"{text}: {done}/{total}"
            if self.form == "json":
                counts = {"done": done, "total": total, "seconds": round(seconds, 3)}
                write_line("info", "progress", message, **counts)
            else:
                rate = done / max(seconds, 1e-9)
                self._write(f"{message}, {rate:.1f}/s, {(total - done) / rate:.0f} s left", "info")

        return advance


@contextmanager
def _bar(text: str, total: int) -> Iterator[Advance]:
    """Yield a function that moves a bar with rate and remaining time."""
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=total, rate="")

        def advance(steps: int) -> None:
            bar.advance(task, steps)
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            bar.update(task, rate=f"{speed:.1f}/s" if speed else "")

        yield advance


def run_log() -> RunLog:
    """Return the log of this process: JSON if configured, otherwise for a terminal or a file."""
    return RunLog("json" if is_json() else "terminal" if console.is_terminal else "text")


_bound: ContextVar[Mapping[str, Any] | None] = ContextVar("log fields", default=None)


def is_json() -> bool:
    """Return whether output is JSON."""
    return read_log_form(strict=False).format == "json"


def shows(level: str) -> bool:
    """Return whether lines of a level are written."""
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(read_log_form(strict=False).level)


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Add fields, such as the name of the run, to every line within the block."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def write_line(level: str, event: str, message: str = "", **fields: Any) -> None:
    """Write one object to the standard output, if its level is shown."""
    if not shows(level):
        return
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "event": event, "message": message}
    line |= {**(_bound.get() or {}), **fields}
    found = {name: _plain(value) for name, value in line.items() if value is not None}
    # One call: several processes may share the pipe, and any of them may be killed.
    sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Return a value for JSON, without credentials."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):  # excludes NaN too
        return value
    return scrubbed(str(value))


class RequestQueue:
    """A thread that sends requests to the Prefect server one by one and ignores failures."""

    def __init__(self) -> None:
        self._requests: queue.Queue[tuple[Request, Context]] = queue.Queue()
        threading.Thread(target=self._run, name="prefect-requests", daemon=True).start()

    def put(self, request: Request) -> None:
        """Queue a request with the caller's context, which contains the server's address."""
        self._requests.put((request, copy_context()))

    def wait(self, seconds: float) -> bool:
        """Return whether all requests were sent within some seconds."""
        with self._requests.all_tasks_done:
            return self._requests.all_tasks_done.wait_for(
                lambda: not self._requests.unfinished_tasks, seconds
            )

    def _run(self) -> None:
        while True:
            request, context = self._requests.get()
            # A run must not fail because a page lacks a table that is also in FKD_HOME.
            with suppress(Exception):
                context.run(_send_now, request)
            self._requests.task_done()


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


_PLAIN = dict(zip("·—–━╸╺‘’“”×", "------''\"\"x", strict=True)) | {
    "…": "...",
    "←": "<-",
    "→": "->",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "²": "^2",
}
_NAME = "fkd.plain"


def replace_unencodable() -> None:
    """Replace letters that the output's encoding lacks, instead of raising an error."""
    codecs.register_error(_NAME, _replace)
    for stream in (sys.stdout, sys.stderr):
        # A caller may have replaced the stream by an object without an encoding.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors=_NAME)  # type: ignore[union-attr]


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return ASCII text for letters that cannot be encoded, and the position after them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(map(_letter, letters)), error.end


def _letter(letter: str) -> str:
    """Return a letter in ASCII: a known replacement, the letter without accent, or ?."""
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _PLAIN.get(letter) or plain or "?"


def close_broken_output() -> None:
    """Redirect output whose reader has gone, as after `| head`, to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(null, stream.fileno())
