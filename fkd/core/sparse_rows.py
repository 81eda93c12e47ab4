"""Products with distances of sparse rows, whose dense form need not fit into memory."""

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from fkd.core.arrays import PANEL_ROWS, Array, Rows, row_blocks

# Sparse rows of so many numbers fill a gigabyte as dense ones.
LARGEST_DENSE = 2**27
# Numbers of one tile of rows that is written out.
_TILE = 2**24


def written_out(X: Rows) -> Array:
    """Return rows as dense ones, refused where they would fill the memory."""
    if not isinstance(X, csr_array):
        return np.asarray(X)
    if X.shape[0] * X.shape[1] > LARGEST_DENSE:
        raise ValueError(
            f"X must have at most {LARGEST_DENSE} numbers as sparse rows are made dense, got "
            f"shape {X.shape}; pass fewer rows at a time, or fewer columns"
        )
    return np.ascontiguousarray(X.toarray(), dtype=np.float64)


def squared_norms(X: csr_array) -> Array:
    """Return |x_i|² of sparse rows."""
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)


def sparse_products(X: csr_array, Z: csr_array) -> Array:
    """Return x_i·z_j as a dense block, a few rows at a time."""
    columns = Z.T.tocsr()
    K = np.empty((X.shape[0], Z.shape[0]))
    for rows in row_blocks(X.shape[0], 2 * PANEL_ROWS):
        K[rows] = (X[rows] @ columns).toarray()
    return K


def sparse_distances(X: csr_array, Z: csr_array) -> Array:
    """Return |x_i - z_j|² by differences, from tiles of rows that are written out."""
    D = np.empty((X.shape[0], Z.shape[0]))
    size = max(1, _TILE // X.shape[1])
    for rows in row_blocks(X.shape[0], size):
        left = X[rows].toarray()
        for columns in row_blocks(Z.shape[0], size):
            D[rows, columns] = cdist(left, Z[columns].toarray(), metric="sqeuclidean")
    return D
