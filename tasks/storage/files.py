"""Where the arrays of an npz file that is not compressed lie in it."""

import errno
import fcntl
import hashlib
import io
import math
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from configs.errors import UserError

_LOCAL_LENGTHS = 26  # where a zip member's own header says how long its name and its extras are


@dataclass(frozen=True)
class Member:
    """One array, as its header describes it."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int  # of its first number in the file


def is_compressed(archive: zipfile.ZipFile) -> bool:
    """Return whether a member has to be unpacked to be read."""
    return any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())


def stored_members(file: IO[bytes], archive: zipfile.ZipFile) -> Iterator[Member]:
    """Yield the arrays of an open file in their order; a ValueError tells what is none."""
    for member in archive.infolist():
        file.seek(member.header_offset + _LOCAL_LENGTHS)
        lengths = file.read(4)
        if len(lengths) < 4:
            raise ValueError(f"{member.filename} must have a header, but the file ends before it")
        start = file.seek(sum(struct.unpack("<HH", lengths)), io.SEEK_CUR)
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(version)
        shape, fortran, dtype = (read or np.lib.format.read_array_header_2_0)(file)
        if dtype.hasobject:
            raise ValueError("bytes of a file must not be taken for addresses of objects")
        size = file.tell() - start + dtype.itemsize * math.prod(shape)
        if min(shape, default=0) < 0 or size != member.file_size:
            raise ValueError(f"{member.filename} must be as long as its header says")
        name = member.filename.removesuffix(".npy")
        yield Member(name, dtype, shape, "F" if fortran else "C", file.tell())


def sha256(data: bytes) -> str:
    """Return the hexadecimal sha256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Write the bytes so that a reader sees all of them or no file, whenever we are killed.

    Who else may read or write the file is as the umask says: a folder may be shared by a group.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{path.name[:40]}.{uuid4().hex}.part"
    nameless = _nameless(path.parent)
    try:
        with nameless or part.open("xb") as file:
            hold(file)  # to the end: what nobody holds was left by a writer that is gone
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if nameless is not None:
                _name(file, part)
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _nameless(folder: Path) -> IO[bytes] | None:
    """Return a file that is gone with its writer until it is named, None where there is none such.

    A worker that is ended in the middle of a write then leaves nothing. Some file systems, such as
    those of a network, know no such files.
    """
    try:
        number = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (OSError, AttributeError):
        return None
    if not _by_number(number).exists():  # nothing to name it by
        os.close(number)
        return None
    return os.fdopen(number, "wb")


def _name(file: IO[bytes], path: Path) -> None:
    """Give a nameless file its name."""
    # Only with a folder's number is a link followed to what it stands for; it is not looked at.
    os.link(_by_number(file.fileno()), path, src_dir_fd=file.fileno())


def _by_number(number: int) -> Path:
    """Return where an open file of this process is to be found."""
    return Path("/proc/self/fd", str(number))


def hold(file: IO[bytes]) -> bool:
    """Return whether the file is ours now, until it is closed or we are gone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else's, or on a file system that has no locks
        return False
    return True


def pack_arrays(arrays: Mapping[str, NDArray[np.generic]], *, compress: bool = True) -> bytes:
    """Return the arrays as the bytes of an npz file; object arrays are refused.

    Dense float64 hardly shrinks but takes half a second per 10 MB, hence `compress` can be off.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(
                f"array {name} must hold plain numbers or text, got dtype {array.dtype}"
            )
    buffer = io.BytesIO()
    save = np.savez_compressed if compress else np.savez
    save(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(data: bytes) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an npz file's bytes; nothing is unpickled.

    Those that are not compressed are copied as they lie, without a look at the archive's own
    checksums: they are the store's, which looks at a seal over all of them first.
    """
    file = io.BytesIO(data)
    with zipfile.ZipFile(file) as archive:
        if not is_compressed(archive):
            return {m.name: _copied(data, m) for m in stored_members(file, archive)}
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _copied(data: bytes, member: Member) -> NDArray[np.generic]:
    """Return one array of an archive, which may be written to."""
    count = math.prod(member.shape)
    flat = np.frombuffer(data, member.dtype, count, member.offset) if count else np.empty(0)
    return flat.reshape(member.shape, order=member.order).astype(member.dtype, order="K")


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
