"""Where the store of a process is, opened once."""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tasks.adapters.settings import Settings
from tasks.adapters.state.folder_place import FolderPlace
from tasks.adapters.state.remote_place import RemotePlace
from tasks.adapters.state.shared_store import SharedStore

# Folders that older homes have beside their store.
_OLD = ("prepared", "moments")
_FEATURES = "*.features.npz"  # of rows, which each machine makes for itself


@lru_cache(maxsize=32)
def open_store(settings: Settings) -> SharedStore:
    """Return the store that all processes of a run share."""
    if settings.shared is None:
        _adopt(settings)
    remote = "://" in settings.store
    place = RemotePlace(settings.store) if remote else FolderPlace(Path(settings.store))
    return SharedStore(place, settings.home / "fetched")


@lru_cache(maxsize=32)
def machine_store(settings: Settings) -> SharedStore:
    """Return the store of what this machine alone keeps: features of rows from pass to pass."""
    return SharedStore(FolderPlace(settings.features), settings.home / "fetched")


def _adopt(settings: Settings) -> None:
    """Move what an older version has computed to where it is looked for now."""
    for old in _OLD:
        folder = settings.home / old
        if not folder.is_dir():
            continue
        with suppress(OSError):  # another process moves them too; or the run says what is closed
            for path in sorted(folder.iterdir()):
                new = Path(settings.store) / old
                new = settings.features if path.match(_FEATURES) else new
                new.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    path.rename(new / path.name)
            folder.rmdir()
