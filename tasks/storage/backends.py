"""What a store asks of the place where its bytes lie."""

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
from tasks.storage.addresses import scrubbed
from tasks.storage.files import FULL, write_atomic

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """One blob as a listing tells of it."""

    name: str
    size: int  # bytes
    changed: float  # seconds since 1970


class Place(Protocol):
    """Bytes by name; a name is words of letters, digits, dots between slashes."""

    @property
    def address(self) -> str:
        """Where it is, as it may be shown."""

    def get(self, name: str) -> bytes:
        """Return the bytes; `FileNotFoundError` where there are none, asked anew each time."""

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the names that are there."""

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes, whole or not at all; who was there before is replaced."""

    def put_absent(self, name: str, data: bytes) -> bool:
        """Keep the bytes unless the name is taken; return whether they were kept.

        Where the place cannot tell (some object stores do not), the last writer's are kept.
        """

    def remove(self, name: str) -> bool:
        """Return whether the name was there; it is gone now."""

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield what lies under a folder, listed anew."""

    def has(self, name: str) -> bool:
        """Return whether the name is there."""

    def stamp(self, name: str) -> Stamp | None:
        """Return what changes with the bytes, None where only reading tells.

        `FileNotFoundError` where there are none.
        """

    def local(self, name: str) -> Path | None:
        """Return the file that holds the bytes, None where none of this machine does."""


def full_store(address: str, said: str) -> UserError:
    """Return that a store takes no more, with its cure.

    Parameters
    ----------
    address
        Where the store is.
    said
        How that shows, in a few words.
    """
    return UserError(
        f"the store {address} is full ({said}); free some space there, such as by `fkd clean`, "
        "then run the same command: what was computed is kept."
    )


class FolderPlace:
    """A folder on a disk, or on a file system that workers share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.folder)

    def get(self, name: str) -> bytes:
        """Return the bytes of a file, opened by its name: no listing is asked."""
        return self.local(name).read_bytes()

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the files that are there."""
        found = {}
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = self.local(name).read_bytes()
        return found

    def put(self, name: str, data: bytes) -> None:
        """Write a file beside its place, then rename it."""
        write_atomic(self.local(name), data)

    def put_absent(self, name: str, data: bytes) -> bool:
        """Write a file beside its place, then link it there unless that is taken."""
        path = self.local(name)
        aside = path.with_name(f".{uuid4().hex}.part")
        write_atomic(aside, data)
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def remove(self, name: str) -> bool:
        """Return whether the file was there."""
        try:
            self.local(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the files under a folder, those apart that are being written."""
        for where, folders, names in os.walk(self.folder / folder):
            folders.sort()
            for name in sorted(names):
                path = Path(where, name)
                if name.startswith("."):
                    continue
                with suppress(FileNotFoundError):
                    told = path.stat()
                    shown = path.relative_to(self.folder).as_posix()
                    yield Entry(shown, told.st_size, told.st_mtime)

    def has(self, name: str) -> bool:
        """Return whether the file is there, by opening it: a network file system looks anew."""
        try:
            with self.local(name).open("rb"):
                return True
        except FileNotFoundError:
            return False

    def stamp(self, name: str) -> Stamp | None:
        """Return time, number, size of the file."""
        found = self.local(name).stat()
        return found.st_mtime_ns, found.st_ino, found.st_size

    def local(self, name: str) -> Path:
        """Return the file."""
        return self.folder / name


class StoreFolder(FolderPlace):
    """The folder of a whole run's store: that it is full concerns every job, hence ends the run."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file beside its place, then rename it."""
        with self._told():
            super().put(name, data)

    def put_absent(self, name: str, data: bytes) -> bool:
        """Write a file beside its place, then link it there unless that is taken."""
        with self._told():
            return super().put_absent(name, data)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn a lack of room into a sentence; other faults may pass, or are said by others."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise full_store(self.address, error.strerror or str(error)) from error


# Nothing that a listing said a moment ago counts; several runs of one process differ in secrets.
_FRESH = {"use_listings_cache": False, "skip_instance_cache": True}
_S3 = {
    # One request per blob: with more it would ask for the size first.
    "max_concurrency": 1,
    # Blobs have checksums of their own, and not every server knows these.
    "config_kwargs": {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    },
}
_REFUSED = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenError")
_FULL = ("no space left", "quota", "storage full", "storagefull", "insufficientstorage")
_INTERNAL, _NO_ROOM = 500, 507  # statuses of HTTP
_PAUSE_SECONDS = 1.0  # before a write is tried again
_BOTH = "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"


class StoreUnreachableError(ConnectionError):
    """A store that does not answer, or fails: another try may find it well."""


