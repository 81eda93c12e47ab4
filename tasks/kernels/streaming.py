"""Stream moments of row blocks under a shared feature map, and add them up by split."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, IntArray, Rows
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import SumPrecision
from fkd.core.moments import BasisMoments, Moments, StreamedSums, whitened, whitened_products
from fkd.core.weights import Part, RowWeights
from tasks.kernels.shared_map import (
    VERSION,
    SharedMap,
    StoredMap,
    content_of,
    load_map,
    shared_encoder,
    store_map,
)
from tasks.plan.splits import Fold
from tasks.plan.training import cached_table, fit_weights
from tasks.plan.trials import Inputs, check_versions
from tasks.storage.environment import blas_threads
from tasks.storage.files import sha256
from tasks.storage.records import digest
from tasks.storage.store import BlobStore, open_store


@dataclass(frozen=True)
class Cell:
    """Rows that belong to the same splits: the training rows of a split are a union of cells."""

    rows: NDArray[np.int64]  # sorted
    trains: frozenset[str]  # labels of the splits that train on them
    digest: str  # of the rows


def make_cells(folds: Mapping[str, Fold], n: int) -> list[Cell]:
    """Return the cells of n rows. Rows that no split trains on are in none.

    Five folds with four inner folds give 17 cells, and one more for reserved rows.
    """
    pattern = np.zeros(n, dtype=np.int64)
    for fold in folds.values():
        trained = np.zeros(n, dtype=np.int64)
        trained[fold.train] = 1
        # Renumbered for each split, so that any number of splits fits an integer.
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
    """Return the cells of a study's rows from the store. Compute and store them if absent."""
    store, name = open_store(inputs.settings), cells_name(inputs)
    if store.read_arrays(name, cache=True) is None:
        table = cached_table(inputs.settings, inputs.table_digest)
        store.write_arrays(name, _arrays(make_cells(inputs.splits.all(table), table.n)))
    arrays = store.mapped_arrays(name)
    if arrays is None:
        raise FileNotFoundError(f"{store.location(name)} disappeared after it was written")
    told = json.loads(str(arrays["told"]))
    starts = np.cumsum([0, *(size for size, _, _ in told)]).tolist()
    return [
        Cell(arrays["rows"][start : start + size], frozenset(trains), rows)
        for start, (size, trains, rows) in zip(starts, told, strict=False)
    ]


def cells_name(inputs: Inputs) -> str:
    """Return the name of a study's cells in the store."""
    splits = inputs.splits
    identity = {
        "data": inputs.table_digest,
        "folds": splits.folds.model_dump(mode="json"),
        "seed": splits.seed,
        "inner": splits.inner_folds,
    }
    return f"moments/{digest(identity)}.cells.arrays"


def _arrays(cells: list[Cell]) -> dict[str, AnyArray]:
    """Return the cells as arrays for the store."""
    told = [(len(cell.rows), sorted(cell.trains), cell.digest) for cell in cells]
    rows = np.concatenate([cell.rows for cell in cells])
    return {"told": np.array(json.dumps(told)), "rows": rows}


# Rows per task. With 1000 landmarks, a task computes for a second and returns 8 MB.
TASK_ROWS = 8 * BLOCK_ROWS
# To be raised when the same rows give other functions of s.
FUNCTIONS_VERSION = 1


@dataclass(frozen=True)
class Leaf:
    """A block of rows of one cell, with the sums to compute."""

    stored: StoredMap
    precision: SumPrecision
    functions: tuple[Functions, ...]  # functions of s to multiply the features with
    cell: int
    position: int  # position among the blocks of its cell
    size: int  # rows of a block; the last one may have fewer
    part: Part = "fit"  # part of the fit whose weights are used


@dataclass(frozen=True)
class LeafSums:
    """Several sums over the same rows."""

    parts: tuple[Moments | BasisMoments, ...]

    def __add__(self, other: "LeafSums") -> "LeafSums":
        pairs: Any = zip(self.parts, other.parts, strict=True)
        return LeafSums(tuple(mine + theirs for mine, theirs in pairs))


def sum_leaf(leaf: Leaf) -> str:
    """Store the sums of a block if they are absent, and return their key.

    Only the rows of the block are read. The key is the digest of their content, so that rows of a
    table that has grown are not summed again.
    """
    inputs = leaf.stored.shared.inputs
    X, S, y = leaf_rows(leaf)
    key = _key(leaf, X, S, y)
    store, name = open_store(inputs.settings), leaf_name(key)
    if store.read_arrays(name) is None:
        write_sums(store, name, _summed(leaf, X, S, y))
    return key


