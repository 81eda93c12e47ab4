"""The store that all processes of a run share: blobs with checksums, and locks.

A blob begins with a line: the sha256 of its name and its data, then its name. A blob that does not
match its line, or was written under another name, counts as absent and is removed.
"""

import hashlib
import io
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from configs.errors import UserError
from tasks.storage.backends import Entry, FolderBackend, ObjectStoreBackend, Stamp, StorageBackend
from tasks.storage.files import pack_arrays, unpack_arrays, write_atomic
from tasks.storage.settings import Settings

STORE_ID = "id"
RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 60.0
_POLL_SECONDS = 0.5
_RELEASED = b"released"
_LONGEST_LINE = 1024  # bytes; names are far shorter


@lru_cache(maxsize=32)
def open_store(settings: Settings) -> "BlobStore":
    """Return the store that all processes of a run share."""
    backend: StorageBackend = (
        ObjectStoreBackend(settings.store)
        if "://" in settings.store
        else FolderBackend(Path(settings.store), is_store=True)
    )
    return BlobStore(backend, settings.home / "fetched")


@lru_cache(maxsize=32)
def machine_store(settings: Settings) -> "BlobStore":
    """Return the store of this machine alone, for features of rows."""
    return BlobStore(FolderBackend(settings.features), settings.home / "fetched")


def ensure_store(settings: Settings) -> None:
    """Write a blob and read it back; raise a UserError if that fails."""
    store, name = open_store(settings), f"probes/{uuid4().hex}"
    store.write(name, name.encode())
    found = store.read(name)
    store.remove(name)
    if found != name.encode():
        raise _unreadable(store)


@lru_cache(maxsize=32)
def store_id(settings: Settings) -> str:
    """Return the random name of a store, which distinguishes the runs of two stores in MLflow."""
    store = open_store(settings)
    found = store.read(STORE_ID)
    if found is None:
        store.write_absent(STORE_ID, uuid4().hex.encode())
        found = store.read(STORE_ID)
    if found is None:
        raise _unreadable(store)
    return found.decode()


def _unreadable(store: "BlobStore") -> UserError:
    return UserError(
        f"the store {store.backend.address} must return written blobs, but a blob was not "
        "returned. Set FKD_STORE to another location."
    )


class DamagedBlobError(Exception):
    """A blob whose content or name does not match its checksum."""


class BlobStore:
    """Blobs by name. A damaged blob counts as absent and is removed.

    Parameters
    ----------
    backend
        Keeps the bytes.
    copies
        Folder of this machine for copies of remote blobs.
    """

    def __init__(self, backend: StorageBackend, copies: Path) -> None:
        self.backend = backend
        self._copies = copies

    def location(self, name: str) -> str:
        """Return the address of a blob, for messages."""
        return f"{self.backend.address}/{name}"

    def read(self, name: str, *, cache: bool = False) -> bytes | None:
        """Return the data of a blob, None if it is absent.

        With `cache`, a copy of a remote blob is kept on this machine and read the next time.
        """
        if cache and self.backend.local(name) is None:
            return self._read_copy(name)
        try:
            return self._checked(name, self.backend.get(name))
        except FileNotFoundError:
            return None

    def read_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the data of the blobs that exist, requested at once."""
        found = {n: self._checked(n, data) for n, data in self.backend.get_many(names).items()}
        return {name: data for name, data in found.items() if data is not None}

    def write(self, name: str, data: bytes) -> None:
        """Write a blob atomically."""
        self.backend.put(name, add_checksum(name, data))

    def write_absent(self, name: str, data: bytes) -> bool:
        """Write a blob unless it exists, as far as the backend supports this."""
        return self.backend.put_absent(name, add_checksum(name, data))

    def has(self, name: str) -> bool:
        """Return True if a blob exists. Its checksum is not verified."""
        return self.backend.has(name)

    def stamp(self, name: str) -> Stamp | None:
        """Return a value that changes with a blob, None if the backend has none."""
        return self.backend.stamp(name)

    def remove(self, name: str) -> bool:
        """Remove a blob and its copy; return True if it existed."""
        self._copy(name).unlink(missing_ok=True)
        return self.backend.remove(name)

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the entries under a folder."""
        return self.backend.entries(folder)

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Write arrays of numbers or text as one blob."""
        self.write(name, pack_arrays(arrays))

    def read_arrays(self, name: str, *, cache: bool = False) -> dict[str, Any] | None:
        """Return the arrays of a blob, None if it is absent. Nothing is unpickled."""
        data = self.read(name, cache=cache)
        return None if data is None else self.unpacked(name, data)

    def unpacked(self, name: str, data: bytes) -> dict[str, Any] | None:
        """Return the arrays in a blob's data. Remove the blob and return None if it has none."""
        try:
            return unpack_arrays(io.BytesIO(data))
        except (ValueError, EOFError):
            self.remove(name)
            return None

    def mapped_arrays(self, name: str) -> dict[str, Any] | None:
        """Return the arrays of a blob as read-only maps of its file, None if it is absent.

        The checksum of a folder's file is not verified, as that would read the whole file. The
        copy of a remote blob is verified.
        """
        path = self.backend.local(name)
        if path is None:
            if self._read_copy(name) is None:
                return None
            path = self._copy(name)
        try:
            with path.open("rb") as file:
                file.seek(_data_start(name, file.read(_LONGEST_LINE)))
                return unpack_arrays(file, mapped=True)
        except FileNotFoundError:
            return None
        except OSError:
            raise
        except Exception:  # a damaged header makes numpy raise errors of many kinds
            self.remove(name)
            return None

    def _checked(self, name: str, content: bytes) -> bytes | None:
        """Return the data of a blob, None if it is damaged."""
        try:
            return verify_checksum(name, content)
        except DamagedBlobError:
            self.remove(name)
            return None

    def _read_copy(self, name: str) -> bytes | None:
        """Return the data of a remote blob from this machine's copy, which is fetched if needed."""
        path = self._copy(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):  # one process of a machine fetches
            try:
                return verify_checksum(name, path.read_bytes())
            except (FileNotFoundError, DamagedBlobError):
                data = self.read(name)
                if data is not None:
                    write_atomic(path, add_checksum(name, data))
                return data

    def _copy(self, name: str) -> Path:
        return self._copies / name


