"""Sparse rows: the numbers of the same rows written out."""

import numpy as np
import pytest
from contract_sample import ESTIMATORS, answers, fitted, rows
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, csc_matrix, csr_array

from fkd import FairKernelRidge
from fkd.core.arrays import BLOCK_ROWS


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("form", [csr_array, csc_matrix, coo_array])
@pytest.mark.parametrize("subject", ESTIMATORS, ids=str)
def test_sparse_rows_give_what_dense_rows_give(rng, subject, form):
    if subject.extra is not None and subject.extra.missing():
        pytest.skip(f"{subject} needs {', '.join(subject.extra.missing())}")
    X, y, S = rows(rng)
    X[np.abs(X) < 0.7] = 0.0
    known = answers(subject, fitted(subject, X, y, S), X, S)
    assert_array_equal(answers(subject, fitted(subject, form(X), y, S), form(X), S), known)


def test_many_sparse_rows_on_landmarks(rng):
    n = BLOCK_ROWS + 500
    codes = rng.integers(20, size=n)
    X = csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, 20))
    s = codes + rng.normal(size=n)
    setting = {"approximation": "nystroem", "landmarks": 20, "random_state": 0, "held_out": 0}
    sparse, dense = (
        FairKernelRidge(gamma=0.5, iterations=1, **setting)
        .fit(A, codes % 3, sensitive_features=s)
        .predict(A)
        for A in (X, X.toarray())
    )
    assert_array_equal(sparse, dense)


def test_sparse_rows_that_would_fill_the_memory_are_refused(rng):
    X = csr_array(([1.0], ([0], [0])), shape=(20_000, 10_000))
    with pytest.raises(ValueError, match=r"X must have at most 134217728 .* got shape \(20000, "):
        FairKernelRidge().fit(X, np.arange(20_000), sensitive_features=np.arange(20_000))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_missing_value_is_refused_with_its_column(rng, bad):
    X, y, S = rows(rng)
    X[X < 0] = 0.0
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"X must be finite, got (NaN|inf) in column 2"):
        FairKernelRidge().fit(csr_array(X), y, sensitive_features=S)
