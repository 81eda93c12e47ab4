"""Moments of all rows under a shared map, made block by block on the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fkd.core.conditioning import Functions
from fkd.core.feature_maps import SumPrecision
from fkd.core.moments import BasisMoments, Moments, whitened, whitened_products
from fkd.core.weights import Part
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.store import digest
from tasks.blocks.cells import study_cells
from tasks.blocks.leaves import (
    FUNCTIONS_VERSION,
    TASK_ROWS,
    Leaf,
    LeafSums,
    leaf_name,
    leaf_sums,
    read_sums,
    study_weights,
    sum_leaf,
    write_sums,
)
from tasks.blocks.runner import RunBlocks
from tasks.blocks.shared_map import VERSION, SharedMap, StoredMap, load_map, store_map


@dataclass(frozen=True)
class MapSums:
    """Which sums are meant: those under one map, taken in one way, of rows weighed for one part."""

    shared: SharedMap
    way: SumPrecision
    part: Part = "fit"


@dataclass(frozen=True)
class Total:
    """The leaves of one cell that one task adds up."""

    stored: StoredMap
    way: SumPrecision
    functions: tuple[Functions, ...]
    cell: int
    keys: tuple[str, ...]  # of the leaves, in the order of their rows
    part: Part = "fit"


def stream_moments(run: RunBlocks, needs: Mapping[MapSums, Sequence[Functions]]) -> None:
    """Store the sums of every cell, computed in one pass by one task per block of rows.

    Blocks are stored until their cell is added up, by one task on a worker in the order of the
    rows: a lost worker costs its block, and what the driver hears of are keys. What fails here is
    not lost: a fit that misses moments makes them itself, or fails by name.

    Parameters
    ----------
    run
        ``run(function, jobs, done)`` computes jobs on the cluster, calling ``done(job, result)``.
    needs
        Sums that fits are waiting for, each with the functions of s that they are coupled with.
    """
    stored: dict[SharedMap, StoredMap] = {}
    maps = list(dict.fromkeys(sums.shared for sums in needs))
    run(store_map, maps, stored.__setitem__)
    wanted = [
        leaf
        for sums, functions in needs.items()
        if (own := stored.get(sums.shared))
        for cell, missing in missing_cells(own, sums.way, functions, sums.part).items()
        for leaf in cell_leaves(own, sums.way, missing, cell, sums.part)
    ]
    keys: dict[Leaf, str] = {}
    if wanted:
        run(sum_leaf, wanted, keys.__setitem__)
    totals = _totals(wanted, keys)
    if totals:
        run(add_leaves, totals, lambda _, __: None)


def _totals(wanted: Sequence[Leaf], keys: Mapping[Leaf, str]) -> list[Total]:
    """Return the cells whose leaves are all there."""
    cells: dict[Leaf, list[Leaf]] = {}  # by the first leaf of each
    for leaf in wanted:
        cells.setdefault(replace(leaf, position=0), []).append(leaf)
    return [
        Total(
            first.stored,
            first.way,
            first.functions,
            first.cell,
            tuple(keys[leaf] for leaf in members),
            first.part,
        )
        for first, members in cells.items()
        if all(leaf in keys for leaf in members)
    ]


def cell_leaves(
    stored: StoredMap,
    way: SumPrecision,
    functions: tuple[Functions, ...],
    cell: int,
    part: Part = "fit",
) -> list[Leaf]:
    """Return the tasks of one cell; they depend on its rows alone, not on who computes them."""
    size = TASK_ROWS
    count = -(-len(study_cells(stored.shared.inputs)[cell].rows) // size)
    return [Leaf(stored, way, functions, cell, i, size, part) for i in range(count)]


def add_leaves(total: Total) -> None:
    """Store the sum over a cell, whose leaves are added in the order of their rows."""
    store = open_store(total.stored.shared.inputs.settings)
    found: LeafSums | None = None
    for key in total.keys:
        part = read_sums(store, leaf_name(key))
        if part is None and _is_there(total):
            return  # added up by a worker that was lost before it could say so
        if part is None:
            raise FileNotFoundError(
                f"{store.shown(leaf_name(key))} must be readable on every worker; let FKD_STORE be "
                "a place that all of them see"
            )
        found = part if found is None else found + part
    assert found is not None
    _write_cell(total, found)
    _let_go(total, map(leaf_name, dict.fromkeys(total.keys)))


def _let_go(total: Total, names: Iterable[str]) -> None:
    """Remove leaves that were added up; of a table that will grow they are asked for again."""
    if not total.stored.shared.inputs.splits.folds.base:
        store = open_store(total.stored.shared.inputs.settings)
        for name in names:
            store.remove(name)


def _is_there(total: Total) -> bool:
    """Return whether the sums over a cell are stored whole."""
    store = open_store(total.stored.shared.inputs.settings)
    return all(read_sums(store, _name_in(total, wanted)) for wanted in (None, *total.functions))


def _write_cell(total: Total, sums: LeafSums) -> None:
    """Keep the sums over a cell, one blob each: fits want different ones."""
    store = open_store(total.stored.shared.inputs.settings)
    for functions, part in zip((None, *total.functions), sums.parts, strict=True):
        write_sums(store, _name_in(total, functions), LeafSums((part,)))


def _name_in(total: Total, functions: Functions | None) -> str:
    """Return as what one of a cell's sums is kept."""
    return sums_name(total.stored, total.way, total.cell, functions, total.part)


