"""A disk of a few megabytes that a test may fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, size: str = "8m", files: int = 2000) -> Iterator[Path]:
    """The folder as a disk of its own; the test is skipped where nothing may be mounted."""
    folder.mkdir()
    options = f"size={size},nr_inodes={files}"
    words = ["mount", "-t", "tmpfs", "-o", options, "fkd-test", str(folder)]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def enlarge(folder: Path, *, size: str = "64m") -> None:
    """Give the folder's disk more room; what is on it stays."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Take all the room of the folder's disk but so many bytes."""
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            file.truncate(max(file.tell() - leave, 0))


def use_up_files(folder: Path) -> None:
    """Create files until the folder's disk takes no more."""
    try:
        for i in range(10**6):
            (folder / f"empty-{i}").touch()
    except OSError:
        return
