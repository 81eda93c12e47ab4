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
from tasks.plan.training import fit_weights
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
    splits, store = inputs.splits, open_store(inputs.settings)
    identity = {
        "data": inputs.table_digest,
        "folds": splits.folds.model_dump(mode="json"),
        "seed": splits.seed,
        "inner": splits.inner_folds,
    }
    name = f"moments/{digest(identity)}.cells.arrays"
    if store.read_arrays(name, cache=True) is None:
        cells = make_cells(splits.all(inputs.table), inputs.table.n)
        parts = [(len(cell.rows), sorted(cell.trains), cell.digest) for cell in cells]
        rows = np.concatenate([cell.rows for cell in cells])
        store.write_arrays(name, {"told": np.array(json.dumps(parts)), "rows": rows})
    arrays = store.mapped_arrays(name)
    if arrays is None:
        raise FileNotFoundError(f"{store.location(name)} disappeared after it was written")
    parts = json.loads(str(arrays["told"]))
    starts = np.cumsum([0, *(size for size, _, _ in parts)]).tolist()
    return [
        Cell(arrays["rows"][start : start + size], frozenset(trains), checksum)
        for start, (size, trains, checksum) in zip(starts, parts, strict=False)
    ]


# Rows per task. With 1000 landmarks, a task computes for a second and returns 8 MB.
TASK_ROWS = 8 * BLOCK_ROWS
# To be raised when the same rows give other functions of s.
FUNCTIONS_VERSION = 1


@dataclass(frozen=True)
class Sums:
    """Reference to sums over rows under a stored map."""

    stored: StoredMap
    precision: SumPrecision
    part: Part = "fit"  # part of the fit whose weights are used

    @property
    def inputs(self) -> Inputs:
        """The rows, with what their encoding depends on."""
        return self.stored.shared.inputs


@dataclass(frozen=True)
class Leaf:
    """A block of rows of one cell, with the sums to compute."""

    sums: Sums
    functions: tuple[Functions, ...]  # functions of s to multiply the features with
    cell: int
    position: int  # position among the blocks of its cell
    size: int  # rows of a block; the last one may have fewer


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
    X, S, y = leaf_rows(leaf)
    key = _key(leaf, X, S, y)
    store, name = open_store(leaf.sums.inputs.settings), leaf_name(key)
    if store.read_arrays(name) is None:
        write_sums(store, name, _summed(leaf, X, S, y))
    return key


def leaf_sums(leaf: Leaf) -> tuple[LeafSums, str]:
    """Return the sums of a block, from the store if possible, and their name."""
    X, S, y = leaf_rows(leaf)
    store, name = open_store(leaf.sums.inputs.settings), leaf_name(_key(leaf, X, S, y))
    # Another process may remove the stored sums at any time.
    return read_sums(store, name) or _summed(leaf, X, S, y), name


def leaf_rows(leaf: Leaf) -> tuple[Rows, Array, Array]:
    """Return the encoded rows of a block, their sensitive columns and their targets."""
    inputs = leaf.sums.inputs
    check_versions((), inputs)
    rows = inputs.table.take(_positions(leaf))
    return shared_encoder(inputs).rows(rows), rows.S(inputs.sensitive), rows.y


def _positions(leaf: Leaf) -> IntArray:
    """Return the positions of a block's rows in the table."""
    first = leaf.position * leaf.size
    cell = study_cells(leaf.sums.inputs)[leaf.cell]
    return np.array(cell.rows[first : first + leaf.size])


@lru_cache(maxsize=2)
def study_weights(inputs: Inputs) -> RowWeights:
    """Return the weights of all rows of the table in fits."""
    return fit_weights(inputs.table, inputs.weights)


def _weights(leaf: Leaf) -> Array | None:
    """Return the weights of a block's rows, None if each counts once."""
    w = study_weights(leaf.sums.inputs).by(leaf.sums.part)
    return None if w is None else w[_positions(leaf)]


