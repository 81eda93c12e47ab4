"""Names for the array types that the maths is written in."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.integer[Any]]
AnyArray = NDArray[Any]


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows that cover 0..n in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
