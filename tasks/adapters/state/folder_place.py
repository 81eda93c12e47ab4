"""Blobs as files of a folder that every process of a run sees."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tasks.adapters.disk import FULL
from tasks.adapters.files import write_atomic
from tasks.adapters.state.full_store import full_store
from tasks.adapters.state.places import Entry, Stamp


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