class RemotePlace:
    """A folder of an object store; names and secrets are those of this machine's environment."""

    def __init__(self, address: str) -> None:
        self.address = address
        kind = address.partition("://")[0]
        try:
            options = _S3 if kind == "s3" else {}
            self._fs, root = fsspec.core.url_to_fs(address, **_FRESH, **options)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"FKD_STORE must be a folder or an address that fsspec knows, such as "
                f"s3://bucket/folder with the extra s3 (`pip install 'fkd[s3]'`), got {address} "
                f"({_short(error)})."
            ) from error
        self._root = root.rstrip("/")
        self._faults: tuple[type[Exception], ...] = (OSError, *_client_errors(kind))

    def get(self, name: str) -> bytes:
        """Return the bytes of an object; its own answer counts, no listing."""
        with self._told():
            found: bytes = self._fs.cat_file(self._path(name))
        return found

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of the objects that are there, many asked for at once."""
        paths = {self._path(name): name for name in names}
        if not paths:
            return {}
        with self._told():
            told = self._fs.cat(list(paths), on_error="return")
        found = {}
        for path, answer in told.items():
            if isinstance(answer, bytes):
                found[paths[path]] = answer
            elif not isinstance(answer, FileNotFoundError) or _is_missing_bucket(answer):
                with self._told():
                    raise answer
        return found

    def put(self, name: str, data: bytes) -> None:
        """Keep an object: what a server takes is whole or not there."""
        self._send(name, data)

    def put_absent(self, name: str, data: bytes) -> bool:
        """Keep an object where none is; servers that do not know the condition keep the last."""
        if self.has(name):
            return False
        try:
            self._send(name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> bool:
        """Return whether the object was there."""
        try:
            with self._told():
                there = bool(self._fs.exists(self._path(name)))
                self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return False
        return there

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the objects under a folder."""
        with self._told():
            try:
                found = self._fs.find(f"{self._root}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError as error:
                if _is_missing_bucket(error):
                    raise
                return
        for path, told in sorted(found.items()):
            name = path.removeprefix(self._root).lstrip("/")
            yield Entry(name, int(told["size"]), _changed(told))

    def has(self, name: str) -> bool:
        """Return whether the object is there."""
        try:
            with self._told():
                self._fs.info(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def stamp(self, name: str) -> Stamp | None:
        """Return nothing: to ask costs what reading costs."""
        return None

    def local(self, name: str) -> None:
        """Return nothing: no file of this machine holds it."""

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _send(self, name: str, data: bytes, **options: str) -> None:
        """Write an object; a server that lacks room may say no more than that it has failed."""
        path = self._path(name)
        with self._told():
            try:
                self._fs.pipe_file(path, data, **options)
            except self._faults as error:
                if _status(error) != _INTERNAL or not self._takes_empty():
                    raise
            else:
                return
        # What failed for another reason may pass by then: what takes an empty object takes this.
        time.sleep(_PAUSE_SECONDS)
        try:
            with self._told():
                self._fs.pipe_file(path, data, **options)
        except FileExistsError:
            if self.get(name) != data:  # else it is ours: the server took it, then failed to say so
                raise
        except StoreUnreachableError as error:
            said = _short(error.__cause__ or error)
            told = f"its server takes an empty object, but none of {len(data)} bytes: {said}"
            raise full_store(self.address, told) from error

    def _takes_empty(self) -> bool:
        """Return whether the server takes an object of no bytes, which needs no room."""
        path = self._path(f"probes/{uuid4().hex}")
        try:
            self._fs.pipe_file(path, b"")
            self._fs.rm_file(path)
        except self._faults:
            return False
        return True

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn faults of the store into sentences; that something is absent or there passes."""
        try:
            yield
        except (FileNotFoundError, FileExistsError) as error:
            if _is_missing_bucket(error):
                raise UserError(
                    f"the store {self.address} must lie in a bucket that exists, but the server "
                    "knows none of that name; create it, or correct FKD_STORE (and "
                    "AWS_ENDPOINT_URL, if the server is not Amazon's)."
                ) from error
            raise
        except self._faults as error:
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> Exception:
        """Return a fault as a sentence: one that a person must cure, or one that may pass."""
        said = _short(error)
        if _status(error) == _NO_ROOM or any(words in said.lower() for words in _FULL):
            return full_store(self.address, said)
        if isinstance(error, PermissionError) or type(error).__name__ in _REFUSED:
            return UserError(
                f"the store {self.address} refuses this machine ({said}); set {_BOTH} to what may "
                "read and write there, on every machine that computes, then run the same command: "
                "what was computed is kept."
            )
        return StoreUnreachableError(
            f"the store {self.address} does not answer as it should ({said}); look at the server "
            "and at AWS_ENDPOINT_URL, then run the same command: what was computed is kept."
        )


def _client_errors(kind: str) -> tuple[type[Exception], ...]:
    """Return the errors that a store's client raises beside those of the system."""
    if kind != "s3":
        return ()
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, HttpError


def _is_missing_bucket(error: BaseException) -> bool:
    """Return whether an object is absent because all of them are."""
    return bool(_answer(error).get("Error", {}).get("Code") == "NoSuchBucket")


def _status(error: BaseException) -> int | None:
    """Return with which status a server has answered, None where it has not."""
    found: int | None = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found


def _answer(error: BaseException) -> dict[str, Any]:
    """Return what a server has said, as its client has read it."""
    return getattr(error.__cause__, "response", None) or {}


def _short(error: BaseException) -> str:
    """Return what somebody else says of a fault as a few words without secrets."""
    return scrubbed(" ".join(str(error).split()))[:200].rstrip(".") or type(error).__name__


def _changed(told: dict[str, Any]) -> float:
    """Return when an object was written, as its listing tells."""
    when = told.get("LastModified") or told.get("created") or told.get("mtime") or 0.0
    return when.timestamp() if isinstance(when, datetime) else float(when)
