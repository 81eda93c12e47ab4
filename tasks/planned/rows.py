"""The prepared rows as a worker sees them."""

from functools import lru_cache

from fkd.catalog.table import Table
from tasks.adapters.files import DamagedFileError
from tasks.adapters.settings import Settings
from tasks.data.prepared import map_prepared, prepared_path


@lru_cache(maxsize=2)
def cached_table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, opened once per worker; rows are read as they are taken."""
    try:
        return map_prepared(settings, digest)
    except (OSError, DamagedFileError) as error:
        raise FileNotFoundError(
            f"the prepared table {prepared_path(settings, digest)} must be readable on every "
            f"worker, got {error}; let FKD_HOME lie on a file system that the workers share"
        ) from error
