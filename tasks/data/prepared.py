"""Prepared tables in the store, by digest."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fkd.problems.table import MappedTable, Table
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store


@dataclass(frozen=True)
class Loaded:
    """A table with the digest that names it and the story of where it came from."""

    table: Table
    digest: str
    provenance: dict[str, Any]


PREPARED = "prepared"


def prepared_name(digest: str) -> str:
    """Return as what the table of that digest is kept."""
    return f"{PREPARED}/{digest}.npz"


def read_prepared(settings: Settings, digest: str) -> Loaded | None:
    """Return the stored table, or None if there is none that is whole."""
    arrays = open_store(settings).read_arrays(prepared_name(digest), again=True)
    if arrays is None:
        return None
    provenance = json.loads(str(arrays.pop("provenance")))
    return Loaded(Table.from_arrays(arrays), digest, provenance)


def map_prepared(settings: Settings, digest: str) -> Table | None:
    """Return the stored table without reading it: who opened it first has checked its seal."""
    arrays = open_store(settings).view_arrays(prepared_name(digest))
    if arrays is None:
        return None
    return MappedTable.from_arrays({k: v for k, v in arrays.items() if k != "provenance"})


def prepared_or_made(
    settings: Settings, digest: str, make: Callable[[], tuple[Table, dict[str, Any]]]
) -> Loaded:
    """Return the stored table of that digest, made anew if it is absent or damaged."""
    # Two runs may both make it: they write the same bytes, each whole.
    stored = read_prepared(settings, digest)
    if stored is not None:
        return stored
    table, provenance = make()
    told = json.dumps(provenance)
    # Not compressed: every worker reads it, and packing would take longer than preparing.
    arrays = {"provenance": np.array(told), **table.arrays()}
    open_store(settings).write_arrays(prepared_name(digest), arrays, compress=False)
    # Through JSON, so that the first call returns what every later one will.
    return Loaded(table, digest, json.loads(told))
