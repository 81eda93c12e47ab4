"""Files that are whole or absent, checked when they are read."""

import fcntl
import hashlib
import io
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

_SEAL = 65  # 64 hex digits of the payload's sha256 and a newline
_LOCAL_LENGTHS = 26  # where a zip member's own header says how long its name and its extras are
_NAME = "written as"  # the array that says under which name, hence key, a file was written

Stamp = tuple[
    int, int, int
]  # of a file: another one has another, as long as nobody turns back time


class DamagedFileError(Exception):
    """A sealed file whose content does not match its seal."""


def sha256(data: bytes) -> str:
    """Return the hexadecimal sha256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def stamp_of(path: Path) -> Stamp | None:
    """Return by what a file is known to be the one that was read, None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def write_atomic(path: Path, data: bytes) -> None:
    """Write the bytes so that a reader sees all of them or no file, whenever we are killed.

    Who else may read or write the file is as the umask says: a folder may be shared by a group.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{path.name[:40]}.{uuid4().hex}.part"
    try:
        with part.open("xb") as file:
            hold(file)  # to the end: what nobody holds was left by a writer that is gone
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def hold(file: IO[bytes]) -> bool:
    """Return whether the file is ours now, until it is closed or we are gone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else's, or on a file system that has no locks
        return False
    return True


def write_sealed(path: Path, data: bytes) -> None:
    """Write the bytes atomically behind their own sha256."""
    write_atomic(path, sha256(data).encode() + b"\n" + data)


def read_sealed(path: Path) -> bytes:
    """Return the bytes of a sealed file; a single flipped one raises `DamagedFileError`."""
    content = path.read_bytes()
    seal, data = content[:_SEAL], content[_SEAL:]
    if seal != sha256(data).encode() + b"\n":
        raise DamagedFileError(f"{path} does not match its checksum")
    return data


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


def write_arrays(
    path: Path, arrays: Mapping[str, NDArray[np.generic]], *, compress: bool = True
) -> None:
    """Keep the arrays in one sealed file, whole or not at all; its name is under the seal."""
    named = {**arrays, _NAME: np.array(path.name)}
    write_sealed(path, pack_arrays(named, compress=compress))


def open_arrays(path: Path, data: bytes | None = None) -> dict[str, Any]:
    """Return the arrays of a sealed file; one that was written under another name is damaged.

    Parameters
    ----------
    path
        Where the file lies.
    data
        Its bytes, if they have been read.
    """
    return _written_as(path, unpack_arrays(read_sealed(path) if data is None else data))


def _written_as(path: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a file, refused where it was written under another name."""
    written = arrays.pop(_NAME, None)  # none in files of version 0.1
    if written is not None and str(written) != path.name:
        raise DamagedFileError(f"{path} holds what was written as {written}")
    return arrays


def view_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of an uncompressed sealed file as views of it: read as they are touched.

    The seal is not checked, which would read all of it; a file that ends too early is damaged.
    """
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            if min(member.header_offset for member in archive.infolist()) != _SEAL:
                raise ValueError("it does not begin with its seal")
            for member in archive.infolist():
                file.seek(member.header_offset + _LOCAL_LENGTHS)
                name, extra = struct.unpack("<HH", file.read(4))
                file.seek(name + extra, io.SEEK_CUR)
                found[member.filename.removesuffix(".npy")] = _mapped(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise DamagedFileError(f"{path} is not whole") from error
    return _written_as(path, found)


def _mapped(file: IO[bytes]) -> Any:
    """Return the array that starts here in an open npy file."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0}.get(version)
    shape, fortran, dtype = (read or np.lib.format.read_array_header_2_0)(file)
    order: Any = "F" if fortran else "C"
    if not math.prod(shape):
        return np.empty(shape, dtype, order)
    # As a plain array: what is taken from it later should not call itself a map.
    return np.asarray(
        np.memmap(file, dtype, mode="r", offset=file.tell(), shape=shape, order=order)
    )


def read_arrays(path: Path) -> dict[str, Any] | None:
    """Return the arrays of a sealed file, None where it is absent or damaged."""
    try:
        return open_arrays(path)
    except (FileNotFoundError, DamagedFileError):
        return None


def unpack_arrays(data: bytes) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an npz file's bytes; nothing is unpickled."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
