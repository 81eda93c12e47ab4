"""Array types and block sizes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
IntArray = NDArray[np.integer[Any]]
AnyArray = NDArray[Any]
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
