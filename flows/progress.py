"""Progress and messages on the terminal and on Prefect's page."""

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

from flows.log_lines import JsonWatcher, is_json, shows
from flows.prefect_page import ProgressArtifact, log_line

console = Console(stderr=True, highlight=False)
_LINE_SECONDS = 10.0


class Watcher(Protocol):
    """Someone who is told how a run goes on."""

    def say(self, text: str, level: str = "info") -> None:
        """Tell that a stage begins, or what it found."""

    def note(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Tell of a single event, such as a fit, with what it is known by."""

    @contextmanager
    def counting(self, text: str, total: int) -> Iterator["Counter"]:
        """Yield a counter of `total` steps."""


class Counter(Protocol):
    """Steps done so far."""

    def advance(self, steps: int) -> None:
        """Tell that steps were done."""


class LiveWatcher:
    """Stages as lines, steps as a bar with rate and remaining time."""

    def say(self, text: str, level: str = "info") -> None:
        """Print one line above the bar."""
        console.print(f"[dim]·[/dim] {escape(text)}")

    def note(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Print one line where somebody looks for faults."""
        if shows("debug"):
            self.say(message, level)

    @contextmanager
    def counting(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that moves a bar."""
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("gone,"),
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


class PlainWatcher:
    """Plain lines, at most one every few seconds while counting."""

    def say(self, text: str, level: str = "info") -> None:
        """Write one line."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()

    def note(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write one line where somebody looks for faults."""
        if shows("debug"):
            self.say(message, level)

    @contextmanager
    def counting(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that writes a line now and then, and one at the end."""
        watcher, start = self, time.monotonic()

        class _Lines:
            done, last = 0, start

            def advance(self, steps: int) -> None:
                self.done += steps
                now = time.monotonic()
                if now - self.last >= _LINE_SECONDS or self.done >= total:
                    self.last = now
                    rate = self.done / max(now - start, 1e-9)
                    left = (total - self.done) / rate
                    watcher.say(f"{text}: {self.done}/{total}, {rate:.1f}/s, {left:.0f} s left")

        yield _Lines()


class RunWatcher:
    """Tells one watcher, besides the page of the run if one is on."""

    def __init__(self, inner: Watcher) -> None:
        self._inner = inner

    def say(self, text: str, level: str = "info") -> None:
        """Pass a line on."""
        if shows(level):
            self._inner.say(text, level)
        log_line(text)

    def note(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Pass an event on, which Prefect's page has no place for."""
        if shows(level):
            self._inner.note(event, level, message, **fields)

    @contextmanager
    def counting(self, text: str, total: int) -> Iterator[Counter]:
        """Yield a counter that moves both."""
        artifact = ProgressArtifact(text, total)
        with self._inner.counting(text, total) as counter:

            class _Both:
                def advance(self, steps: int) -> None:
                    counter.advance(steps)
                    artifact.advance(steps)

            try:
                yield _Both()
            finally:
                artifact.end()


_current: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watcher() -> Watcher:
    """Return who watches this run: live on a terminal, plain lines elsewhere, JSON if asked."""
    found = _current.get()
    if found is None:
        found = RunWatcher(_shown())
        _current.set(found)
    return found


def _shown() -> Watcher:
    """Return who tells people, or whoever collects lines, how it goes on."""
    if is_json():
        return JsonWatcher()
    return LiveWatcher() if console.is_terminal else PlainWatcher()


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


def speak_any_encoding() -> None:
    """Let text reach a terminal or log of any encoding, letters changed where they must be."""
    codecs.register_error(_NAME, _plain)
    for stream in (sys.stdout, sys.stderr):
        # A stream that a caller has put there may have no encoding at all.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors=_NAME)  # type: ignore[union-attr]


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the plain form of letters that cannot be encoded, with where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(map(_letter, letters)), error.end


def _letter(letter: str) -> str:
    """Return one letter in ASCII: a known form, the letter without its accent, or a mark."""
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _PLAIN.get(letter) or plain or "?"


def close_broken_output() -> None:
    """Let nothing more be written to a reader who has gone, as `head` does."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nowhere, stream.fileno())