def _summed(leaf: Leaf, X: Rows, S: Array, y: Array) -> LeafSums:
    """Return the sums over rows: moments, then products with functions of s."""
    sums = leaf.sums
    with blas_threads(sums.inputs.blas_threads):
        pairs = [_columns(sums.inputs, wanted, sums.part)(S, y) for wanted in leaf.functions]
        W = [B if Z is None else np.hstack([B, Z]) for B, Z in pairs]
        widths = [S.shape[1], *(columns.shape[1] for columns in W)]
        streamed = StreamedSums(load_map(sums.stored), sums.precision, widths)
        streamed.add(X, S, y, W, weights=_weights(leaf))
    coupled = (streamed.basis_moments(i, B.shape[1]) for i, (B, _) in enumerate(pairs))
    return LeafSums((streamed.moments(), *coupled))


@lru_cache(maxsize=8)
def _columns(
    inputs: Inputs, functions: Functions, part: Part = "fit"
) -> Callable[[Array, Array], tuple[Array, Array | None]]:
    """Return functions of s that are learned from the reserved rows."""
    return functions.columns(*_reserved(inputs, part))


def _reserved(inputs: Inputs, part: Part) -> tuple[Array, Array, Array | None]:
    """Return sensitive columns, target and weights of the reserved rows."""
    rows = inputs.splits.reserved(inputs.table)
    reserved, w = inputs.table.take(rows), study_weights(inputs).by(part)
    return reserved.S(inputs.sensitive), reserved.y, None if w is None else w[rows]


def _key(leaf: Leaf, X: Rows, S: Array, y: Array) -> str:
    """Return the digest of everything that decides the sums of a block."""
    sums = leaf.sums
    identity: dict[str, Any] = {
        "version": VERSION,
        "map": sums.stored.checksum,
        "way": sums.precision,
        "rows": content_of(X, *_known(S, y, _weights(leaf))),
    }
    if leaf.functions:
        functions = [asdict(wanted) for wanted in leaf.functions]
        identity |= {"functions": functions, "functions_version": FUNCTIONS_VERSION}
        # The checksum of the map covers inputs only; functions depend on other columns.
        identity |= {"reserved": _reserved_content(sums.inputs, sums.part)}
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
    """Reference to sums whose map is still to be computed, as `Sums` otherwise."""

    shared: SharedMap
    precision: SumPrecision
    part: Part = "fit"


@dataclass(frozen=True)
class Total:
    """The blocks of one cell that one task adds up."""

    sums: Sums
    functions: tuple[Functions, ...]
    cell: int
    keys: tuple[str, ...] = ()  # of the blocks, in the order of their rows


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
    run(store_map, list(dict.fromkeys(need.shared for need in needs)), stored.__setitem__)
    cells: dict[Total, list[Leaf]] = {}
    for need, functions in needs.items():
        if need.shared in stored:
            sums = Sums(stored[need.shared], need.precision, need.part)
            for cell, missing in missing_cells(sums, functions).items():
                cells[Total(sums, missing, cell)] = cell_leaves(sums, missing, cell)
    keys: dict[Leaf, str] = {}
    if wanted := [leaf for leaves in cells.values() for leaf in leaves]:
        run(sum_leaf, wanted, keys.__setitem__)
    totals = [
        replace(total, keys=tuple(keys[leaf] for leaf in leaves))
        for total, leaves in cells.items()
        if all(leaf in keys for leaf in leaves)
    ]
    if totals:
        run(add_leaves, totals, lambda _, __: None)


