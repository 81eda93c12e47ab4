"""Sums over one block of rows, the work of one task: kept by what the rows hold."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, IntArray, Rows
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import SumPrecision
from fkd.core.moments import BasisMoments, Moments, StreamedSums
from fkd.core.weights import Part, RowWeights
from tasks.adapters.blas import blas_threads
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.state.shared_store import SharedStore
from tasks.adapters.store import digest
from tasks.blocks.cells import study_cells
from tasks.blocks.shared_map import VERSION, StoredMap, content_of, load_map, shared_encoder
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs, check_versions
from tasks.planned.weighing import fit_weights

# Rows per task: at 1000 landmarks a second of arithmetic for 8 MB of result.
TASK_ROWS = 8 * BLOCK_ROWS
# Raised by hand when the same rows would give other functions of s.
FUNCTIONS_VERSION = 1


@dataclass(frozen=True)
class Leaf:
    """Some rows of one cell, with what is to be summed over them."""

    stored: StoredMap
    way: SumPrecision
    functions: tuple[Functions, ...]  # of s, with which products are wanted beside the moments
    cell: int
    position: int  # among the leaves of its cell
    size: int  # rows of a leaf, the last one apart
    part: Part = "fit"  # whose weights the rows have


@dataclass(frozen=True)
class LeafSums:
    """Several sums over the same rows."""

    parts: tuple[Moments | BasisMoments, ...]

    def __add__(self, other: "LeafSums") -> "LeafSums":
        pairs: Any = zip(self.parts, other.parts, strict=True)
        return LeafSums(tuple(mine + theirs for mine, theirs in pairs))


def sum_leaf(leaf: Leaf) -> str:
    """Return the key under which the sums of a leaf are stored, computed unless they are already.

    Only the rows of the leaf are read. The key is that of their content, so that rows of a table
    that has grown since are not summed again.
    """
    inputs = leaf.stored.shared.inputs
    X, S, y = leaf_rows(leaf)
    key = _key(leaf, X, S, y)
    store, name = open_store(inputs.settings), leaf_name(key)
    if store.read_arrays(name) is None:
        write_sums(store, name, _summed(leaf, X, S, y))
    return key


def leaf_sums(leaf: Leaf) -> tuple[LeafSums, str]:
    """Return the sums of a leaf, stored ones where there are any, with their name."""
    X, S, y = leaf_rows(leaf)
    store, name = open_store(leaf.stored.shared.inputs.settings), leaf_name(_key(leaf, X, S, y))
    # Who else needs this cell may take them away at any time: nobody waits for them here.
    return read_sums(store, name) or _summed(leaf, X, S, y), name


def leaf_rows(leaf: Leaf) -> tuple[Rows, Array, Array]:
    """Return the encoded rows of a leaf with their sensitive columns, target."""
    inputs = leaf.stored.shared.inputs
    check_versions((), inputs)
    table = cached_table(inputs.settings, inputs.table_digest).take(_positions(leaf))
    return shared_encoder(inputs).rows(table), table.S(inputs.sensitive), table.y


def _positions(leaf: Leaf) -> IntArray:
    """Return the positions of a leaf's rows in the table."""
    first = leaf.position * leaf.size
    cell = study_cells(leaf.stored.shared.inputs)[leaf.cell]
    return np.array(cell.rows[first : first + leaf.size])


@lru_cache(maxsize=2)
def study_weights(inputs: Inputs) -> RowWeights:
    """Return for how many rows each row of the table counts in fits."""
    return fit_weights(cached_table(inputs.settings, inputs.table_digest), inputs.weights)


def _weights(leaf: Leaf) -> Array | None:
    """Return for how many rows each row of a leaf counts, None where each counts once."""
    w = study_weights(leaf.stored.shared.inputs).by(leaf.part)
    return None if w is None else w[_positions(leaf)]


