"""Types of the arrays that the maths is written in, the blocks that they are worked in."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
IntArray = NDArray[np.integer[Any]]
AnyArray = NDArray[Any]
# Encoded rows (n, d): sparse where nearly all of them are zeros.
Rows = Array | csr_array

# Rows of one block where rows stream by: large enough for BLAS, small enough for any memory.
BLOCK_ROWS = 4096
# Rows of one step within a matrix: two tiles of so many rows and columns fit the level-2 cache.
PANEL_ROWS = 128


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows that cover 0..n in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
