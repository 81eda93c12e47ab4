"""The cache of downloads: contents by sha256, and one record per public file."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tasks.storage.backends import FolderBackend
from tasks.storage.store import BlobStore

# The lock under which contents and records are changed together.
_ADMISSION = "admission"


@dataclass(frozen=True)
class CachedFile:
    """The record of a cached file.

    Parameters
    ----------
    name
        Its name in mirrors.
    sha256, size
        Checksum and number of bytes.
    source
        The address that it was downloaded from.
    pinned
        True if the checksum was known before the download, False if it was recorded at first use.
    """

    name: str
    sha256: str
    size: int
    source: str
    pinned: bool


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """A folder with downloaded contents, their records, partial downloads and locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = folder / "names"
        self._records = BlobStore(FolderBackend(self._names), folder)

    def object_path(self, sha256: str) -> Path:
        """Return the location of the content with a checksum."""
        return self.folder / "objects" / sha256[:2] / sha256

    def partial_path(self, name: str) -> Path:
        """Return the location of the partial download of a file."""
        return self.folder / "partial" / f"{name.replace('/', '_')}.part"

    def find(self, name: str) -> CachedFile | None:
        """Return the record of a file, or None if it is absent or damaged."""
        record = self._records.read(f"{name}.json")
        return None if record is None else CachedFile(**json.loads(record))

    def is_intact(self, record: CachedFile) -> bool:
        """Return True if the content exists and has the recorded checksum."""
        # Computed at every use: half a second per gigabyte detects silent damage.
        path = self.object_path(record.sha256)
        return path.is_file() and file_sha256(path) == record.sha256

    def admit(self, partial: Path, record: CachedFile) -> Path:
        """Move a verified download into the cache in one step, and return its location."""
        target = self.object_path(record.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Content before name: a power failure must not leave a name without its content.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        with self.lock(_ADMISSION):
            partial.replace(target)
            # A crash before the record leaves an object without a record, which is removed later.
            self._records.write(f"{record.name}.json", json.dumps(asdict(record)).encode())
        return target

    def records(self) -> Iterator[CachedFile]:
        """Yield the records by name."""
        for path in sorted(self._names.rglob("*.json")):
            record = self.find(path.relative_to(self._names).as_posix().removesuffix(".json"))
            if record is not None:
                yield record

    def remove(self, name: str) -> bool:
        """Remove the record, the partial download and the content of a file.

        A content that another record refers to is kept. Return False if another process is
        fetching the file; nothing is removed then.
        """
        lock = self._acquire(name)
        if lock is None:
            return False
        with lock:
            with self.lock(_ADMISSION):
                record = self.find(name)
                self._record_path(name).unlink(missing_ok=True)
                if record and record.sha256 not in {other.sha256 for other in self.records()}:
                    self.object_path(record.sha256).unlink(missing_ok=True)
            remove_partial(self.partial_path(name))
        return True

    def remove_leftovers(self, *, older_than: float = 0.0) -> tuple[int, int]:
        """Remove files without a record. Return the number of removed files and of files in use.

        Parameters
        ----------
        older_than
            Minimum age in seconds of a partial download. The next run can continue a younger one.
        """
        with self.lock(_ADMISSION):
            wanted = {self.object_path(record.sha256) for record in self.records()}
            wanted |= {self._record_path(record.name) for record in self.records()}
            found = [*(self.folder / "objects").rglob("*"), *self._names.rglob("*")]
            leftovers = {path for path in found if path.is_file()} - wanted
            for path in leftovers:
                path.unlink(missing_ok=True)
        removed, busy = len(leftovers), 0
        # The note of a partial download may exist without it.
        partials = {p.with_suffix(".part") for p in (self.folder / "partial").glob("*.*")}
        for partial in partials:
            lock = self._acquire(partial.stem)
            if lock is None:
                busy += 1
                continue
            # The process that held the lock may have removed both files.
            with lock, suppress(FileNotFoundError):
                file = partial if partial.exists() else partial.with_suffix(".json")
                if time.time() - file.stat().st_mtime >= older_than:
                    remove_partial(partial)
                    removed += 1
        return removed, busy

    def lock(self, name: str) -> FileLock:
        """Return the lock of a file. The system releases that of a killed process."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{name.replace('/', '_')}.lock")

    def _acquire(self, name: str) -> AbstractContextManager[Any] | None:
        """Acquire the lock of a file, or return None if another process holds it."""
        try:
            return self.lock(name).acquire(blocking=False)
        except Timeout:
            return None

    def _record_path(self, name: str) -> Path:
        return self._names / f"{name}.json"


def remove_partial(partial: Path) -> None:
    """Remove a partial download with its note."""
    partial.unlink(missing_ok=True)
    partial.with_suffix(".json").unlink(missing_ok=True)
