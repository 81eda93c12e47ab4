"""Messages and progress bars of a run, on the terminal and on Prefect's page."""

import codecs
import os
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

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

from flows.log_lines import JsonLog, is_json, shows
from flows.prefect_page import log_line, progress_artifact

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
