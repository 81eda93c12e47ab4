"""The prepared rows as a worker sees them."""

from functools import lru_cache

from fkd.problems.table import Table
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store
from tasks.data.prepared import map_prepared, prepared_name
from tasks.planned.table_fault import UnreadableTableError


@lru_cache(maxsize=2)
def cached_table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, opened once per worker; rows are read as they are taken."""
    cause = "it is absent or damaged"
    try:
        if (found := map_prepared(settings, digest)) is not None:
            return found
    except OSError as error:
        if error.errno is None:
            raise  # of a server, which has its own sentence
        cause = str(error)
    where = open_store(settings).shown(prepared_name(digest))
    raise UnreadableTableError(
        f"the prepared table {where} must be readable on every worker, but {cause}; let FKD_STORE "
        "be a place that all of them see, then run the same command"
    )
