"""Jobs of a queue that outlive the driver that has submitted them."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tasks.adapters.files import hold

_ASK_SECONDS = 10.0
_PREFIX = "fkd-worker-"


@contextmanager
def claimed_name(home: Path) -> Iterator[str]:
    """Yield the name of the jobs of one driver, which no other driver's jobs have.

    A file of that name lies in FKD_HOME, held by this process until no such job is left: one that
    nobody holds tells the next run of a driver that was killed.
    """
    name = f"{_PREFIX}{uuid4().hex[:16]}"
    if shutil.which("scancel") is None:
        yield name
        return
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    claim, part = folder / name, folder / f".{name}"
    with part.open("xb") as file:
        hold(file)  # before others can see it
        file.write(socket.gethostname().encode())
        file.flush()
        part.replace(claim)
        try:
            yield name
        finally:
            _end(claim)


def cancel_orphans(home: Path) -> None:
    """Cancel the jobs that drivers on this machine left in the queue when they were killed."""
    for claim in _folder(home).glob(f"{_PREFIX}*"):
        with suppress(OSError), claim.open("r+b") as file:
            # Not every shared file system shares its locks: of other machines we know nothing.
            if file.read() == socket.gethostname().encode() and hold(file):
                _end(claim)


def _folder(home: Path) -> Path:
    """Return where drivers say which jobs are theirs."""
    return home / "dask" / "queued"


def _end(claim: Path) -> None:
    """Cancel the jobs of a claim, which stays where SLURM could not be asked."""
    if shutil.which("scancel") is None:
        return
    with suppress(OSError, subprocess.SubprocessError):
        words = ["scancel", f"--name={claim.name}"]
        subprocess.run(words, capture_output=True, timeout=_ASK_SECONDS, check=True)
        claim.unlink(missing_ok=True)
