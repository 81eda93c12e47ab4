"""Rows as estimators take them: dense, sparse, or a data frame whose columns they learn."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from fkd.core.arrays import Array
from fkd.core.border import check_numeric_columns, check_range, column_names

# Sparse rows of so many numbers fill a gigabyte as dense ones.
LARGEST_DENSE = 2**27


def estimator_rows(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Return X as checked float64 rows; `reset` learns the columns, else they must agree.

    Sparse rows become dense: their kernel is, and centres of a map are rows.
    """
    if issparse(X):
        rows = validate_data(
            estimator, X, accept_sparse="csr", ensure_all_finite=False, reset=reset
        )
        if rows.shape[0] * rows.shape[1] > LARGEST_DENSE:
            raise ValueError(
                f"X must have at most {LARGEST_DENSE} numbers as sparse rows are made dense, got "
                f"shape {rows.shape}; pass fewer rows at a time, or fewer columns"
            )
        A = np.ascontiguousarray(rows.toarray(), dtype=np.float64)
        check_range("X", A, column_names(X, A.shape[1]))
        return A
    check_numeric_columns("X", X)
    # One memory order, so that a data frame gives the same bits as its array.
    A = validate_data(
        estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
    )
    check_range("X", A, column_names(X, A.shape[1]))
    return np.asarray(A)
