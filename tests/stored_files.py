"""The files of a store that is a folder."""

from pathlib import Path

from tasks.storage.backends import FolderBackend
from tasks.storage.records import predictions_name, record_name
from tasks.storage.store import BlobStore


def stored(settings, name=""):
    """The folder or file of a store under a name."""
    return Path(settings.store) / name


def folder_store(folder):
    """A store that is a folder."""
    return BlobStore(FolderBackend(folder), folder / "copies")


def record_file(store, key):
    """The file of a record."""
    return Path(store.address) / record_name(key)


def predictions_file(store, key):
    """The file of a record's predictions."""
    return Path(store.address) / predictions_name(key)


def map_file(shared):
    """The file of a shared map."""
    return stored(shared.inputs.settings, shared.name)