def moments_of(
    stored: StoredMap, way: SumPrecision, train: NDArray[np.int64], part: Part = "fit"
) -> Moments:
    """Return the moments of training rows as the sum of their cells: never as a difference."""
    total = _total(stored, way, train, None, part)
    assert isinstance(total, Moments)
    return whitened(load_map(stored), way, total)


def coupled_of(
    stored: StoredMap,
    way: SumPrecision,
    train: NDArray[np.int64],
    functions: Functions,
    part: Part = "fit",
    *,
    squares: float,
) -> BasisMoments:
    """Return the products of training rows' features with functions of s, likewise.

    `squares` is the trace of the moments' GᵀG of the same part.
    """
    total = _total(stored, way, train, functions, part)
    assert isinstance(total, BasisMoments)
    return whitened_products(load_map(stored), way, total, squares)


def _total(
    stored: StoredMap,
    way: SumPrecision,
    train: NDArray[np.int64],
    functions: Functions | None,
    part: Part,
) -> Moments | BasisMoments:
    """Return the sum over the cells that training rows consist of."""
    cells = study_cells(stored.shared.inputs)
    inside = np.isin([cell.rows[0] for cell in cells], train)
    parts: Any = (cell_sums(stored, way, int(i), functions, part) for i in np.flatnonzero(inside))
    total: Moments | BasisMoments = reduce(add, parts)
    return total


def cell_sums(
    stored: StoredMap,
    way: SumPrecision,
    cell: int,
    functions: Functions | None = None,
    part: Part = "fit",
) -> Moments | BasisMoments:
    """Return a stored sum over one cell; made here where it is absent or damaged."""
    store = open_store(stored.shared.inputs.settings)
    found = read_sums(store, sums_name(stored, way, cell, functions, part), again=True)
    if found is None:
        wanted = () if functions is None else (functions,)
        members = cell_leaves(stored, way, wanted, cell, part)
        parts, names = zip(*(leaf_sums(leaf) for leaf in members), strict=True)
        made: LeafSums = reduce(add, parts)
        total = Total(stored, way, wanted, cell, (), part)
        _write_cell(total, made)
        _let_go(total, names)
        return made.parts[-1]
    return found.parts[0]


def missing_cells(
    stored: StoredMap, way: SumPrecision, functions: Sequence[Functions] = (), part: Part = "fit"
) -> dict[int, tuple[Functions, ...]]:
    """Return by position the cells of which something is not stored, with the functions of s."""
    store, found = open_store(stored.shared.inputs.settings), {}
    for cell in range(len(study_cells(stored.shared.inputs))):
        named = {f: sums_name(stored, way, cell, f, part) for f in (None, *functions)}
        absent = [f for f, name in named.items() if not store.has(name)]
        if absent:
            found[cell] = tuple(f for f in absent if f is not None)
    return found


def sums_name(
    stored: StoredMap, way: SumPrecision, cell: int, functions: Functions | None, part: Part = "fit"
) -> str:
    """Return as what a sum over a cell is kept."""
    inputs = stored.shared.inputs
    identity = {
        "version": VERSION,
        "data": inputs.table_digest,
        "map": stored.seal,
        "way": way,
        "encoder": stored.shared.key,
        "rows": study_cells(inputs)[cell].digest,
        "sensitive": inputs.sensitive,
    }
    if inputs.weights is not None and study_weights(inputs).by(part) is not None:
        identity |= {"weights": [inputs.weights.column, inputs.weights.counts_in(part)]}
    if functions is not None:
        identity |= {"functions": asdict(functions), "functions_version": FUNCTIONS_VERSION}
    return f"moments/{digest(identity)}.npz"
