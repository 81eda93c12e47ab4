"""Array types, block sizes and blocks of rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
IntArray = NDArray[np.integer[Any]]
AnyArray = NDArray[Any]
Precision = type[np.floating[Any]]
# Encoded rows (n, d), dense or sparse.
Rows = Array | csr_array

# Rows per block of a stream: large enough for BLAS, small enough for any memory.
BLOCK_ROWS = 4096
# Rows per panel within a matrix: two square tiles of this size fit the level-2 cache.
PANEL_ROWS = 128


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows that cover 0..n in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


@dataclass(frozen=True)
class RowBlock:
    """Features and targets of some rows."""

    G: AnyArray  # (k, r), single or double precision
    y: Array  # (k,); -1 or 1 for a hinge
    weights: Array | None = None  # (k,), factors of C; None is 1 for each row


# Each call yields the same blocks in the same order.
Source = Callable[[], Iterable[RowBlock]]
