"""Downloaded files, kept by their content."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tasks.storage.backends import FolderPlace
from tasks.storage.store import SharedStore

_NAMES = "names"  # the folder of records


@dataclass(frozen=True)
class CachedFile:
    """What is known of a cached file since its first use."""

    name: str
    sha256: str
    size: int
    source: str
    """The address it came from."""
    pinned: bool
    """Whether the checksum was known before the download, or is the one of the first use."""


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """A folder of objects named by their sha256, of records named like the public files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records = SharedStore(FolderPlace(folder / _NAMES), folder)

    def object_path(self, sha256: str) -> Path:
        """Return where the content of that checksum lies."""
        return self.folder / "objects" / sha256[:2] / sha256

    def partial_path(self, name: str) -> Path:
        """Return where the download of that name grows."""
        return self.folder / "partial" / f"{name.replace('/', '_')}.part"

    def _record_path(self, name: str) -> Path:
        return self.folder / _NAMES / _record_name(name)

    def find(self, name: str) -> CachedFile | None:
        """Return the record of a name; a damaged one counts as none."""
        record = self._records.read(_record_name(name))
        return None if record is None else CachedFile(**json.loads(record))

    def is_intact(self, record: CachedFile) -> bool:
        """Tell whether the content is there, unchanged to the last byte."""
        # Hashed at every use: half a second per gigabyte buys certainty against silent damage.
        path = self.object_path(record.sha256)
        return path.is_file() and file_sha256(path) == record.sha256

    def admit(self, partial: Path, record: CachedFile) -> Path:
        """Move a verified download to its place; a reader sees all of it or nothing."""
        target = self.object_path(record.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Bytes first, name afterwards: a power cut must not leave a name without its bytes.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        with self._admitting():
            partial.replace(target)
            # The record comes last: a crash in between leaves an object that nobody refers to.
            self._records.write(_record_name(record.name), json.dumps(asdict(record)).encode())
        return target

    def records(self) -> Iterator[CachedFile]:
        """Yield the records in the order of their names."""
        root = self.folder / _NAMES
        for path in sorted(root.rglob("*.json")):
            name = path.relative_to(root).as_posix().removesuffix(".json")
            record = self.find(name)
            if record is not None:
                yield record

    def remove(self, name: str) -> bool:
        """Forget a file: its record, its partial download, its content if nobody else has it.

        Return whether that was done: a file that is being fetched is left alone.
        """
        with self._unless_fetched(name) as free:
            if not free:
                return False
            with self._admitting():
                record = self.find(name)
                self._record_path(name).unlink(missing_ok=True)
                if record and record.sha256 not in {other.sha256 for other in self.records()}:
                    self.object_path(record.sha256).unlink(missing_ok=True)
            _discard(self.partial_path(name))
        return True

    def remove_leftovers(self, *, older_than: float = 0.0) -> tuple[int, int]:
        """Remove what no record refers to; return how many files went, how many are in use.

        Parameters
        ----------
        older_than
            Seconds for which a partial download must have stood still: a younger one may be
            continued by the next run.
        """
        removed = busy = 0
        with self._admitting():
            for path in self._unreferenced():
                path.unlink(missing_ok=True)
                removed += 1
        for partial in self._partials():
            with self._unless_fetched(partial.stem) as free:
                busy += not free
                if free and _age(partial) >= older_than:
                    _discard(partial)
                    removed += 1
        return removed, busy

    def _unreferenced(self) -> list[Path]:
        """Return objects without a record, with damaged records."""
        records = list(self.records())
        wanted = {self.object_path(record.sha256) for record in records}
        names = {self._record_path(record.name) for record in records}
        found = [path for path in (self.folder / "objects").rglob("*") if path.is_file()]
        kept = [path for path in (self.folder / _NAMES).rglob("*") if path.is_file()]
        return sorted({*found, *kept} - wanted - names)

    def _partials(self) -> list[Path]:
        """Return the downloads that are not whole, each with the name of its lock as its stem."""
        notes = (self.folder / "partial").glob("*.json")
        return sorted({*(self.folder / "partial").glob("*.part"), *map(_part_of, notes)})

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Let one process at a time fetch that name; the others wait, then find it here."""
        # The system frees the lock of a killed process, so no stale lock is ever left.
        with FileLock(self._lock_path(name)):
            yield

    @contextmanager
    def _unless_fetched(self, name: str) -> Iterator[bool]:
        """Yield whether nobody fetches that name; nobody begins to within the block."""
        lock = FileLock(self._lock_path(name), blocking=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @contextmanager
    def _admitting(self) -> Iterator[None]:
        """Keep objects and records in step: no object is without its record for others to see."""
        with FileLock(self._lock_path("admission")):
            yield

    def _lock_path(self, name: str) -> Path:
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name.replace('/', '_')}.lock"


def _record_name(name: str) -> str:
    """Return as what the record of a public file is kept."""
    return f"{name}.json"


def _part_of(note: Path) -> Path:
    """Return the partial download that a note belongs to."""
    return note.with_suffix(".part")


def _discard(partial: Path) -> None:
    """Remove a partial download with its note."""
    partial.unlink(missing_ok=True)
    partial.with_suffix(".json").unlink(missing_ok=True)


def _age(partial: Path) -> float:
    """Return for how many seconds nothing has come to a partial download, -1 if it has gone."""
    for path in (partial, partial.with_suffix(".json")):
        with suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime
    return -1.0
