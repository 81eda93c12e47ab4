"""Atomic file writes, arrays as bytes, locks, disk errors, and files of killed processes."""

import errno
import fcntl
import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from configs.errors import UserError

# A quota or a limit on the file size has the same remedy as a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A file in the place of the folder counts as a folder without write permission.
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_LEAST_FREE = 2**18  # bytes; a database needs as much for a small change


def sha256(data: bytes) -> str:
    """Return the hexadecimal sha256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file. Readers see the old content or the new one, also after a crash.

    The permissions follow the umask.
    """
    with _temporary_file(path, data) as part:
        part.replace(path)


def write_new(path: Path, data: bytes) -> bool:
    """Write a file unless it exists; return True if it was written.

    On a file system without hard links an existing file is replaced.
    """
    with _temporary_file(path, data) as part:
        try:
            os.link(part, path)
        except FileExistsError:
            return False
        except OSError:
            part.replace(path)
    return True


@contextmanager
def _temporary_file(path: Path, data: bytes) -> Iterator[Path]:
    """Yield a complete file beside `path`, to be renamed; make the rename durable afterwards.

    A killed writer leaves the file; `tasks.storage.files` removes it after a day.
    """
    missing = list(takewhile(lambda folder: not folder.exists(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name[:40]}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)
    # The entries of new folders must survive a power loss too.
    for folder in (path.parent, *(new.parent for new in missing)):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk."""
    with suppress(OSError):  # some network file systems cannot
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def try_lock(file: IO[bytes]) -> bool:
    """Lock an open file; return False if another process holds the lock.

    The lock ends when the file is closed or the process ends.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked by another process, or the file system has no locks
        return False
    return True


def pack_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return arrays as bytes: their names, then the arrays, each in numpy's .npy format."""
    buffer = io.BytesIO()
    for array in (np.array(list(arrays), dtype=str), *arrays.values()):
        np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpack_arrays(file: IO[bytes], *, mapped: bool = False) -> dict[str, Any]:
    """Return the arrays of `pack_arrays` in a file, from its position on. Nothing is unpickled.

    With `mapped`, they are read-only maps of the file.
    """
    names = np.load(file, allow_pickle=False)
    load = _map_array if mapped else partial(np.load, allow_pickle=False)
    arrays = {str(name): load(file) for name in names}
    # A header with a wrong shape leaves bytes behind the last array.
    if file.read(1):
        raise ValueError("the last array must end where the file ends")
    return arrays


def _map_array(file: IO[bytes]) -> Any:
    """Return the next array of an open file, and move to its end."""
    version = np.lib.format.read_magic(file)
    first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("a mapped array must not hold Python objects")
    start = file.tell()
    array = np.memmap(file, dtype, "r", start, shape, "F" if fortran else "C")
    file.seek(start + array.nbytes)
    return np.asarray(array)


def pack_npz(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return arrays as a compressed npz archive, for files that other programs read."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_npz(data: bytes) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an npz archive. Nothing is unpickled."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextmanager
def named_disk_errors(folder: Path | str) -> Iterator[None]:
    """Raise a UserError that names the folder for an OSError of the block."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # the error of a server, which has its own message
        raise disk_error(error, folder) from error


def disk_error(error: OSError, folder: Path | str) -> UserError:
    """Return the error of a folder with its remedy."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        remedy = "Free space or files, or set FKD_HOME to a folder on another disk, then run again."
    elif error.errno in _READ_ONLY:
        remedy = "Set FKD_HOME to a folder with write permission."
    else:
        remedy = "Check that folder, or set FKD_HOME to another one."
    return UserError(f"{folder} must be writable, but writing failed ({reason}). {remedy}")


def full_disk_error(home: Path) -> UserError | None:
    """Return an error if the disk of FKD_HOME or of temporary files is full, else None."""
    existing = next(path for path in (home, *home.parents) if path.exists())
    full = [f"FKD_HOME ({home})"] if _is_full(existing) else []
    try:
        temporary: Path | None = Path(tempfile.gettempdir())
    except OSError:  # no folder takes a temporary file
        temporary = None
    if temporary is None or _is_full(temporary):
        full.append(f"the temporary folder ({temporary or os.environ.get('TMPDIR', '/tmp')})")
    if not full:
        return None
    return UserError(
        f"The disk of {' and of '.join(full)} is full. Free space or files, or set FKD_HOME and "
        "TMPDIR to folders on another disk, then run the same command: completed fits are kept."
    )


def _is_full(folder: Path) -> bool:
    """Return True if the file system of a folder has no free space or no free inode."""
    try:
        free = os.statvfs(folder)
    except OSError:
        return False
    # File systems without a fixed number of inodes report 0 in all.
    no_inode = free.f_files > 0 and free.f_favail == 0
    return free.f_bavail * free.f_frsize < _LEAST_FREE or no_inode


_PART_SECONDS = 24 * 3600.0  # no write takes a day
_YOUNG_SECONDS = 60.0  # a worker creates its folder before it locks it
_LONG_SECONDS = 7 * 24 * 3600.0  # for a folder without lock, which some live workers have
_FOREIGN = ("mlflow", "prefect", "dask", "downloads")  # cleaned by their owners, or below
_LOCKED = ".dirlock"  # suffix of the file beside a worker's folder, locked while the worker lives


def sweep_leftovers(home: Path) -> int:
    """Remove partial files and folders of dead workers, and return their number."""
    removed = 0
    for folder, folders, names in os.walk(home):
        if Path(folder) == home:
            folders[:] = [name for name in folders if name not in _FOREIGN]
        parts = (Path(folder, n) for n in names if n.startswith(".") and n.endswith(".part"))
        removed += sum(_remove_part(part) for part in parts)
    # Dask gives each user of a shared folder another suffix. Of some workers only the lock exists.
    found = (home / "dask").glob("dask-scratch-space*/worker-*")
    workers = {path.with_name(path.name.removesuffix(_LOCKED)) for path in found}
    return removed + sum(_remove_scratch(folder) for folder in workers)


def _remove_part(part: Path) -> bool:
    """Remove a temporary file that is older than a day; return True if it was removed."""
    try:
        if _age(part) < _PART_SECONDS:
            return False
        part.unlink()
    except OSError:  # it was renamed, or belongs to another user
        return False
    return True


def _remove_scratch(folder: Path) -> bool:
    """Remove the folder and lock of a dead worker; return True if they were removed."""
    lock = folder.with_name(folder.name + _LOCKED)
    try:
        least = _YOUNG_SECONDS if lock.exists() else _LONG_SECONDS
        if _age(folder if folder.exists() else lock) < least:
            return False
        with lock.open("a+b") as file:
            if not try_lock(file):
                return False
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _age(path: Path) -> float:
    """Return the seconds since a file or folder was last changed."""
    return time.time() - path.stat().st_mtime
