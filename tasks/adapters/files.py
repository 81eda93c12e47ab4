"""Files that are whole or absent."""

import fcntl
import hashlib
import io
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tasks.adapters.npz_members import Member, is_compressed, stored_members


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
