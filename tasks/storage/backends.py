"""Where the bytes of a store are kept: a folder, or a folder of an object store."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import fsspec

from configs.errors import UserError
from tasks.storage.files import FULL, write_atomic, write_new
from tasks.storage.settings import short_error

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """One blob of a listing."""

    name: str
    size: int  # bytes
    changed: float  # seconds since 1970


class StorageBackend(Protocol):
    """Bytes by name. A name is words of letters, digits and dots between slashes.

    Answers are never cached: other processes write too.
    """

    @property
    def address(self) -> str:
        """The location, without credentials."""

    def get(self, name: str) -> bytes:
        """Return the bytes; raise `FileNotFoundError` if the name is absent."""

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the names that exist, requested at once."""

    def put(self, name: str, data: bytes) -> None:
        """Write the bytes atomically; existing ones are replaced."""

    def put_absent(self, name: str, data: bytes) -> bool:
        """Write the bytes unless the name exists; return True if they were written.

        Object stores without conditional requests keep the bytes of the last writer.
        """

    def remove(self, name: str) -> bool:
        """Remove the name; return True if it existed."""

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the entries under a folder."""

    def has(self, name: str) -> bool:
        """Return True if the name exists."""

    def stamp(self, name: str) -> Stamp | None:
        """Return a value that changes with the bytes, None if that costs as much as reading them.

        Raise `FileNotFoundError` if the name is absent.
        """

    def local(self, name: str) -> Path | None:
        """Return the file with the bytes, None if they are not in a file of this machine."""


def store_full_error(address: str, reason: str) -> UserError:
    """Return the error of a store without free space."""
    return UserError(
        f"the store {address} is full ({reason}). Free space there, for example by `fkd clean`, "
        "then run the same command: completed fits are kept."
    )


class FolderBackend:
    """A folder of a disk, or of a file system that the workers share.

    Parameters
    ----------
    folder
        The folder. It is created by the first write.
    is_store
        Raise a UserError that ends the run if the disk is full. Otherwise the OSError is raised.
    """

    def __init__(self, folder: Path, *, is_store: bool = False) -> None:
        self.folder = folder
        self._is_store = is_store

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.folder)

    def get(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return self.local(name).read_bytes()

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the files that exist."""
        found = {}
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = self.local(name).read_bytes()
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        with self._named_errors():
            write_atomic(self.local(name), data)

    def put_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists."""
        with self._named_errors():
            return write_new(self.local(name), data)

    def remove(self, name: str) -> bool:
        """Remove a file; return True if it existed."""
        try:
            self.local(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the files under a folder, without temporary files."""
        for where, folders, names in os.walk(self.folder / folder):
            folders.sort()
            for path in (Path(where, name) for name in sorted(names) if not name.startswith(".")):
                with suppress(FileNotFoundError):
                    found = path.stat()
                    name = path.relative_to(self.folder).as_posix()
                    yield Entry(name, found.st_size, found.st_mtime)

    def has(self, name: str) -> bool:
        """Return True if the file exists. Opening it bypasses caches of network file systems."""
        try:
            with self.local(name).open("rb"):
                return True
        except FileNotFoundError:
            return False

    def stamp(self, name: str) -> Stamp | None:
        """Return time, inode and size of the file."""
        found = self.local(name).stat()
        return found.st_mtime_ns, found.st_ino, found.st_size

    def local(self, name: str) -> Path:
        """Return the file."""
        return self.folder / name

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the store in the error of a full disk."""
        try:
            yield
        except OSError as error:
            if not self._is_store or error.errno not in FULL:
                raise
            raise store_full_error(self.address, error.strerror or str(error)) from error


# Listings are read anew, and runs of one process may have different credentials.
_UNCACHED = {"use_listings_cache": False, "skip_instance_cache": True}
_S3 = {
    # One request per blob. Concurrent parts would need a request for the size first.
    "max_concurrency": 1,
    # Blobs have our own checksum, and not every server supports those of S3.
    "config_kwargs": {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    },
}
_REFUSED = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenError")
_FULL_WORDS = ("no space left", "quota", "storage full", "storagefull", "insufficientstorage")
_INTERNAL_ERROR, _INSUFFICIENT_STORAGE = 500, 507  # HTTP statuses
_RETRY_SECONDS = 1.0


class StoreUnreachableError(ConnectionError):
    """The store does not answer, or fails. A retry may succeed."""


class ObjectStoreBackend:
    """A folder of an object store, with the credentials of this machine's environment."""

    def __init__(self, address: str) -> None:
        self.address = address
        protocol = address.partition("://")[0]
        try:
            options = _S3 if protocol == "s3" else {}
            self._fs, root = fsspec.core.url_to_fs(address, **_UNCACHED, **options)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"FKD_STORE must be a folder or an fsspec address such as s3://bucket/folder, got "
                f"{address} ({short_error(error)}). For S3 install the extra: "
                "`pip install 'fkd[s3]'`."
            ) from error
        self._root = root.rstrip("/")
        self._errors: tuple[type[Exception], ...] = (OSError, *_client_errors(protocol))

    def get(self, name: str) -> bytes:
        """Return the bytes of an object."""
        with self._named_errors():
            data: bytes = self._fs.cat_file(self._path(name))
        return data

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the objects that exist, by concurrent requests."""
        paths = {self._path(name): name for name in names}
        if not paths:
            return {}
        with self._named_errors():
            answers = self._fs.cat(list(paths), on_error="return")
        found = {}
        for path, answer in answers.items():
            if isinstance(answer, bytes):
                found[paths[path]] = answer
            elif not isinstance(answer, FileNotFoundError) or _is_missing_bucket(answer):
                with self._named_errors():
                    raise answer
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write an object. Object stores write atomically."""
        self._send(name, data)

    def put_absent(self, name: str, data: bytes) -> bool:
        """Write an object by a conditional request."""
        if self.has(name):
            return False
        try:
            self._send(name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> bool:
        """Remove an object; return True if it existed."""
        try:
            with self._named_errors():
                existed = bool(self._fs.exists(self._path(name)))
                self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return False
        return existed

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the objects under a folder."""
        with self._named_errors():
            try:
                found = self._fs.find(f"{self._root}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError as error:
                if _is_missing_bucket(error):
                    raise
                return
        for path, info in sorted(found.items()):
            # s3fs returns the folder itself if its first object appears after the listing.
            if info["type"] == "directory":
                continue
            name = path.removeprefix(self._root).lstrip("/")
            when = info.get("LastModified") or info.get("created") or info.get("mtime") or 0.0
            changed = when.timestamp() if isinstance(when, datetime) else float(when)
            yield Entry(name, int(info["size"]), changed)

    def has(self, name: str) -> bool:
        """Return True if the object exists."""
        try:
            with self._named_errors():
                self._fs.info(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def stamp(self, name: str) -> Stamp | None:
        """Return None: a request for the date costs as much as reading a record."""
        return None

    def local(self, name: str) -> None:
        """Return None."""
        return None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _send(self, name: str, data: bytes, **options: str) -> None:
        """Write an object. A full server may answer with an internal error only."""
        path = self._path(name)
        for last in (False, True):
            try:
                with self._named_errors():
                    self._fs.pipe_file(path, data, **options)
            except FileExistsError:
                if not last or self.get(name) != data:
                    raise
            except StoreUnreachableError as error:
                # A server that is full still takes an object without content.
                cause = error.__cause__ or error
                if _status(cause) != _INTERNAL_ERROR or not self._takes_empty():
                    raise
                if last:
                    reason = f"it takes an empty object, but none of {len(data)} bytes"
                    reason = f"{reason}: {short_error(cause)}"
                    raise store_full_error(self.address, reason) from error
                time.sleep(_RETRY_SECONDS)
                continue
            return

    def _takes_empty(self) -> bool:
        """Return True if the server writes an object of no bytes."""
        path = self._path(f"probes/{uuid4().hex}")
        try:
            self._fs.pipe_file(path, b"")
            self._fs.rm_file(path)
        except self._errors:
            return False
        return True

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the store in errors. Absent and existing objects raise their own errors."""
        try:
            yield
        except (FileNotFoundError, FileExistsError) as error:
            if not _is_missing_bucket(error):
                raise
            raise UserError(
                f"the store {self.address} must be in an existing bucket, but the server has none "
                "of that name. Create it, or correct FKD_STORE (and AWS_ENDPOINT_URL, if the "
                "server is not Amazon's)."
            ) from error
        except self._errors as error:
            reason = short_error(error)
            full = any(words in reason.lower() for words in _FULL_WORDS)
            if full or _status(error) == _INSUFFICIENT_STORAGE:
                raise store_full_error(self.address, reason) from error
            if isinstance(error, PermissionError) or type(error).__name__ in _REFUSED:
                raise UserError(
                    f"the store {self.address} refuses this machine ({reason}). Set "
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to credentials "
                    "with read and write access on every machine that computes, then run the same "
                    "command: completed fits are kept."
                ) from error
            raise StoreUnreachableError(
                f"the store {self.address} does not answer, or fails ({reason}). Check the server "
                "and AWS_ENDPOINT_URL, then run the same command: completed fits are kept."
            ) from error


def _client_errors(protocol: str) -> tuple[type[Exception], ...]:
    """Return the errors that a store's client raises in addition to OSError."""
    if protocol != "s3":
        return ()
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, HttpError


def _is_missing_bucket(error: BaseException) -> bool:
    """Return True if an object is absent because its bucket is."""
    return bool(_answer(error).get("Error", {}).get("Code") == "NoSuchBucket")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of a server's answer, None without an answer."""
    status: int | None = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def _answer(error: BaseException) -> dict[str, Any]:
    """Return a server's answer as its client has parsed it."""
    return getattr(error.__cause__, "response", None) or {}
