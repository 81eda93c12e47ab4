"""Progress of the runs of an FKD_HOME, one small file per run."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings

State = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Status:
    """Counts of one run's fits, with the process that computes them."""

    name: str
    state: State
    total: int
    stored: int  # fits that were there when the run began
    done: int = 0  # fits of this run
    failures: tuple[str, ...] = ()
    started: float = 0.0
    updated: float = 0.0
    pid: int = 0
    born: float = 0.0  # when that process began, because numbers of processes are used again
    message: str = ""

    @property
    def remaining(self) -> int:
        """Fits that are still to come."""
        return self.total - self.stored - self.done - len(self.failures)

    @property
    def rate(self) -> float:
        """Fits per second of this run."""
        seconds = self.updated - self.started
        return self.done / seconds if seconds > 0 else 0.0

    @property
    def seen(self) -> State:
        """The state as it is: a run whose process is gone was stopped."""
        return "stopped" if self.state == "running" and not self._alive() else self.state

    def _alive(self) -> bool:
        try:
            born: float = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        return abs(born - self.born) < 1.0


def begin(name: str, total: int, stored: int) -> Status:
    """Return the status of a run that this process begins now."""
    now = time.time()
    born = psutil.Process().create_time()
    return Status(
        name, "running", total, stored, started=now, updated=now, pid=os.getpid(), born=born
    )


def write_status(settings: Settings, status: Status) -> Status:
    """Keep the status with the present time; return it."""
    status = replace(status, updated=time.time())
    text = json.dumps(asdict(status), indent=2)
    write_atomic(_path(settings, status.name), text.encode())
    return status


def read_status(settings: Settings, name: str) -> Status | None:
    """Return the status of a run, None where there is none that can be read."""
    try:
        plain = json.loads(_path(settings, name).read_text())
        return Status(**{**plain, "failures": tuple(plain["failures"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):  # damaged, or of another version
        return None


def all_statuses(settings: Settings) -> Iterator[Status]:
    """Yield the status of every run, the newest first."""
    folders = settings.experiments.glob("*/status.json")
    found = [s for f in folders if (s := read_status(settings, f.parent.name)) is not None]
    yield from sorted(found, key=lambda status: -status.updated)


def _path(settings: Settings, name: str) -> Path:
    """Return where the status of a run lies."""
    return settings.experiments / name / "status.json"