def add_checksum(name: str, data: bytes) -> bytes:
    """Return the content of a blob: its line, then the data."""
    return b"".join((_checksum(name, data), b" ", name.encode(), b"\n", data))


def verify_checksum(name: str, content: bytes) -> bytes:
    """Return the data of a blob; raise DamagedBlobError if it does not match its line."""
    start = _data_start(name, content[:_LONGEST_LINE])
    data = content[start:]
    if not content.startswith(_checksum(name, data)):
        raise DamagedBlobError(f"{name} does not match its checksum")
    return data


def _checksum(name: str, data: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\n")
    digest.update(data)
    return digest.hexdigest().encode()


def _data_start(name: str, head: bytes) -> int:
    """Return the position of the data in a blob; refuse another blob's name."""
    line, newline, _ = head.partition(b"\n")
    _, space, written = line.partition(b" ")
    if not (newline and space):
        raise DamagedBlobError(f"{name} does not begin with a checksum")
    if written != name.encode():
        raise DamagedBlobError(f"{name} was written as {written.decode(errors='replace')}")
    return len(line) + 1


@contextmanager
def store_lock(store: BlobStore, name: str, home: Path) -> Iterator[None]:
    """Hold a lock of the store; wait until it is free.

    A folder has a file lock, which the operating system releases when its holder is killed. An
    object store has numbered objects: the process that creates the next number by a conditional
    request holds the lock. It renews its object every few seconds. Other processes take over a
    lock that was released, or not renewed for a minute. A server without conditional requests
    cannot keep two homes apart; the processes of one home still take turns.

    Parameters
    ----------
    store
        The lock is shared by all processes that use this store.
    name
        Name of the protected resource.
    home
        Folder of this machine, for the lock among its own processes if the store is remote.
    """
    file = f"locks/{name}.lock"
    local = store.backend.local(file)
    path = local or home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        if local is not None:
            yield
        else:
            with _lease(store, f"locks/{name}"):
                yield


@contextmanager
def _lease(store: BlobStore, folder: str) -> Iterator[None]:
    """Hold the highest numbered object of a folder."""
    own = _take(store, folder)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            with suppress(OSError):  # the next renewal may reach the store
                store.write(own, uuid4().bytes)

    thread = threading.Thread(target=renew, name="fkd-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        store.write(own, _RELEASED)


def _take(store: BlobStore, folder: str) -> str:
    """Create the highest numbered object of a folder and return its name."""

    def numbers() -> list[int]:
        return [int(entry.name.rpartition("/")[2]) for entry in store.entries(f"{folder}/")]

    seen, since = None, time.monotonic()
    while True:
        existing = numbers()
        last = max(existing, default=0)
        content = store.read(f"{folder}/{last:012d}") if last else _RELEASED
        if (last, content) != seen:
            seen, since = (last, content), time.monotonic()
        if content == _RELEASED or time.monotonic() - since > EXPIRE_SECONDS:
            own = f"{folder}/{last + 1:012d}"
            # Another process may have gone through this number and a higher one since the listing.
            if store.write_absent(own, uuid4().bytes) and max(numbers()) == last + 1:
                for number in existing:
                    store.remove(f"{folder}/{number:012d}")
                return own
        time.sleep(_POLL_SECONDS)