def leaf_sums(leaf: Leaf) -> tuple[LeafSums, str]:
    """Return the sums of a block, from the store if possible, and their name."""
    X, S, y = leaf_rows(leaf)
    store, name = open_store(leaf.stored.shared.inputs.settings), leaf_name(_key(leaf, X, S, y))
    # Another process may remove the stored sums at any time.
    return read_sums(store, name) or _summed(leaf, X, S, y), name


def leaf_rows(leaf: Leaf) -> tuple[Rows, Array, Array]:
    """Return the encoded rows of a block, their sensitive columns and their targets."""
    inputs = leaf.stored.shared.inputs
    check_versions((), inputs)
    table = cached_table(inputs.settings, inputs.table_digest).take(_positions(leaf))
    return shared_encoder(inputs).rows(table), table.S(inputs.sensitive), table.y


def _positions(leaf: Leaf) -> IntArray:
    """Return the positions of a block's rows in the table."""
    first = leaf.position * leaf.size
    cell = study_cells(leaf.stored.shared.inputs)[leaf.cell]
    return np.array(cell.rows[first : first + leaf.size])


@lru_cache(maxsize=2)
def study_weights(inputs: Inputs) -> RowWeights:
    """Return the weights of all rows of the table in fits."""
    return fit_weights(cached_table(inputs.settings, inputs.table_digest), inputs.weights)


def _weights(leaf: Leaf) -> Array | None:
    """Return the weights of a block's rows, None if each counts once."""
    w = study_weights(leaf.stored.shared.inputs).by(leaf.part)
    return None if w is None else w[_positions(leaf)]


def _summed(leaf: Leaf, X: Rows, S: Array, y: Array) -> LeafSums:
    """Return the sums over rows: moments, then products with functions of s."""
    inputs = leaf.stored.shared.inputs
    with blas_threads(inputs.blas_threads):
        pairs = [_columns(inputs, wanted, leaf.part)(S, y) for wanted in leaf.functions]
        W = [B if Z is None else np.hstack([B, Z]) for B, Z in pairs]
        widths = [S.shape[1], *(columns.shape[1] for columns in W)]
        sums = StreamedSums(load_map(leaf.stored), leaf.precision, widths)
        sums.add(X, S, y, W, weights=_weights(leaf))
    coupled = (sums.basis_moments(i, B.shape[1]) for i, (B, _) in enumerate(pairs))
    return LeafSums((sums.moments(), *coupled))


@lru_cache(maxsize=8)
def _columns(
    inputs: Inputs, functions: Functions, part: Part = "fit"
) -> Callable[[Array, Array], tuple[Array, Array | None]]:
    """Return functions of s that are learned from the reserved rows."""
    return functions.columns(*_reserved(inputs, part))


def _reserved(inputs: Inputs, part: Part) -> tuple[Array, Array, Array | None]:
    """Return sensitive columns, target and weights of the reserved rows."""
    table = cached_table(inputs.settings, inputs.table_digest)
    rows = inputs.splits.reserved(table)
    reserved, w = table.take(rows), study_weights(inputs).by(part)
    return reserved.S(inputs.sensitive), reserved.y, None if w is None else w[rows]


def _key(leaf: Leaf, X: Rows, S: Array, y: Array) -> str:
    """Return the digest of everything that decides the sums of a block."""
    identity: dict[str, Any] = {
        "version": VERSION,
        "map": leaf.stored.checksum,
        "way": leaf.precision,
        "rows": content_of(X, *_known(S, y, _weights(leaf))),
    }
    if leaf.functions:
        functions = [asdict(wanted) for wanted in leaf.functions]
        identity |= {"functions": functions, "functions_version": FUNCTIONS_VERSION}
        # The checksum of the map covers inputs only; functions depend on other columns.
        identity |= {"reserved": _reserved_content(leaf.stored.shared.inputs, leaf.part)}
    return digest(identity)


@lru_cache(maxsize=8)
def _reserved_content(inputs: Inputs, part: Part) -> str:
    """Return the digest of the columns of reserved rows that decide functions of s."""
    S, *columns = _reserved(inputs, part)
    return digest(content_of(S, *_known(*columns)))


def _known(*columns: Array | None) -> list[Array]:
    """Return the columns that are not None."""
    return [column for column in columns if column is not None]


def leaf_name(key: str) -> str:
    """Return the name of a block's sums in the store."""
    return f"moments/{key}.leaf.arrays"


