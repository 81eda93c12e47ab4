"""Faults of the disk as sentences."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.errors import UserError

# A quota or a limit on file size feels like a full disk and has the same cure.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A file where the folder should be counts as a folder that cannot be written.
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@contextmanager
def named_disk_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into a sentence with the folder's name and a cure."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            cure = "free some space, or set FKD_HOME to a folder on another disk, then run again"
        elif error.errno in _CLOSED:
            cure = "set FKD_HOME to a folder you may write to"
        else:
            cure = "look at that folder, or set FKD_HOME to another one"
        raise UserError(f"{folder} must be writable, but it is not ({reason}); {cure}.") from error
