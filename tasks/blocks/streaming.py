"""Moments of all rows under a shared map, made block by block on the cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fkd.catalog.methods.training_fold import Functions
from fkd.catalog.table import Table
from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.basis_moments import BasisMoments
from fkd.core.moments import Moments
from tasks.adapters.blas import blas_threads
from tasks.adapters.files import read_arrays, sha256, write_arrays
from tasks.adapters.store import digest
from tasks.blocks.cells import Cell, make_cells
from tasks.blocks.runner import RunBlocks
from tasks.blocks.shared_map import (
    VERSION,
    SharedMap,
    StoredMap,
    load_map,
    shared_encoder,
    store_map,
)
from tasks.blocks.tree import TreeSum
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs, check_versions

# Rows per task: at 1000 landmarks a second of arithmetic for 8 MB of result.
TASK_ROWS = 4 * BLOCK_ROWS
# Raised by hand when the same rows would give other functions of s.
FUNCTIONS_VERSION = 1


@dataclass(frozen=True)
class Block:
    """Some rows of one cell, the work of one task."""

    stored: StoredMap
    cell: int
    position: int  # among the blocks of its cell
    size: int  # rows of a block, the last one apart
    wanted: tuple[Functions | None, ...] = (None,)  # functions of s; None for the moments


@dataclass(frozen=True)
class BlockSums:
    """Several sums over the same rows, one per wanted thing."""

    parts: tuple[Moments | BasisMoments, ...]

    def __add__(self, other: "BlockSums") -> "BlockSums":
        pairs: Any = zip(self.parts, other.parts, strict=True)
        return BlockSums(tuple(mine + theirs for mine, theirs in pairs))


@lru_cache(maxsize=2)
def study_cells(inputs: Inputs) -> list[Cell]:
    """Return the cells of a study's rows, found once per worker."""
    table = cached_table(inputs.settings, inputs.table_digest)
    return make_cells(inputs.splits.all(table), table.n)


def stream_moments(run: RunBlocks, needs: Mapping[SharedMap, Sequence[Functions]]) -> None:
    """Put the sums of every cell on disk, computed in one pass by one task per block of rows.

    What fails here is not lost: a fit that misses moments makes them itself, or fails by name.

    Parameters
    ----------
    run
        ``run(function, jobs, done)`` computes jobs on the cluster, calling ``done(job, result)``.
    needs
        Maps that fits are waiting for, each with the functions of s that they are coupled with.
    """
    stored: list[StoredMap] = []
    run(store_map, list(needs), lambda _, made: stored.append(made))
    blocks = [
        block
        for made in stored
        for i, wanted in missing_cells(made, needs[made.shared]).items()
        for block in _blocks(made, i, wanted)
    ]
    trees: dict[tuple[StoredMap, int], TreeSum[BlockSums]] = {}

    def collect(block: Block, part: BlockSums) -> None:
        place = block.stored, block.cell
        tree = trees.setdefault(place, TreeSum(len(_blocks(*place, block.wanted))))
        tree.put(block.position, part)
        if tree.total is not None:
            _write_all(block, tree.total)
            del trees[place]

    if blocks:
        run(block_moments, blocks, collect)


def block_moments(block: Block) -> BlockSums:
    """Return the sums of one block of rows, read from the prepared table on disk."""
    inputs = block.stored.shared.inputs
    check_versions((), inputs)
    table = cached_table(inputs.settings, inputs.table_digest)
    encoder, feature_map = shared_encoder(inputs), load_map(block.stored)
    first = block.position * block.size
    rows = study_cells(inputs)[block.cell].rows[first : first + block.size]
    with blas_threads(inputs.blas_threads):
        pieces = (table.take(rows[piece]) for piece in row_blocks(len(rows), BLOCK_ROWS))
        sums = (
            _sums(feature_map.transform(encoder.transform(piece)), piece, inputs, block.wanted)
            for piece in pieces
        )
        return reduce(add, sums)


def _sums(G: Array, rows: Table, inputs: Inputs, wanted: Sequence[Functions | None]) -> BlockSums:
    """Return what is wanted of some rows, whose features are G."""
    S = rows.S(inputs.sensitive)
    return BlockSums(
        tuple(
            Moments.of(G, S, rows.y)
            if functions is None
            else BasisMoments.of(G, *_columns(inputs, functions)(S, rows.y))
            for functions in wanted
        )
    )


