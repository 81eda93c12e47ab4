"""The table inside a zip that may be hostile."""

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from tasks.data.remote import RemoteFile, matches_member

# The tables of 2018 shrink by four; these leave ample room for other years and larger samples.
MAX_RATIO = 200
MAX_TABLE_BYTES = 40 * 2**30
MAX_MEMBERS = 100


class UnsafeZipError(Exception):
    """A zip that is broken, dangerous, or not the one that was asked for."""


def check_zip(path: Path, file: RemoteFile) -> str:
    """Return the name of the table in a zip that is safe to read.

    Nothing is ever unpacked to disk, but a name that would leave the folder, a symbolic link or a
    bomb shows that the file is not the publisher's.

    Parameters
    ----------
    path
        Where the zip lies.
    file
        What it should be.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise UnsafeZipError(f"it is no complete zip file ({error})") from error
    if len(members) > MAX_MEMBERS:
        raise UnsafeZipError(f"the zip must have at most {MAX_MEMBERS} members, got {len(members)}")
    for member in members:
        _check_member(member)
    # Exactly one: a second table of the same name could shadow the checked one.
    tables = [member.filename for member in members if matches_member(file, member.filename)]
    if len(tables) != 1:
        names = ", ".join(member.filename for member in members[:5]) or "nothing"
        raise UnsafeZipError(f"the zip must hold one table named {file.member}, it holds {names}")
    return tables[0]


def check_content(path: Path, member: str) -> None:
    """Read a table once to its end, so that its own checksum is compared."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            while stream.read(2**20):
                pass
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnsafeZipError(f"the table {member} in the zip is damaged ({error})") from error


def _check_member(member: zipfile.ZipInfo) -> None:
    name = member.filename
    # Both spellings are judged: what is harmless here may not be on the reader's machine.
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts:
        raise UnsafeZipError(f"a name in the zip leaves its folder: {name!r}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise UnsafeZipError(f"a member of the zip is a symbolic link: {name!r}")
    if member.flag_bits & 1:
        raise UnsafeZipError(f"a member of the zip is encrypted: {name!r}")
    # Reading stops at the announced size, so it is enough to judge what is announced.
    if member.file_size > MAX_TABLE_BYTES or member.file_size > MAX_RATIO * max(
        member.compress_size, 100
    ):
        raise UnsafeZipError(
            f"{name!r} in the zip would unpack {member.compress_size} bytes to {member.file_size}"
        )
