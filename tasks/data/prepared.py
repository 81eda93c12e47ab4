"""Prepared tables on disk, by digest."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fkd.catalog.table import Table, UnreadTable
from tasks.adapters.files import (
    DamagedFileError,
    read_arrays,
    read_sealed,
    view_arrays,
    write_arrays,
)
from tasks.adapters.settings import Settings


@dataclass(frozen=True)
class Loaded:
    """A table with the digest that names it and the story of where it came from."""

    table: Table
    digest: str
    provenance: dict[str, Any]


def prepared_path(settings: Settings, digest: str) -> Path:
    """Return where the table of that digest is kept."""
    return settings.prepared / f"{digest}.npz"


def prepared_files(settings: Settings) -> list[Path]:
    """Return the files of all prepared tables."""
    return sorted(settings.prepared.glob("*.npz"))


def is_whole(path: Path) -> bool:
    """Tell whether a prepared table matches its seal."""
    try:
        read_sealed(path)
    except DamagedFileError:
        return False
    return True


def read_prepared(settings: Settings, digest: str) -> Loaded | None:
    """Return the stored table, or None if there is none that is whole."""
    arrays = read_arrays(prepared_path(settings, digest))
    if arrays is None:
        return None
    provenance = json.loads(str(arrays.pop("provenance")))
    return Loaded(Table.from_arrays(arrays), digest, provenance)


def map_prepared(settings: Settings, digest: str) -> Table:
    """Return the stored table without reading it: who opened it first has checked its seal."""
    arrays = view_arrays(prepared_path(settings, digest))
    return UnreadTable.from_arrays(arrays)


def prepared_or_made(
    settings: Settings, digest: str, make: Callable[[], tuple[Table, dict[str, Any]]]
) -> Loaded:
    """Return the stored table of that digest, made anew if it is absent or damaged."""
    # Two runs may both make it: they write the same bytes, and the rename keeps either whole.
    stored = read_prepared(settings, digest)
    if stored is not None:
        return stored
    table, provenance = make()
    told = json.dumps(provenance)
    # Not compressed: every worker reads it, and packing would take longer than preparing.
    arrays = {"provenance": np.array(told), **table.arrays()}
    write_arrays(prepared_path(settings, digest), arrays, compress=False)
    # Through JSON, so that the first call returns what every later one will.
    return Loaded(table, digest, json.loads(told))
