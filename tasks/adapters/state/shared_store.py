"""All state that processes share: named blobs, checked when they are read."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from tasks.adapters.files import pack_arrays, unpack_arrays, write_atomic
from tasks.adapters.state.mapped_arrays import mapped_arrays
from tasks.adapters.state.places import Entry, Place, Stamp
from tasks.adapters.state.seals import DamagedFileError, sealed, unsealed

_NAME = "written as"  # the array that says in older blobs as what they were written


class SharedStore:
    """Blobs that are whole or absent, each under the name that it was written as.

    A blob that is damaged, or was written under another name, counts as absent; it is removed.

    Parameters
    ----------
    place
        Where they lie.
    copies
        A folder of this machine for copies of blobs that are looked at again and again, where
        the place is elsewhere.
    """

    def __init__(self, place: Place, copies: Path) -> None:
        self.place = place
        self._copies = copies

    def shown(self, name: str) -> str:
        """Return where a blob lies, for people."""
        return f"{self.place.address}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a blob, None where it is absent."""
        try:
            return self._checked(name, self.place.get(name))
        except FileNotFoundError:
            return None

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those blobs that are there, asked for all at once."""
        found = {n: self._checked(n, data) for n, data in self.place.get_many(names).items()}
        return {name: data for name, data in found.items() if data is not None}

    def write(self, name: str, data: bytes) -> None:
        """Keep the bytes, whole or not at all."""
        self.place.put(name, sealed(name, data))

    def write_absent(self, name: str, data: bytes) -> bool:
        """Keep the bytes unless some are there, as far as the place can tell; say whether."""
        return self.place.put_absent(name, sealed(name, data))

    def has(self, name: str) -> bool:
        """Return whether a blob is there; whether it is whole, reading tells."""
        return self.place.has(name)

    def stamp(self, name: str) -> Stamp | None:
        """Return what changes with a blob, None where only reading tells."""
        return self.place.stamp(name)

    def is_still(self, name: str, stamp: Stamp | None) -> bool:
        """Return whether a blob is the one that had this stamp; where only reading tells, it is."""
        if stamp is None:
            return True
        try:
            return self.stamp(name) == stamp
        except FileNotFoundError:
            return False

    def remove(self, name: str) -> bool:
        """Return whether a blob was there; it is gone now."""
        self._copy(name).unlink(missing_ok=True)
        return self.place.remove(name)

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield what lies under a folder of names, listed anew."""
        return self.place.entries(folder)

    def write_arrays(
        self, name: str, arrays: Mapping[str, NDArray[np.generic]], *, compress: bool = True
    ) -> None:
        """Keep the arrays in one blob; only those of plain numbers or text are taken."""
        self.write(name, pack_arrays(arrays, compress=compress))

    def read_arrays(self, name: str, *, again: bool = False) -> dict[str, Any] | None:
        """Return the arrays of a blob, None where it is absent; nothing is unpickled.

        Parameters
        ----------
        name
            Of the blob.
        again
            Whether this machine will ask for it again: a copy is then kept here.
        """
        data = self._read_copy(name) if again else self.read(name)
        return None if data is None else self.unpacked(name, data)

    def unpacked(self, name: str, data: bytes) -> dict[str, Any] | None:
        """Return the arrays of a blob's data, None where these are no arrays of ours."""
        try:
            return self._own(name, unpack_arrays(data))
        except (DamagedFileError, ValueError, zipfile.BadZipFile):
            self.remove(name)
            return None

    def view_arrays(self, name: str) -> dict[str, Any] | None:
        """Return the arrays of an uncompressed blob as views of a file, None where it is absent.

        Of a folder's file the checksum is not looked at, which would read all of it; a copy that
        is fetched is checked first.
        """
        path = self.place.local(name)
        if path is None:
            if self._read_copy(name) is None:
                return None
            path = self._copy(name)
        try:
            return self._own(name, mapped_arrays(path, name))
        except FileNotFoundError:
            return None
        except DamagedFileError:
            self.remove(name)
            return None

    def _checked(self, name: str, content: bytes) -> bytes | None:
        """Return the data of a blob, None where it is damaged."""
        try:
            return unsealed(name, content)
        except DamagedFileError:
            self.remove(name)
            return None

    def _own(self, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return the arrays of a blob, refused where they say that they were another's."""
        written = arrays.pop(_NAME, None)
        if written is not None and str(written) != name.rpartition("/")[2]:
            raise DamagedFileError(f"{self.shown(name)} holds what was written as {written}")
        return arrays

    def _read_copy(self, name: str) -> bytes | None:
        """Return the data of a blob from this machine's copy, which is made where it is not whole.

        A folder is its own copy.
        """
        if self.place.local(name) is not None:
            return self.read(name)
        path = self._copy(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):  # one process of a machine fetches
            try:
                return unsealed(name, path.read_bytes())
            except (FileNotFoundError, DamagedFileError):
                data = self.read(name)
                if data is not None:
                    write_atomic(path, sealed(name, data))
                return data

    def _copy(self, name: str) -> Path:
        """Return where this machine keeps a copy."""
        return self._copies / name