def cell_leaves(sums: Sums, functions: tuple[Functions, ...], cell: int) -> list[Leaf]:
    """Return the blocks of one cell, which depend on its rows only."""
    count = -(-len(study_cells(sums.inputs)[cell].rows) // TASK_ROWS)
    return [Leaf(sums, functions, cell, i, TASK_ROWS) for i in range(count)]


def add_leaves(total: Total) -> None:
    """Store the sum over a cell. Its blocks are added in the order of their rows."""
    store = open_store(total.sums.inputs.settings)
    found: LeafSums | None = None
    for key in total.keys:
        part = read_sums(store, leaf_name(key))
        if part is None:
            names = (sums_name(total.sums, total.cell, f) for f in (None, *total.functions))
            if all(read_sums(store, name) for name in names):
                return  # a worker that was lost afterwards has added them up
            raise FileNotFoundError(
                f"{store.location(leaf_name(key))} must be readable on every worker. Set "
                "FKD_STORE to a location that all of them can read"
            )
        found = part if found is None else found + part
    assert found is not None
    _write_cell(total, found, map(leaf_name, dict.fromkeys(total.keys)))


def _write_cell(total: Total, found: LeafSums, blocks: Iterable[str]) -> None:
    """Store the sums over a cell, and remove those of its blocks.

    Fits need different sums, so each one has a blob. The sums of blocks are kept if the table may
    grow, because they are needed again then.
    """
    store = open_store(total.sums.inputs.settings)
    for functions, part in zip((None, *total.functions), found.parts, strict=True):
        write_sums(store, sums_name(total.sums, total.cell, functions), LeafSums((part,)))
    if not total.sums.inputs.splits.folds.base:
        for name in blocks:
            store.remove(name)


def moments_of(sums: Sums, train: NDArray[np.int64]) -> Moments:
    """Return the moments of training rows as the sum over their cells."""
    total = _total(sums, train, None)
    assert isinstance(total, Moments)
    return whitened(load_map(sums.stored), sums.precision, total)


def coupled_of(
    sums: Sums, train: NDArray[np.int64], functions: Functions, *, squares: float
) -> BasisMoments:
    """Return the products of training rows' features with functions of s.

    `squares` is the trace of the moments' GᵀG of the same part.
    """
    total = _total(sums, train, functions)
    assert isinstance(total, BasisMoments)
    return whitened_products(load_map(sums.stored), sums.precision, total, squares)


def _total(
    sums: Sums, train: NDArray[np.int64], functions: Functions | None
) -> Moments | BasisMoments:
    """Return the sum over the cells of training rows."""
    inside = np.isin([cell.rows[0] for cell in study_cells(sums.inputs)], train)
    parts: Any = (cell_sums(sums, int(i), functions) for i in np.flatnonzero(inside))
    total: Moments | BasisMoments = reduce(add, parts)
    return total


def cell_sums(sums: Sums, cell: int, functions: Functions | None = None) -> Moments | BasisMoments:
    """Return a stored sum over one cell. Compute it if it is absent or damaged."""
    store = open_store(sums.inputs.settings)
    found = read_sums(store, sums_name(sums, cell, functions), cache=True)
    if found is not None:
        return found.parts[0]
    wanted = () if functions is None else (functions,)
    parts, names = zip(*map(leaf_sums, cell_leaves(sums, wanted, cell)), strict=True)
    made: LeafSums = reduce(add, parts)
    _write_cell(Total(sums, wanted, cell), made, names)
    return made.parts[-1]


def missing_cells(
    sums: Sums, functions: Sequence[Functions] = ()
) -> dict[int, tuple[Functions, ...]]:
    """Return the positions of cells with missing sums, and the missing functions of s."""
    store, found = open_store(sums.inputs.settings), {}
    for cell in range(len(study_cells(sums.inputs))):
        absent = [f for f in (None, *functions) if not store.has(sums_name(sums, cell, f))]
        if absent:
            found[cell] = tuple(f for f in absent if f is not None)
    return found


def sums_name(sums: Sums, cell: int, functions: Functions | None) -> str:
    """Return the name of a sum over a cell in the store."""
    inputs = sums.inputs
    identity = {
        "version": VERSION,
        "data": inputs.table_digest,
        "map": sums.stored.checksum,
        "way": sums.precision,
        "encoder": sums.stored.shared.key,
        "rows": study_cells(inputs)[cell].digest,
        "sensitive": inputs.sensitive,
    }
    if inputs.weights is not None and study_weights(inputs).by(sums.part) is not None:
        identity |= {"weights": [inputs.weights.column, inputs.weights.counts_in(sums.part)]}
    if functions is not None:
        identity |= {"functions": asdict(functions), "functions_version": FUNCTIONS_VERSION}
    return f"moments/{digest(identity)}.arrays"
