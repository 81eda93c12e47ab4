"""What a store asks of the place where its bytes lie."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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
