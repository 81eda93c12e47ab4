"""Faults of the disk as sentences."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import UserError

# A quota or a limit on file size feels like a full disk and has the same cure.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A file where the folder should be counts as a folder that cannot be written.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_TIGHT = 2**18  # bytes; a database needs as much for a small change


@contextmanager
def named_disk_errors(folder: Path | str) -> Iterator[None]:
    """Turn an OSError of the block into a sentence with the folder's name and a cure."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # of a server, which has its own sentence
        raise disk_fault(error, folder) from error


def disk_fault(error: OSError, folder: Path | str) -> UserError:
    """Return a fault of a folder as a sentence with its cure."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        cure = (
            "free some space or files, or set FKD_HOME to a folder on another disk, then run again"
        )
    elif error.errno in _CLOSED:
        cure = "set FKD_HOME to a folder you may write to"
    else:
        cure = "look at that folder, or set FKD_HOME to another one"
    return UserError(f"{folder} must be writable, but it is not ({reason}); {cure}.")


def full_disk(home: Path) -> UserError | None:
    """Return which of our folders lies on a full disk, as a sentence; None where all have room."""
    found = [f"FKD_HOME ({home})"] if _is_full(_existing(home)) else []
    temporary = _temporary()
    if temporary is None or _is_full(temporary):
        found.append(f"the temporary folder ({temporary or os.environ.get('TMPDIR', '/tmp')})")
    if not found:
        return None
    return UserError(
        f"The disk of {' and of '.join(found)} is full; free some space or files, or set FKD_HOME "
        "and TMPDIR to folders on another disk, then run the same command: what was computed is "
        "kept."
    )


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _temporary() -> Path | None:
    """Return where temporary files go, None where no folder takes any."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None


def _is_full(folder: Path) -> bool:
    """Return whether hardly a byte, or no file at all, can be added to a folder's disk."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    # File systems without a fixed number of files say that they have none in all.
    return room.f_bavail * room.f_frsize < _TIGHT or (room.f_files > 0 and room.f_favail == 0)
