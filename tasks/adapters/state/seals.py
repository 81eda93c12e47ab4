"""The line before a stored blob that tells whether it is whole, in its place."""

import hashlib

from tasks.adapters.files import sha256

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
