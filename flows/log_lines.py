"""Output of commands as JSON, one object per line."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from configs.errors import UserError
from tasks.storage.settings import LOG_LEVELS, LOG_VARIABLES, read_log_form, scrubbed

RUNNING = ("run", "sweep", "reproduce", "watch", "score", "schedule")  # commands with JSON output
_LINE_SECONDS = 10.0
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
        if now - self.last >= _LINE_SECONDS or self.done >= self.total:
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
