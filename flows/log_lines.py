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

RUNNING = ("run", "sweep", "reproduce", "watch", "score", "schedule")  # the commands that know it
_LINE_SECONDS = 10.0
_bound: ContextVar[Mapping[str, Any] | None] = ContextVar("log fields", default=None)


def is_json() -> bool:
    """Return whether lines are to be JSON."""
    return read_log_form(strict=False).format == "json"


def shows(level: str) -> bool:
    """Return whether lines of a level are wanted."""
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(read_log_form(strict=False).level)


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Have every line carry these fields for a while, such as the name of the run."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def write_line(level: str, event: str, message: str = "", **fields: Any) -> None:
    """Write one object to the standard output, unless its level is not wanted."""
    if not shows(level):
        return
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    said = {"time": now, "level": level, "event": event, "message": message}
    told = {**said, **(_bound.get() or {}), **fields}
    known = {name: _plain(value) for name, value in told.items() if value is not None}
    # In one piece: several processes may share the pipe, any of which may be killed.
    sys.stdout.write(json.dumps(known, allow_nan=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without anybody's credentials."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):  # not NaN either
        return value
    return scrubbed(str(value))


class JsonWatcher:
    """Stages, counts and single events, each a line."""

    def say(self, text: str, level: str = "info") -> None:
        """Write one line."""
        write_line(level, "said", text)

    def note(self, event: str, level: str, message: str, **fields: Any) -> None:
        """Write one line with fields of its own."""
        write_line(level, event, message, **fields)

    @contextmanager
    def counting(self, text: str, total: int) -> Iterator["_Progress"]:
        """Yield a counter that writes a line now and then, and one at the end."""
        yield _Progress(text, total)


class _Progress:
    """Steps done so far, told every few seconds."""

    def __init__(self, text: str, total: int) -> None:
        self.text, self.total, self.done = text, total, 0
        self.start = self.last = time.monotonic()

    def advance(self, steps: int) -> None:
        """Count steps."""
        self.done += steps
        now = time.monotonic()
        if now - self.last >= _LINE_SECONDS or self.done >= self.total:
            self.last = now
            seconds = round(now - self.start, 3)
            counts = {"done": self.done, "total": self.total, "seconds": seconds}
            write_line("info", "progress", f"{self.text}: {self.done}/{self.total}", **counts)


def taken_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line without --log-format and --log-level, then these with their values."""
    left, chosen = list[str](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if name in LOG_VARIABLES:
            chosen[name] = value if sign else next(rest, "")
        else:
            left.append(word)
    return left, chosen


def form_variables(words: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a command line speaks as it is asked to, children included.

    A command that knows no JSON speaks text, whatever the environment says to those that do.
    """
    found = {LOG_VARIABLES[option]: value for option, value in chosen.items()}
    return found if _command(words) in RUNNING else {**found, "FKD_LOG_FORMAT": "text"}


def check_options(words: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Refuse options with a command that does not know them, or with words that nobody knows."""
    command = _command(words)
    if command in RUNNING:
        read_log_form(chosen)
    elif chosen:
        raise UserError(
            f"{' with '.join(chosen)} must stand beside a command that runs "
            f"({', '.join(RUNNING)}), got {command or 'none'}."
        )


def _command(words: Sequence[str]) -> str:
    """Return the name of the command on a command line."""
    return next((word for word in words if not word.startswith("-")), "")
