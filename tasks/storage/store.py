"""The line before a stored blob that tells whether it is whole, in its place."""

import hashlib
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from configs.errors import UserError
from tasks.storage.backends import Entry, FolderPlace, Place, RemotePlace, Stamp, StoreFolder
from tasks.storage.files import (
    Member,
    pack_arrays,
    sha256,
    stored_members,
    unpack_arrays,
    write_atomic,
)
from tasks.storage.settings import Settings

_DIGITS = 64
_LONGEST = 1024  # bytes of a line; names are far shorter


class DamagedFileError(Exception):
    """A sealed blob whose content or name does not match its seal."""


def sealed(name: str, data: bytes) -> bytes:
    """Return the bytes behind a line with their name, under a sha256 of both."""
    return b"".join((_digest(name, data).encode(), b" ", name.encode(), b"\n", data))


def unsealed(name: str, content: bytes) -> bytes:
    """Return the bytes of a sealed blob; a flipped one, or another name, raises."""
    start = line_end(name, content[:_LONGEST])
    seal, data = content[:_DIGITS], content[start:]
    # Older blobs have no name in their line: what they hold says it, to who reads them.
    expected = sha256(data) if start == _DIGITS + 1 else _digest(name, data)
    if seal != expected.encode():
        raise DamagedFileError(f"{name} does not match its checksum")
    return data


def line_end(name: str, head: bytes) -> int:
    """Return where the data of a blob begins, read from its first bytes; their name is checked."""
    line, newline, _ = head.partition(b"\n")
    if not newline or len(line) < _DIGITS:
        raise DamagedFileError(f"{name} does not begin with its seal")
    written = line[_DIGITS:]
    if written and written != b" " + name.encode():
        raise DamagedFileError(
            f"{name} holds what was written as {written.decode(errors='replace')}"
        )
    return len(line) + 1


def _digest(name: str, data: bytes) -> str:
    """Return the sha256 of a name with its data."""
    found = hashlib.sha256(name.encode() + b"\n")
    found.update(data)
    return found.hexdigest()


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


STORE_ID = "id"
# Folders that older homes have beside their store.
_OLD = ("prepared", "moments")
_FEATURES = "*.features.npz"  # of rows, which each machine makes for itself


@lru_cache(maxsize=32)
def open_store(settings: Settings) -> SharedStore:
    """Return the store that all processes of a run share."""
    if settings.shared is None:
        _adopt(settings)
    remote = "://" in settings.store
    place = RemotePlace(settings.store) if remote else StoreFolder(Path(settings.store))
    return SharedStore(place, settings.home / "fetched")


def ensure_store(settings: Settings) -> None:
    """Raise where what is written into the store cannot be read back."""
    store, name = open_store(settings), f"probes/{uuid4().hex}"
    store.write(name, name.encode())
    found = store.read(name)
    store.remove(name)
    if found != name.encode():
        raise UserError(
            f"the store {store.place.address} must give back what is written into it, but it does "
            "not; let FKD_STORE be another place."
        )


@lru_cache(maxsize=32)
def store_id(settings: Settings) -> str:
    """Return the random name of a store, by which MLflow tells the runs of two stores apart."""
    store = open_store(settings)
    found = store.read(STORE_ID)
    if found is None:
        store.write_absent(STORE_ID, uuid4().hex.encode())
        found = store.read(STORE_ID)
    if found is None:
        raise UserError(
            f"the store {store.place.address} must give back what is written into it, but it does "
            "not; let FKD_STORE be another place."
        )
    return found.decode()


@lru_cache(maxsize=32)
def machine_store(settings: Settings) -> SharedStore:
    """Return the store of what this machine alone keeps: features of rows from pass to pass."""
    return SharedStore(FolderPlace(settings.features), settings.home / "fetched")


def _adopt(settings: Settings) -> None:
    """Move what an older version has computed to where it is looked for now."""
    for old in _OLD:
        folder = settings.home / old
        if not folder.is_dir():
            continue
        with suppress(OSError):  # another process moves them too; or the run says what is closed
            for path in sorted(folder.iterdir()):
                new = Path(settings.store) / old
                new = settings.features if path.match(_FEATURES) else new
                new.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    path.rename(new / path.name)
            folder.rmdir()
