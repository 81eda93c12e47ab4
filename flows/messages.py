"""Messages and progress bars of a run, on the terminal and on Prefect's page."""

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
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
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

from configs.errors import UserError
from tasks.storage.settings import LOG_LEVELS, LOG_VARIABLES, read_log_form, scrubbed

console = Console(stderr=True, highlight=False)
_LINE_SECONDS = 10.0


class RunLog(Protocol):
    """Output of a run."""

    def log(self, text: str, level: str = "info") -> None:
        """Write a message."""

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write a single event, such as a finished fit, with its fields."""

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator["Counter"]:
        """Yield a counter of `total` steps."""


class Counter(Protocol):
    """Number of finished steps."""

    def advance(self, steps: int) -> None:
        """Count finished steps."""


class TerminalLog:
    """Messages as lines and progress as a bar, with rate and remaining time."""

    def log(self, text: str, level: str = "info") -> None:
        """Print one line above the bar."""
        console.print(f"[dim]·[/dim] {escape(text)}")

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Print one line if the log level is debug."""
        if shows("debug"):
            self.log(message, level)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that moves a bar."""
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

            class _Bar:
                def advance(self, steps: int) -> None:
                    bar.advance(task, steps)
                    speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
                    bar.update(task, rate=f"{speed:.1f}/s" if speed else "")

            yield _Bar()


class PlainLog:
    """Messages as lines with the time, and progress as a line every few seconds."""

    def log(self, text: str, level: str = "info") -> None:
        """Write one line."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write one line if the log level is debug."""
        if shows("debug"):
            self.log(message, level)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that writes a line every few seconds and at the end."""
        log, start = self.log, time.monotonic()

        class _Lines:
            done, last = 0, start

            def advance(self, steps: int) -> None:
                self.done += steps
                now = time.monotonic()
                if now - self.last >= _LINE_SECONDS or self.done >= total:
                    self.last = now
                    rate = self.done / max(now - start, 1e-9)
                    left = (total - self.done) / rate
                    log(f"{text}: {self.done}/{total}, {rate:.1f}/s, {left:.0f} s left")

        yield _Lines()


class PrefectLog:
    """Another log, and in addition the page of the current run in Prefect."""

    def __init__(self, inner: RunLog) -> None:
        self._inner = inner

    def log(self, text: str, level: str = "info") -> None:
        """Write a message to both."""
        if shows(level):
            self._inner.log(text, level)
        log_line(text)

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write an event to the other log only."""
        if shows(level):
            self._inner.event(event, level, message, **fields)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that moves both bars."""
        artifact = progress_artifact()
        artifact.start(text, total)
        with self._inner.progress(text, total) as counter:

            class _Both:
                def advance(self, steps: int) -> None:
                    counter.advance(steps)
                    artifact.advance(steps)

            try:
                yield _Both()
            finally:
                artifact.update()


_current: ContextVar[RunLog | None] = ContextVar("run log", default=None)


def run_log() -> RunLog:
    """Return the log of this run: JSON if configured, otherwise for a terminal or a file."""
    found = _current.get()
    if found is None:
        plain = TerminalLog() if console.is_terminal else PlainLog()
        found = PrefectLog(JsonLog() if is_json() else plain)
        _current.set(found)
    return found


_PLAIN = {
    "·": "-",
    "—": "-",
    "–": "-",
    "…": "...",
    "←": "<-",
    "→": "->",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "²": "^2",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "━": "-",
    "╸": "-",
    "╺": "-",
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


RUNNING = ("run", "sweep", "reproduce", "watch", "score", "schedule")  # commands with JSON output
_LINE_SECONDS_log_lines = 10.0
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


class JsonLog:
    """Messages, events and progress as JSON lines."""

    def log(self, text: str, level: str = "info") -> None:
        """Write one line."""
        write_line(level, "log", text)

    def event(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write one line with additional fields."""
        write_line(level, event, message, **fields)

    @contextmanager
    def progress(self, text: str, total: int) -> Iterator["_Progress"]:
        """Yield a counter that writes a line every few seconds and at the end."""
        yield _Progress(text, total)


class _Progress:
    """Number of finished steps."""

    def __init__(self, text: str, total: int) -> None:
        self.text, self.total, self.done = text, total, 0
        self.start = self.last = time.monotonic()

    def advance(self, steps: int) -> None:
        """Count finished steps."""
        self.done += steps
        now = time.monotonic()
        if now - self.last >= _LINE_SECONDS_log_lines or self.done >= self.total:
            self.last = now
            seconds = round(now - self.start, 3)
            counts = {"done": self.done, "total": self.total, "seconds": seconds}
            write_line("info", "progress", f"{self.text}: {self.done}/{self.total}", **counts)


def split_log_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line without --log-format and --log-level, and their values."""
    left, chosen = list[str](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if name in LOG_VARIABLES:
            chosen[name] = value if sign else next(rest, "")
        else:
            left.append(word)
    return left, chosen


def log_variables(words: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables that pass the options on, also to child processes.

    A command without JSON output writes text, whatever the environment says.
    """
    found = {LOG_VARIABLES[option]: value for option, value in chosen.items()}
    return found if _command(words) in RUNNING else {**found, "FKD_LOG_FORMAT": "text"}


def check_log_options(words: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Raise a UserError for options with unknown values or beside a command without them."""
    command = _command(words)
    if command in RUNNING:
        read_log_form(chosen)
    elif chosen:
        raise UserError(
            f"{' and '.join(chosen)} must be given with one of {', '.join(RUNNING)}, got "
            f"{command or 'no command'}."
        )


def _command(words: Sequence[str]) -> str:
    """Return the name of the command on a command line."""
    return next((word for word in words if not word.startswith("-")), "")


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
