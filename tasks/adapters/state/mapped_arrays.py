"""Arrays of a sealed file as views of it, read as they are touched."""

import io
import math
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from tasks.adapters.state.seals import DamagedFileError, line_end

_LOCAL_LENGTHS = 26  # where a zip member's own header says how long its name and its extras are
_HEAD = 1024  # bytes in which a seal ends


def mapped_arrays(path: Path, name: str) -> dict[str, Any]:
    """Return the arrays of an uncompressed sealed file that was written under a name.

    The seal's checksum is not looked at, which would read all of it; a file that ends too early is
    damaged.
    """
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            file.seek(0)
            start = line_end(name, file.read(_HEAD))
            if min(member.header_offset for member in archive.infolist()) != start:
                raise ValueError("it does not begin behind its seal")
            for member in archive.infolist():
                file.seek(member.header_offset + _LOCAL_LENGTHS)
                named, extra = struct.unpack("<HH", file.read(4))
                file.seek(named + extra, io.SEEK_CUR)
                found[member.filename.removesuffix(".npy")] = _mapped(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise DamagedFileError(f"{path} is not whole") from error
    return found


def _mapped(file: IO[bytes]) -> Any:
    """Return the array that starts here in an open npy file."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0}.get(version)
    shape, fortran, dtype = (read or np.lib.format.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise ValueError("bytes of a file must not be taken for addresses of objects")
    order: Any = "F" if fortran else "C"
    if not math.prod(shape):
        return np.empty(shape, dtype, order)
    # As a plain array: what is taken from it later should not call itself a map.
    return np.asarray(
        np.memmap(file, dtype, mode="r", offset=file.tell(), shape=shape, order=order)
    )
