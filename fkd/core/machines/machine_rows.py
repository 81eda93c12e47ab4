"""What is known of every row under every machine that is still at work."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.machines.machine import Machine
from fkd.core.machines.row_source import RowBlock, Source

Precision = type[np.floating[Any]]
# Rows that are worked on at a time: what they need stays in the level-2 cache.
PASS_ROWS = 512
# Machines are columns, padded to a multiple of this width and multiplied in panels of it. A BLAS
# may round a column differently in a matrix of another width, or at another place in a wide one
# (OpenBLAS: single precision on Haswell and Zen, small matrices with AVX-512). In panels of 16 the
# numbers of a machine do not depend on the others.
WIDTH = 16


@dataclass
class _Block:
    """A block of rows between two passes."""

    y: Array  # (k,)
    weights: Array | None  # (k,)
    crew: IntArray  # the machine of each column, (w,)
    p: AnyArray  # (k, w): fitted value + scaled multiplier - y, from which both follow


@dataclass(frozen=True)
class RowPiece:
    """Some rows of a block, as views: writing to `p` changes what is known of them."""

    G: AnyArray  # (k, r); no rows where features were not asked for
    y: Array
    weights: Array | None
    p: AnyArray


@dataclass(frozen=True)
class CrewRows:
    """Rows with the machines that are at work on them, in pieces."""

    crew: IntArray  # the machine of each column
    pieces: Iterable[RowPiece]


class MachineRows:
    """All rows of a source, one number for each of their machines.

    Parameters
    ----------
    source, machines
        Rows, those that are trained on them.
    dtype
        Precision of what is kept of each row.
    """

    def __init__(self, source: Source, machines: Sequence[Machine], dtype: Precision) -> None:
        self.source, self.machines, self.dtype = source, machines, dtype
        self._blocks: list[_Block] = []
        for block in source():
            crew = self._crew(block, np.ones(len(machines), dtype=bool))
            p: AnyArray = np.zeros((len(block.y), len(crew)), dtype=dtype)
            self._blocks.append(_Block(block.y, block.weights, crew, p))

    def _crew(self, block: RowBlock, active: AnyArray) -> IntArray:
        """Return the machines that a block trains, filled up by one that is none."""
        found = [j for j, m in enumerate(self.machines) if active[j] and m.fold in block.folds]
        return filled(np.array(found, dtype=np.intp), len(self.machines))

    def count(self) -> IntArray:
        """Return how many rows each machine has."""
        found = np.zeros(len(self.machines) + 1, dtype=np.intp)
        for block in self._blocks:
            found[block.crew] += len(block.y)
        return found[:-1]

    def level(self) -> float:
        """Return the mean target of the first rows: from it, targets lose few digits."""
        return float(self._blocks[0].y[:PASS_ROWS].mean(axis=0))

    def blocks(self, *, features: bool = True) -> Iterator[CrewRows]:
        """Yield all rows that a machine is at work on, in order, with their features or without."""
        blocks = self.source() if features else [None] * len(self._blocks)
        for block, known in zip(blocks, self._blocks, strict=True):
            if len(known.crew):
                yield CrewRows(known.crew, _pieces(known, None if block is None else block.G))

    def let_go(self, active: AnyArray) -> None:
        """Forget the rows of machines that are done, where that makes matrices narrower."""
        for known in self._blocks:
            stay = np.flatnonzero(np.append(active, False)[known.crew])
            crew = filled(known.crew[stay], len(self.machines))
            if len(crew) < len(known.crew):
                p = np.zeros((len(known.y), len(crew)), dtype=known.p.dtype)
                p[:, : len(stay)] = known.p[:, stay]
                known.crew, known.p = crew, p


def _pieces(known: _Block, G: AnyArray | None) -> Iterator[RowPiece]:
    """Yield the rows of a block, some at a time."""
    for rows in row_blocks(len(known.y), PASS_ROWS):
        weights = None if known.weights is None else known.weights[rows]
        features = np.empty((0, 0)) if G is None else G[rows]
        yield RowPiece(features, known.y[rows], weights, known.p[rows])


def filled(columns: IntArray, none: int) -> IntArray:
    """Return columns filled up to a multiple of `WIDTH` by one that stands for none."""
    return np.append(columns, np.full(-len(columns) % WIDTH, none))


def panel_product(A: AnyArray, B: AnyArray) -> AnyArray:
    """Return A @ B, `WIDTH` columns of B at a time."""
    product: AnyArray = np.empty((len(A), B.shape[1]), dtype=np.result_type(A, B))
    for panel in row_blocks(B.shape[1], WIDTH):
        np.matmul(A, B[:, panel], out=product[:, panel])
    return product
