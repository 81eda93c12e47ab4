"""Downloaded files, kept by their content."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from tasks.adapters.files import DamagedFileError, read_sealed, write_sealed


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

    def object_path(self, sha256: str) -> Path:
        """Return where the content of that checksum lies."""
        return self.folder / "objects" / sha256[:2] / sha256

    def partial_path(self, name: str) -> Path:
        """Return where the download of that name grows."""
        return self.folder / "partial" / f"{name.replace('/', '_')}.part"

    def _record_path(self, name: str) -> Path:
        return self.folder / "names" / f"{name}.json"

    def find(self, name: str) -> CachedFile | None:
        """Return the record of a name; a damaged one counts as none."""
        try:
            return CachedFile(**json.loads(read_sealed(self._record_path(name))))
        except (FileNotFoundError, DamagedFileError):
            return None

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
        partial.replace(target)
        # The record comes last: a crash in between leaves an object that nobody refers to.
        write_sealed(self._record_path(record.name), json.dumps(asdict(record)).encode())
        return target

    def records(self) -> Iterator[CachedFile]:
        """Yield the records in the order of their names."""
        root = self.folder / "names"
        for path in sorted(root.rglob("*.json")):
            name = path.relative_to(root).as_posix().removesuffix(".json")
            record = self.find(name)
            if record is not None:
                yield record

    def remove(self, name: str) -> None:
        """Forget a file: its record, its partial download, its content if nobody else has it."""
        record = self.find(name)
        self._record_path(name).unlink(missing_ok=True)
        self.partial_path(name).unlink(missing_ok=True)
        if record and record.sha256 not in {other.sha256 for other in self.records()}:
            self.object_path(record.sha256).unlink(missing_ok=True)

    def leftovers(self) -> list[Path]:
        """Return what no record refers to: partial downloads, objects, damaged records."""
        wanted = {self.object_path(record.sha256) for record in self.records()}
        names = {self._record_path(record.name) for record in self.records()}
        found = [path for path in (self.folder / "objects").rglob("*") if path.is_file()]
        kept = [path for path in (self.folder / "names").rglob("*") if path.is_file()]
        partial = [path for path in (self.folder / "partial").rglob("*") if path.is_file()]
        return sorted({*found, *kept} - wanted - names) + sorted(partial)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Let one process at a time fetch that name; the others wait, then find it here."""
        path = self.folder / "locks" / f"{name.replace('/', '_')}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        # The system frees the lock of a killed process, so no stale lock is ever left.
        with FileLock(path):
            yield
