"""Locks on files that the kernel gives back however their holder ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX


def open_lock(path: Path) -> IO[str]:
    """Return the file to lock, created if absent."""
    # Readable as well as writable: a network file system asks for both.
    return path.open("a+")


def try_lock(file: IO[str], mode: int) -> bool:
    """Return whether the lock could be taken without waiting."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, mode: int) -> Iterator[bool]:
    """Yield whether the lock was free; if so it is held for the block."""
    with open_lock(path) as file:
        yield try_lock(file, mode)
