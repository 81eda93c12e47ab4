"""Rows that the same splits train on, which is what moments are summed over."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import AnyArray
from tasks.adapters.files import sha256
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.store import digest
from tasks.planned.folds import Fold
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs


@dataclass(frozen=True)
class Cell:
    """Rows that no split tells apart: the training rows of a split are a union of cells."""

    rows: NDArray[np.int64]  # sorted
    trains: frozenset[str]  # labels of the splits that train on them
    digest: str  # of the rows


def make_cells(folds: Mapping[str, Fold], n: int) -> list[Cell]:
    """Return the cells of n rows; rows that no split trains on are in none.

    Five folds with four inner ones make 17 cells, one more for reserved rows.
    """
    pattern = np.zeros(n, dtype=np.int64)
    for fold in folds.values():
        trained = np.zeros(n, dtype=np.int64)
        trained[fold.train] = 1
        # Renumbered each time, so that any number of splits fits an integer.
        pattern = np.unique(2 * pattern + trained, return_inverse=True)[1]
    order = np.argsort(pattern, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)
    firsts = {label: np.isin([p[0] for p in parts], fold.train) for label, fold in folds.items()}
    cells = [
        Cell(
            part,
            frozenset(label for label, trains in firsts.items() if trains[i]),
            sha256(np.ascontiguousarray(part, dtype=np.int64).tobytes()),
        )
        for i, part in enumerate(parts)
    ]
    return [cell for cell in cells if cell.trains]


@lru_cache(maxsize=2)
def study_cells(inputs: Inputs) -> list[Cell]:
    """Return the cells of a study's rows, which are stored: a worker reads of them what it needs.

    Whoever needs them first makes them.
    """
    store, name = open_store(inputs.settings), cells_name(inputs)
    if store.read_arrays(name, again=True) is None:
        table = cached_table(inputs.settings, inputs.table_digest)
        store.write_arrays(
            name, _arrays(make_cells(inputs.splits.all(table), table.n)), compress=False
        )
    arrays = store.view_arrays(name)
    if arrays is None:
        raise FileNotFoundError(f"{store.shown(name)} was there a moment ago, but is gone")
    told = json.loads(str(arrays["told"]))
    starts = np.cumsum([0, *(size for size, _, _ in told)]).tolist()
    return [
        Cell(arrays["rows"][start : start + size], frozenset(trains), rows)
        for start, (size, trains, rows) in zip(starts, told, strict=False)
    ]


def cells_name(inputs: Inputs) -> str:
    """Return as what the cells of a study are kept."""
    splits = inputs.splits
    identity = {
        "data": inputs.table_digest,
        "folds": splits.folds.model_dump(mode="json"),
        "seed": splits.seed,
        "inner": splits.inner_folds,
    }
    return f"moments/{digest(identity)}.cells.npz"


def _arrays(cells: list[Cell]) -> dict[str, AnyArray]:
    """Return the cells as they are kept, their rows one after another."""
    told = [(len(cell.rows), sorted(cell.trains), cell.digest) for cell in cells]
    rows = np.concatenate([cell.rows for cell in cells])
    return {"told": np.array(json.dumps(told)), "rows": rows}