def write_sums(store: BlobStore, name: str, sums: LeafSums) -> None:
    """Store sums over rows."""
    arrays: dict[str, AnyArray] = {}
    for i, part in enumerate(sums.parts):
        arrays |= {f"{i}.{f.name}": np.asarray(getattr(part, f.name)) for f in fields(part)}
    store.write_arrays(name, arrays)


def read_sums(store: BlobStore, name: str, *, cache: bool = False) -> LeafSums | None:
    """Return stored sums, or None; `cache` as in `BlobStore.read_arrays`."""
    arrays = store.read_arrays(name, cache=cache)
    if arrays is None:
        return None
    parts: dict[str, dict[str, Any]] = {}
    for place, value in arrays.items():
        index, _, field = place.partition(".")
        # Numbers are stored as arrays without dimensions.
        parts.setdefault(index, {})[field] = value.item() if value.ndim == 0 else value
    ordered = (parts[str(i)] for i in range(len(parts)))
    return LeafSums(tuple((Moments if "C" in part else BasisMoments)(**part) for part in ordered))


# ``run(function, jobs, keep)`` calls ``keep(job, result)`` and returns the failed jobs.
RunBlocks = Callable[
    [Callable[[Any], Any], Sequence[Any], Callable[[Any, Any], None]], Sequence[Any]
]


@dataclass(frozen=True)
class MapSums:
    """Reference to sums: their map, their precision, and the part whose weights are used."""

    shared: SharedMap
    precision: SumPrecision
    part: Part = "fit"


@dataclass(frozen=True)
class Total:
    """The blocks of one cell that one task adds up."""

    stored: StoredMap
    precision: SumPrecision
    functions: tuple[Functions, ...]
    cell: int
    keys: tuple[str, ...]  # of the blocks, in the order of their rows
    part: Part = "fit"


def stream_moments(run: RunBlocks, needs: Mapping[MapSums, Sequence[Functions]]) -> None:
    """Store the sums of every cell, in one pass with one task per block of rows.

    The sums of blocks are stored until one task adds up their cell, in the order of the rows. A
    lost worker costs its block, and the driver receives keys only. A fit computes sums that are
    missing because a task failed here.

    Parameters
    ----------
    run
        ``run(function, jobs, keep)`` computes jobs on the cluster and calls ``keep(job, result)``.
    needs
        Sums that fits need, each with functions of s.
    """
    stored: dict[SharedMap, StoredMap] = {}
    maps = list(dict.fromkeys(sums.shared for sums in needs))
    run(store_map, maps, stored.__setitem__)
    wanted = [
        leaf
        for sums, functions in needs.items()
        if (own := stored.get(sums.shared))
        for cell, missing in missing_cells(own, sums.precision, functions, sums.part).items()
        for leaf in cell_leaves(own, sums.precision, missing, cell, sums.part)
    ]
    keys: dict[Leaf, str] = {}
    if wanted:
        run(sum_leaf, wanted, keys.__setitem__)
    totals = _totals(wanted, keys)
    if totals:
        run(add_leaves, totals, lambda _, __: None)