def _summed(leaf: Leaf, X: Rows, S: Array, y: Array) -> LeafSums:
    """Return the sums over these rows: moments, then products with functions of s."""
    inputs = leaf.stored.shared.inputs
    with blas_threads(inputs.blas_threads):
        pairs = [_columns(inputs, wanted, leaf.part)(S, y) for wanted in leaf.functions]
        W = [B if Z is None else np.hstack([B, Z]) for B, Z in pairs]
        widths = [S.shape[1], *(columns.shape[1] for columns in W)]
        sums = StreamedSums(load_map(leaf.stored), leaf.way, widths)
        sums.add(X, S, y, W, weights=_weights(leaf))
    coupled = (sums.basis_moments(i, B.shape[1]) for i, (B, _) in enumerate(pairs))
    return LeafSums((sums.moments(), *coupled))


@lru_cache(maxsize=8)
def _columns(
    inputs: Inputs, functions: Functions, part: Part = "fit"
) -> Callable[[Array, Array], tuple[Array, Array | None]]:
    """Return functions of s that the reserved rows decide, as they decide the map."""
    return functions.columns(*_reserved(inputs, part))


def _reserved(inputs: Inputs, part: Part) -> tuple[Array, Array, Array | None]:
    """Return sensitive columns, target and weights of the reserved rows."""
    table = cached_table(inputs.settings, inputs.table_digest)
    rows = inputs.splits.reserved(table)
    reserved, w = table.take(rows), study_weights(inputs).by(part)
    return reserved.S(inputs.sensitive), reserved.y, None if w is None else w[rows]


def _key(leaf: Leaf, X: Rows, S: Array, y: Array) -> str:
    """Return the digest of all that decides the sums of a leaf."""
    identity: dict[str, Any] = {
        "version": VERSION,
        "map": leaf.stored.seal,
        "way": leaf.way,
        "rows": content_of(X, *_known(S, y, _weights(leaf))),
    }
    if leaf.functions:
        functions = [asdict(wanted) for wanted in leaf.functions]
        identity |= {"functions": functions, "functions_version": FUNCTIONS_VERSION}
        # The map tells of their inputs only; functions rest on their other columns.
        identity |= {"reserved": _reserved_content(leaf.stored.shared.inputs, leaf.part)}
    return digest(identity)


@lru_cache(maxsize=8)
def _reserved_content(inputs: Inputs, part: Part) -> str:
    """Return the digest of what decides functions of s: columns of the reserved rows."""
    S, *columns = _reserved(inputs, part)
    return digest(content_of(S, *_known(*columns)))


def _known(*columns: Array | None) -> list[Array]:
    """Return the columns that there are: rows that count once have no weights in their key."""
    return [column for column in columns if column is not None]


def leaf_name(key: str) -> str:
    """Return as what the sums of a leaf are kept."""
    return f"moments/{key}.leaf.npz"


def write_sums(store: SharedStore, name: str, sums: LeafSums) -> None:
    """Keep the sums over some rows, whole or not at all."""
    arrays: dict[str, AnyArray] = {}
    for i, part in enumerate(sums.parts):
        arrays |= {f"{i}.{f.name}": np.asarray(getattr(part, f.name)) for f in fields(part)}
    store.write_arrays(name, arrays, compress=False)


def read_sums(store: SharedStore, name: str, *, again: bool = False) -> LeafSums | None:
    """Return stored sums, None where they are absent; `again` as in `SharedStore.read_arrays`."""
    arrays = store.read_arrays(name, again=again)
    if arrays is None:
        return None
    parts: dict[str, dict[str, Any]] = {}
    for place, value in arrays.items():
        index, _, field = place.partition(".")
        # Numbers come back as arrays without a dimension.
        parts.setdefault(index, {})[field] = value.item() if value.ndim == 0 else value
    ordered = (parts[str(i)] for i in range(len(parts)))
    return LeafSums(tuple((Moments if "C" in part else BasisMoments)(**part) for part in ordered))
