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
_YOUNG_SECONDS = 60.0  # a worker creates its folder before it locks it
_LONG_SECONDS = 7 * 24 * 3600.0  # for a folder without lock, which some live workers have
_FOREIGN = ("mlflow", "prefect", "dask", "downloads")  # cleaned by their owners, or below
_SCRATCH = "dask-scratch-space"
_LOCKED = ".dirlock"  # file beside a worker's folder, locked while the worker lives


def sweep_leftovers(settings: Settings) -> int:
    """Remove partial files and folders of dead workers, and return their number."""
    if not settings.home.is_dir():
        return 0
    removed = sum(_remove_part(part) for part in _parts(settings.home))
    removed += sum(_remove_scratch(folder) for folder in _scratch(settings.home / "dask"))
    _remove_dask_page(settings.home / "dask.json")
    return removed


def _parts(home: Path) -> Iterator[Path]:
    """Yield the temporary files of killed writers."""
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
    except OSError:  # it was renamed, or belongs to another user
        return False
    return True


def _scratch(dask: Path) -> Iterator[Path]:
    """Yield the folders of Dask workers, also if only their lock exists."""
    # Dask gives each user of a shared folder another suffix.
    found = dask.glob(f"{_SCRATCH}*/worker-*")
    yield from {path.with_name(path.name.removesuffix(_LOCKED)) for path in found}


def _remove_scratch(folder: Path) -> bool:
    """Remove the folder and lock of a dead worker; return True if they were removed."""
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
    """Remove the record of a dead run's dashboard."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if not psutil.pid_exists(int(json.loads(page.read_bytes())["pid"])):
            page.unlink()


def _age(path: Path) -> float:
    """Return the seconds since a file or folder was last changed."""
    return time.time() - path.stat().st_mtime
