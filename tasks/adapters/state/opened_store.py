"""Where the store of a process is, opened once."""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from configs.errors import UserError
from tasks.adapters.settings import Settings
from tasks.adapters.state.folder_place import FolderPlace, StoreFolder
from tasks.adapters.state.remote_place import RemotePlace
from tasks.adapters.state.shared_store import SharedStore

STORE_ID = "id"
# Folders that older homes have beside their store.
_OLD = ("prepared", "moments")
_FEATURES = "*.features.npz"  # of rows, which each machine makes for itself


@lru_cache(maxsize=32)
def open_store(settings: Settings) -> SharedStore:
    """Return the store that all processes of a run share."""
    if settings.shared is None:
        _adopt(settings)
    remote = "://" in settings.store
    place = RemotePlace(settings.store) if remote else StoreFolder(Path(settings.store))
    return SharedStore(place, settings.home / "fetched")


def ensure_store(settings: Settings) -> None:
    """Raise where what is written into the store cannot be read back."""
    store, name = open_store(settings), f"probes/{uuid4().hex}"
    store.write(name, name.encode())
    found = store.read(name)
    store.remove(name)
    if found != name.encode():
        raise UserError(
            f"the store {store.place.address} must give back what is written into it, but it does "
            "not; let FKD_STORE be another place."
        )


@lru_cache(maxsize=32)
def store_id(settings: Settings) -> str:
    """Return the random name of a store, by which MLflow tells the runs of two stores apart."""
    store = open_store(settings)
    found = store.read(STORE_ID)
    if found is None:
        store.write_absent(STORE_ID, uuid4().hex.encode())
        found = store.read(STORE_ID)
    if found is None:
        raise UserError(
            f"the store {store.place.address} must give back what is written into it, but it does "
            "not; let FKD_STORE be another place."
        )
    return found.decode()


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
