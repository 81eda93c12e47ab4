"""Rows as estimators take them: dense, sparse, or a data frame whose columns they learn."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import validate_data

from fkd.core.arrays import Rows
from fkd.core.border import LARGEST_INPUT, check_numeric_columns, check_range, column_names
from fkd.core.sparse_rows import written_out


def estimator_rows(estimator: Any, X: Any, *, reset: bool, sparse: bool = False) -> Rows:
    """Return X as checked float64 rows; `reset` learns the columns, else they must agree.

    Parameters
    ----------
    estimator, X, reset
        Whose rows they are.
    sparse
        Whether sparse rows may stay so; else they become dense, as far as memory allows.
    """
    if issparse(X):
        checked = validate_data(
            estimator, X, accept_sparse="csr", ensure_all_finite=False, reset=reset
        )
        rows = _canonical(csr_array(checked, dtype=np.float64))
        _check_sparse_range(rows, X)
        return rows if sparse else written_out(rows)
    check_numeric_columns("X", X)
    # One memory order, so that a data frame gives the same bits as its array.
    A = validate_data(
        estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
    )
    check_range("X", A, column_names(X, A.shape[1]))
    return np.asarray(A)


def _canonical(rows: csr_array) -> csr_array:
    """Return rows without entries that stand twice, whose sum alone is a value."""
    if rows.has_canonical_format:
        return rows
    rows = rows.copy()  # it may be the caller's
    rows.sum_duplicates()
    return rows


def _check_sparse_range(rows: csr_array, X: Any) -> None:
    """Refuse what `check_range` refuses, from the entries alone."""
    # Written so that NaN fails it too.
    good = np.abs(rows.data) <= LARGEST_INPUT
    if not good.all():
        j = int(rows.indices[~good].min())
        check_range("X", rows[:, [j]].toarray(), [column_names(X, rows.shape[1])[j]])
