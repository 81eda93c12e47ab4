"""Moments of all rows under a shared map, made block by block on the cluster."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, reduce
from operator import add
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import BLOCK_ROWS, row_blocks
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


@dataclass(frozen=True)
class Block:
    """Some rows of one cell, the work of one task."""

    stored: StoredMap
    cell: int
    position: int  # among the blocks of its cell
    size: int  # rows of a block, the last one apart


@lru_cache(maxsize=2)
def study_cells(inputs: Inputs) -> list[Cell]:
    """Return the cells of a study's rows, found once per worker."""
    table = cached_table(inputs.settings, inputs.table_digest)
    return make_cells(inputs.splits.all(table), table.n)


def stream_moments(run: RunBlocks, maps: Iterable[SharedMap]) -> None:
    """Put the moments of every cell on disk, computed by one task per block of rows.

    What fails here is not lost: a fit that misses moments makes them itself, or fails by name.

    Parameters
    ----------
    run
        ``run(function, jobs, done)`` computes jobs on the cluster, calling ``done(job, result)``.
    maps
        Those that fits are waiting for.
    """
    stored: list[StoredMap] = []
    run(store_map, list(dict.fromkeys(maps)), lambda _, made: stored.append(made))
    blocks = [block for made in stored for i in missing_cells(made) for block in _blocks(made, i)]
    trees: dict[tuple[StoredMap, int], TreeSum[Moments]] = {}

    def collect(block: Block, part: Moments) -> None:
        place = block.stored, block.cell
        tree = trees.setdefault(place, TreeSum(len(_blocks(*place))))
        tree.put(block.position, part)
        if tree.total is not None:
            _write(_path(*place), tree.total)
            del trees[place]

    if blocks:
        run(block_moments, blocks, collect)


def block_moments(block: Block) -> Moments:
    """Return the moments of one block of rows, read from the prepared table on disk."""
    inputs = block.stored.shared.inputs
    check_versions((), inputs)
    table = cached_table(inputs.settings, inputs.table_digest)
    encoder, feature_map = shared_encoder(inputs), load_map(block.stored)
    first = block.position * block.size
    rows = study_cells(inputs)[block.cell].rows[first : first + block.size]
    with blas_threads(inputs.blas_threads):
        parts = (table.take(rows[piece]) for piece in row_blocks(len(rows), BLOCK_ROWS))
        moments = (
            Moments.of(feature_map.transform(encoder.transform(p)), p.S(inputs.sensitive), p.y)
            for p in parts
        )
        return reduce(add, moments)


def moments_of(stored: StoredMap, train: NDArray[np.int64]) -> Moments:
    """Return the moments of training rows as the sum of their cells: never as a difference."""
    cells = study_cells(stored.shared.inputs)
    inside = np.isin([cell.rows[0] for cell in cells], train)
    return reduce(add, (cell_moments(stored, int(i)) for i in np.flatnonzero(inside)))


def cell_moments(stored: StoredMap, index: int) -> Moments:
    """Return the moments of one cell from disk; made here where they are absent or damaged."""
    path = _path(stored, index)
    found = _read(path)
    if found is not None:
        return found
    blocks = _blocks(stored, index)
    tree: TreeSum[Moments] = TreeSum(len(blocks))
    for block in blocks:
        tree.put(block.position, block_moments(block))
    assert tree.total is not None
    _write(path, tree.total)
    return tree.total


def missing_cells(stored: StoredMap) -> list[int]:
    """Return the positions of the cells whose moments are not on disk."""
    cells = range(len(study_cells(stored.shared.inputs)))
    return [index for index in cells if not _path(stored, index).is_file()]


def _blocks(stored: StoredMap, index: int) -> list[Block]:
    """Return the tasks of one cell; they depend on its rows alone, not on who computes them."""
    count = -(-len(study_cells(stored.shared.inputs)[index].rows) // TASK_ROWS)
    return [Block(stored, index, position, TASK_ROWS) for position in range(count)]


def _path(stored: StoredMap, index: int) -> Path:
    """Return where a cell's moments are kept."""
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
    return inputs.settings.moments / f"{digest(identity)}.npz"


def _write(path: Path, moments: Moments) -> None:
    """Keep moments, whole or not at all."""
    arrays = {name: np.asarray(value) for name, value in asdict(moments).items()}
    write_arrays(path, arrays, compress=False)


def _read(path: Path) -> Moments | None:
    """Return stored moments, None where they are absent or damaged."""
    arrays = read_arrays(path)
    if arrays is None:
        return None
    values = {f.name: arrays[f.name] for f in fields(Moments)}
    numbers = {"n": int(values["n"]), "y": float(values["y"]), "yy": float(values["yy"])}
    return Moments(**{**values, **numbers})
