"""Where the arrays of an npz file that is not compressed lie in it."""

import io
import math
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

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
