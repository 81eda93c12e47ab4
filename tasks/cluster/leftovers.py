"""Remove files of killed processes from an FKD_HOME."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tasks.storage.files import try_lock
from tasks.storage.settings import Settings

_PART_SECONDS = 24 * 3600.0  # no write takes a day
_YOUNG_SECONDS = 60.0  # a worker makes its folder a moment before it holds the lock
_LONG_SECONDS = 7 * 24 * 3600.0  # for a worker's folder without a lock: some have none while alive
_FOREIGN = ("mlflow", "prefect", "dask", "downloads")  # these look after themselves, or below
_SCRATCH = "dask-scratch-space"
_LOCKED = ".dirlock"  # beside a worker's folder, held as long as the worker lives


def sweep_leftovers(settings: Settings) -> int:
    """Return how many half-written files and folders of dead workers were removed."""
    if not settings.home.is_dir():
        return 0
    removed = sum(_remove_part(part) for part in _parts(settings.home))
    removed += sum(_remove_scratch(folder) for folder in _scratch(settings.home / "dask"))
    _remove_dask_page(settings.home / "dask.json")
    return removed


def _parts(home: Path) -> Iterator[Path]:
    """Yield the temporary files that killed writers have left."""
    for folder, folders, names in os.walk(home):
        if Path(folder) == home:
            folders[:] = [name for name in folders if name not in _FOREIGN]
        yield from (Path(folder, n) for n in names if n.startswith(".") and n.endswith(".part"))


def _remove_part(part: Path) -> bool:
    """Remove a temporary file that is older than a day; return True if it was removed."""
    try:
        if _age(part) < _PART_SECONDS:
            return False
        part.unlink()
    except OSError:  # it was renamed, or this user must not remove it
        return False
    return True


def _scratch(dask: Path) -> Iterator[Path]:
    """Yield the folders that Dask's workers have made, whether folder or lock is still there."""
    # Another user of a shared folder has one of their own beside it.
    found = dask.glob(f"{_SCRATCH}*/worker-*")
    yield from {path.with_name(path.name.removesuffix(_LOCKED)) for path in found}


def _remove_scratch(folder: Path) -> bool:
    """Return whether a worker's folder was removed, with the lock beside it."""
    lock = folder.with_name(folder.name + _LOCKED)
    try:
        least = _YOUNG_SECONDS if lock.exists() else _LONG_SECONDS
        if _age(folder if folder.exists() else lock) < least:
            return False
        with lock.open("a+b") as file:
            if not try_lock(file):
                return False
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _remove_dask_page(page: Path) -> None:
    """Forget where the page of a run that is gone was."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if not psutil.pid_exists(int(json.loads(page.read_bytes())["pid"])):
            page.unlink()


def _age(path: Path) -> float:
    """Return the seconds since a file or folder was last changed."""
    return time.time() - path.stat().st_mtime
