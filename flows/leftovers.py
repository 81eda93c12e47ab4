"""Remove leftovers of killed runs before a run starts."""

from contextlib import suppress

from tasks.cluster.leftovers import sweep_leftovers
from tasks.data.file_cache import Cache
from tasks.storage.settings import read_settings

# Until then a download that was cut short is continued by whoever wants that file again.
_KEPT_SECONDS = 7 * 24 * 3600.0


def clear_leftovers() -> int:
    """Return how many left-over files and folders of this FKD_HOME were removed."""
    settings = read_settings()
    removed = 0
    with suppress(OSError):  # the run itself says what cannot be written
        removed = sweep_leftovers(settings)
        if settings.downloads.is_dir():
            removed += Cache(settings.downloads).remove_leftovers(older_than=_KEPT_SECONDS)[0]
    return removed
