"""Progress of the runs of an FKD_HOME, in one small file per run."""

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
    """Counts of a run's fits, with the process that computes them."""

    name: str
    state: State
    total: int
    stored: int  # fits that were stored before the run
    done: int = 0  # fits of this run
    failures: tuple[str, ...] = ()
    started: float = 0.0
    updated: float = 0.0
    pid: int = 0
    born: float = 0.0  # start of that process, because process ids are used again
    message: str = ""

    @property
    def remaining(self) -> int:
        """The number of missing fits."""
        return self.total - self.stored - self.done - len(self.failures)

    @property
    def rate(self) -> float:
        """Fits per second of this run."""
        seconds = self.updated - self.started
        return self.done / seconds if seconds > 0 else 0.0

    @property
    def seen(self) -> State:
        """The state, "stopped" for a running one whose process is gone."""
        if self.state != "running":
            return self.state
        try:
            alive = abs(psutil.Process(self.pid).create_time() - self.born) < 1.0
        except psutil.NoSuchProcess:
            alive = False
        return "running" if alive else "stopped"


def begin(name: str, total: int, stored: int) -> Status:
    """Return the status of a run that this process starts now."""
    now = time.time()
    born = psutil.Process().create_time()
    return Status(
        name, "running", total, stored, started=now, updated=now, pid=os.getpid(), born=born
    )


def write_status(settings: Settings, status: Status) -> Status:
    """Write the status with the current time and return it."""
    status = replace(status, updated=time.time())
    text = json.dumps(asdict(status), indent=2)
    write_atomic(_path(settings, status.name), text.encode())
    return status


def read_status(settings: Settings, name: str) -> Status | None:
    """Return the status of a run, None without a readable one."""
    try:
        plain = json.loads(_path(settings, name).read_text())
        return Status(**{**plain, "failures": tuple(plain["failures"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def all_statuses(settings: Settings) -> Iterator[Status]:
    """Yield the status of every run, the newest first."""
    folders = settings.experiments.glob("*/status.json")
    found = [s for f in folders if (s := read_status(settings, f.parent.name)) is not None]
    yield from sorted(found, key=lambda status: -status.updated)


def _path(settings: Settings, name: str) -> Path:
    """Return the file of a run's status."""
    return settings.experiments / name / "status.json"
