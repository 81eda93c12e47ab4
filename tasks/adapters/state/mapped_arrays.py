"""Arrays of a sealed file as views of it, read as they are touched."""

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from tasks.adapters.npz_members import Member, stored_members
from tasks.adapters.state.seals import DamagedFileError, line_end

_HEAD = 1024  # bytes in which a seal ends


def mapped_arrays(path: Path, name: str) -> dict[str, Any]:
    """Return the arrays of an uncompressed sealed file that was written under a name.

    The seal's checksum is not looked at, which would read all of it; a file that ends too early is
    damaged.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            file.seek(0)
            start = line_end(name, file.read(_HEAD))
            if min(member.header_offset for member in archive.infolist()) != start:
                raise ValueError("it does not begin behind its seal")
            found = list(stored_members(file, archive))
            return {member.name: _mapped(file, member) for member in found}
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DamagedFileError(f"{path} is not whole") from error


def _mapped(file: IO[bytes], member: Member) -> Any:
    """Return one array of an open file."""
    shape, dtype, order = member.shape, member.dtype, member.order
    if not math.prod(shape):
        return np.empty(shape, dtype, order)
    # As a plain array: what is taken from it later should not call itself a map.
    return np.asarray(
        np.memmap(file, dtype, mode="r", offset=member.offset, shape=shape, order=order)
    )