@lru_cache(maxsize=8)
def _columns(
    inputs: Inputs, functions: Functions
) -> Callable[[Array, Array], tuple[Array, Array | None]]:
    """Return functions of s that the reserved rows decide, as they decide the map."""
    table = cached_table(inputs.settings, inputs.table_digest)
    reserved = table.take(inputs.splits.reserved(table))
    return functions.columns(reserved.S(inputs.sensitive), reserved.y)


def moments_of(stored: StoredMap, train: NDArray[np.int64]) -> Moments:
    """Return the moments of training rows as the sum of their cells: never as a difference."""
    found = _total(stored, train, None)
    assert isinstance(found, Moments)
    return found


def coupled_of(stored: StoredMap, train: NDArray[np.int64], functions: Functions) -> BasisMoments:
    """Return the products of training rows' features with functions of s, likewise."""
    found = _total(stored, train, functions)
    assert isinstance(found, BasisMoments)
    return found


def _total(
    stored: StoredMap, train: NDArray[np.int64], wanted: Functions | None
) -> Moments | BasisMoments:
    """Return the sum over the cells that training rows consist of."""
    cells = study_cells(stored.shared.inputs)
    inside = np.isin([cell.rows[0] for cell in cells], train)
    parts: Any = (cell_sums(stored, int(i), wanted) for i in np.flatnonzero(inside))
    total: Moments | BasisMoments = reduce(add, parts)
    return total


def cell_sums(
    stored: StoredMap, index: int, wanted: Functions | None = None
) -> Moments | BasisMoments:
    """Return a sum over one cell from disk; made here where it is absent or damaged."""
    found = _read(_path(stored, index, wanted), Moments if wanted is None else BasisMoments)
    if found is not None:
        return found
    blocks = _blocks(stored, index, (wanted,))
    tree: TreeSum[BlockSums] = TreeSum(len(blocks))
    for block in blocks:
        tree.put(block.position, block_moments(block))
    assert tree.total is not None
    _write_all(blocks[0], tree.total)
    return tree.total.parts[0]


def missing_cells(
    stored: StoredMap, functions: Sequence[Functions] = ()
) -> dict[int, tuple[Functions | None, ...]]:
    """Return by position what of each cell is not on disk; whole cells are left out."""
    wanted = (None, *functions)
    found = {
        index: tuple(w for w in wanted if not _path(stored, index, w).is_file())
        for index in range(len(study_cells(stored.shared.inputs)))
    }
    return {index: missing for index, missing in found.items() if missing}


def _blocks(stored: StoredMap, index: int, wanted: tuple[Functions | None, ...]) -> list[Block]:
    """Return the tasks of one cell; they depend on its rows alone, not on who computes them."""
    count = -(-len(study_cells(stored.shared.inputs)[index].rows) // TASK_ROWS)
    return [Block(stored, index, position, TASK_ROWS, wanted) for position in range(count)]


def _path(stored: StoredMap, index: int, wanted: Functions | None = None) -> Path:
    """Return where a sum over a cell is kept."""
    inputs = stored.shared.inputs
    cell = study_cells(inputs)[index]
    rows = sha256(np.ascontiguousarray(cell.rows, dtype=np.int64).tobytes())
    identity = {
        "version": VERSION,
        "data": inputs.table_digest,
        "map": stored.seal,
        "encoder": stored.shared.key,
        "rows": rows,
        "sensitive": inputs.sensitive,
    }
    if wanted is not None:
        identity |= {"functions": asdict(wanted), "functions_version": FUNCTIONS_VERSION}
    return inputs.settings.moments / f"{digest(identity)}.npz"


def _write_all(block: Block, sums: BlockSums) -> None:
    """Keep the sums over a block's cell."""
    for wanted, part in zip(block.wanted, sums.parts, strict=True):
        _write(_path(block.stored, block.cell, wanted), part)


def _write(path: Path, part: Moments | BasisMoments) -> None:
    """Keep one sum, whole or not at all."""
    arrays = {name: np.asarray(value) for name, value in asdict(part).items()}
    write_arrays(path, arrays, compress=False)


def _read(path: Path, kind: type[Moments | BasisMoments]) -> Moments | BasisMoments | None:
    """Return a stored sum, None where it is absent or damaged."""
    arrays = read_arrays(path)
    if arrays is None:
        return None
    # Numbers come back as arrays without a dimension.
    values = {f.name: arrays[f.name] for f in fields(kind)}
    return kind(**{k: v.item() if v.ndim == 0 else v for k, v in values.items()})