def _totals(wanted: Sequence[Leaf], keys: Mapping[Leaf, str]) -> list[Total]:
    """Return the cells whose blocks are all computed."""
    cells: dict[Leaf, list[Leaf]] = {}  # by their first block
    for leaf in wanted:
        cells.setdefault(replace(leaf, position=0), []).append(leaf)
    return [
        Total(
            first.stored,
            first.precision,
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
    precision: SumPrecision,
    functions: tuple[Functions, ...],
    cell: int,
    part: Part = "fit",
) -> list[Leaf]:
    """Return the blocks of one cell, which depend on its rows only."""
    size = TASK_ROWS
    count = -(-len(study_cells(stored.shared.inputs)[cell].rows) // size)
    return [Leaf(stored, precision, functions, cell, i, size, part) for i in range(count)]


def add_leaves(total: Total) -> None:
    """Store the sum over a cell. Its blocks are added in the order of their rows."""
    store = open_store(total.stored.shared.inputs.settings)
    found: LeafSums | None = None
    for key in total.keys:
        part = read_sums(store, leaf_name(key))
        if part is None and _is_there(total):
            return  # a worker that was lost afterwards has added them up
        if part is None:
            raise FileNotFoundError(
                f"{store.location(leaf_name(key))} must be readable on every worker. Set "
                "FKD_STORE to a location that all of them can read"
            )
        found = part if found is None else found + part
    assert found is not None
    _write_cell(total, found)
    _let_go(total, map(leaf_name, dict.fromkeys(total.keys)))


def _let_go(total: Total, names: Iterable[str]) -> None:
    """Remove the sums of added blocks, unless the table may grow and need them again."""
    if not total.stored.shared.inputs.splits.folds.base:
        store = open_store(total.stored.shared.inputs.settings)
        for name in names:
            store.remove(name)


def _is_there(total: Total) -> bool:
    """Return whether all sums over a cell are stored."""
    store = open_store(total.stored.shared.inputs.settings)
    return all(read_sums(store, _name_in(total, wanted)) for wanted in (None, *total.functions))


def _write_cell(total: Total, sums: LeafSums) -> None:
    """Store the sums over a cell in one blob each, because fits need different ones."""
    store = open_store(total.stored.shared.inputs.settings)
    for functions, part in zip((None, *total.functions), sums.parts, strict=True):
        write_sums(store, _name_in(total, functions), LeafSums((part,)))


def _name_in(total: Total, functions: Functions | None) -> str:
    """Return the name of one sum over a cell in the store."""
    return sums_name(total.stored, total.precision, total.cell, functions, total.part)


def moments_of(
    stored: StoredMap, precision: SumPrecision, train: NDArray[np.int64], part: Part = "fit"
) -> Moments:
    """Return the moments of training rows as the sum over their cells."""
    total = _total(stored, precision, train, None, part)
    assert isinstance(total, Moments)
    return whitened(load_map(stored), precision, total)


def coupled_of(
    stored: StoredMap,
    precision: SumPrecision,
    train: NDArray[np.int64],
    functions: Functions,
    part: Part = "fit",
    *,
    squares: float,
) -> BasisMoments:
    """Return the products of training rows' features with functions of s.

    `squares` is the trace of the moments' GᵀG of the same part.
    """
    total = _total(stored, precision, train, functions, part)
    assert isinstance(total, BasisMoments)
    return whitened_products(load_map(stored), precision, total, squares)


def _total(
    stored: StoredMap,
    precision: SumPrecision,
    train: NDArray[np.int64],
    functions: Functions | None,
    part: Part,
) -> Moments | BasisMoments:
    """Return the sum over the cells of training rows."""
    cells = study_cells(stored.shared.inputs)
    inside = np.isin([cell.rows[0] for cell in cells], train)
    parts: Any = (
        cell_sums(stored, precision, int(i), functions, part) for i in np.flatnonzero(inside)
    )
    total: Moments | BasisMoments = reduce(add, parts)
    return total


def cell_sums(
    stored: StoredMap,
    precision: SumPrecision,
    cell: int,
    functions: Functions | None = None,
    part: Part = "fit",
) -> Moments | BasisMoments:
    """Return a stored sum over one cell. Compute it if it is absent or damaged."""
    store = open_store(stored.shared.inputs.settings)
    found = read_sums(store, sums_name(stored, precision, cell, functions, part), cache=True)
    if found is None:
        wanted = () if functions is None else (functions,)
        members = cell_leaves(stored, precision, wanted, cell, part)
        parts, names = zip(*(leaf_sums(leaf) for leaf in members), strict=True)
        made: LeafSums = reduce(add, parts)
        total = Total(stored, precision, wanted, cell, (), part)
        _write_cell(total, made)
        _let_go(total, names)
        return made.parts[-1]
    return found.parts[0]


def missing_cells(
    stored: StoredMap,
    precision: SumPrecision,
    functions: Sequence[Functions] = (),
    part: Part = "fit",
) -> dict[int, tuple[Functions, ...]]:
    """Return the positions of cells with missing sums, and the missing functions of s."""
    store, found = open_store(stored.shared.inputs.settings), {}
    for cell in range(len(study_cells(stored.shared.inputs))):
        named = {f: sums_name(stored, precision, cell, f, part) for f in (None, *functions)}
        absent = [f for f, name in named.items() if not store.has(name)]
        if absent:
            found[cell] = tuple(f for f in absent if f is not None)
    return found


def sums_name(
    stored: StoredMap,
    precision: SumPrecision,
    cell: int,
    functions: Functions | None,
    part: Part = "fit",
) -> str:
    """Return the name of a sum over a cell in the store."""
    inputs = stored.shared.inputs
    identity = {
        "version": VERSION,
        "data": inputs.table_digest,
        "map": stored.checksum,
        "way": precision,
        "encoder": stored.shared.key,
        "rows": study_cells(inputs)[cell].digest,
        "sensitive": inputs.sensitive,
    }
    if inputs.weights is not None and study_weights(inputs).by(part) is not None:
        identity |= {"weights": [inputs.weights.column, inputs.weights.counts_in(part)]}
    if functions is not None:
        identity |= {"functions": asdict(functions), "functions_version": FUNCTIONS_VERSION}
    return f"moments/{digest(identity)}.arrays"
