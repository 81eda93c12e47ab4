"""The prepared rows as a worker sees them."""

from functools import lru_cache

from fkd.catalog.table import Table
from tasks.adapters.settings import Settings
from tasks.data.prepared import prepared_path, read_prepared


@lru_cache(maxsize=2)
def cached_table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, read once per worker."""
    loaded = read_prepared(settings, digest)
    if loaded is None:
        raise FileNotFoundError(
            f"the prepared table {prepared_path(settings, digest)} must be readable on every "
            "worker; let FKD_HOME lie on a file system that the workers share"
        )
    return loaded.table
