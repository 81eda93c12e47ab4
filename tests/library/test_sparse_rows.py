"""Sparse rows give the numbers of the same dense rows, without a dense copy."""

import pickle
import tracemalloc

import numpy as np
import pytest
from contract_sample import ESTIMATORS, answers, fitted, rows
from estimator_sample import MACHINES, scores, target
from numpy.testing import assert_allclose, assert_array_equal
from optional import needs
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, random_array
from sklearn.base import clone

from fkd import (
    FairGaussianProcess,
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
)
from fkd.baselines import FairKernelLearning
from fkd.core.arrays import BLOCK_ROWS, PANEL_ROWS
from fkd.core.kernels import Kernel, KernelColumns
from fkd.core.linalg import sparse_distances, sparse_products, squared_norms


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("form", [csr_array, csc_matrix, coo_array])
@pytest.mark.parametrize(
    "subject", [pytest.param(s, id=str(s), marks=needs(s.extra)) for s in ESTIMATORS]
)
def test_sparse_rows_give_what_dense_rows_give(rng, subject, form):
    X, y, S = rows(rng)
    X[np.abs(X) < 0.7] = 0.0
    known = answers(subject, fitted(subject, X, y, S), X, S)
    sparse = fitted(subject, form(X), y, S)
    assert_allclose(answers(subject, sparse, form(X), S), known, atol=1e-7)
    # Either kind of rows can be predicted by a model of the other.
    assert_allclose(answers(subject, sparse, X, S), known, atol=1e-7)
    assert_allclose(answers(subject, fitted(subject, X, y, S), form(X), S), known, atol=1e-7)


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
    assert_allclose(sparse, dense, rtol=1e-8)


@pytest.mark.parametrize(
    "model",
    [FairKernelRidge("laplacian"), FairKernelRidge("linear", approximation="identity")],
)
def test_sparse_rows_that_would_fill_the_memory_are_refused(rng, model):
    X = csr_array(([1.0], ([0], [0])), shape=(20_000, 10_000))
    with pytest.raises(ValueError, match=r"X must have at most 134217728 .* got shape \(20000, "):
        model.fit(X, np.arange(20_000), sensitive_features=np.arange(20_000))


def wide_rows(rng, n, d, each=20):
    """Rows of a million columns with a few entries each, the first columns telling of s and y."""
    columns = rng.integers(4, d, size=(n, each))
    columns[:, :2] = rng.integers(4, size=(n, 2))
    values = rng.uniform(0.5, 1.5, size=(n, each))
    places = np.repeat(np.arange(n), each), columns.ravel()
    X = csr_array(coo_array((values.ravel(), places), shape=(n, d)))
    first = X[:, :4].toarray()
    return X, first[:, 0] - first[:, 1] + 0.1 * rng.normal(size=n), first[:, 0] + first[:, 2]


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
def test_rows_whose_dense_form_fits_no_memory_are_fitted(rng, kernel):
    n, d = 20_000, 1_000_000  # 160 GB if written out
    X, y, s = wide_rows(rng, n, d)
    setting = {"approximation": "nystroem", "landmarks": 50, "random_state": 0, "gamma": 0.02}
    tracemalloc.start()
    model = FairKernelRidge(kernel, iterations=2, degree=2, **setting)
    found = model.fit(X, y, sensitive_features=s).predict(X)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**28  # the landmarks alone would be 400 MB
    # The same from the columns that have entries at all.
    used = np.unique(X.indices)
    narrow = clone(model).fit(X[:, used], y, sensitive_features=s).predict(X[:, used])
    assert_allclose(found, narrow, atol=1e-7)
    assert np.corrcoef(found, y)[0, 1] > 0.2


def test_landmarks_too_wide_to_be_written_out_are_not_exported(rng):
    X, y, s = wide_rows(rng, 200, 1_000_000)
    model = FairKernelRidge(gamma=0.02, iterations=1, held_out=0).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match=r"sparse rows are made dense, got shape \(200, 1000000"):
        model.expansion().arrays()


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
def test_wide_rows_on_fourier_features(rng):
    X, y, s = wide_rows(rng, 5000, 100_000)
    setting = {"approximation": "fourier", "landmarks": 30, "random_state": 0, "gamma": 0.02}
    model = FairKernelRidge(iterations=2, **setting)
    tracemalloc.start()
    found = model.fit(X, y, sensitive_features=s).predict(X)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**28  # the rows would be 4 GB
    part = X[:20].toarray()
    assert_allclose(model.predict(part), found[:20], atol=1e-9)


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "auto"])
def test_every_machine_keeps_rows_sparse(rng, machine, kernel, approximation):
    X, y, s = wide_rows(rng, 2 * PANEL_ROWS + 50, 300, each=8)
    y = target(machine, y)
    setting = {"iterations": 2, "approximation": approximation, "gamma": 0.05, "degree": 2}
    if approximation == "nystroem":
        setting |= {"landmarks": 40, "random_state": 0}
    model = machine(kernel, **setting)
    sparse = clone(model).fit(X, y, sensitive_features=s)
    dense = clone(model).fit(X.toarray(), y, sensitive_features=s)
    assert_allclose(scores(sparse, X), scores(dense, X.toarray()), atol=2e-3)  # libsvm's tolerance
    again = pickle.loads(pickle.dumps(sparse))
    assert_array_equal(scores(again, X), scores(sparse, X))
    if hasattr(model, "alpha"):
        assert_allclose(scores(sparse, X), scores(dense, X.toarray()), atol=1e-6)
        stored = sparse.expansion().arrays()
        plain = type(sparse.expansion()).from_arrays(stored)
        assert_allclose(plain.predict(X.toarray()), scores(sparse, X), atol=1e-9)


def test_deviations_of_a_process_on_sparse_rows(rng):
    X, y, s = wide_rows(rng, 120, 200, each=8)
    model = FairGaussianProcess(iterations=2, gamma=0.05, held_out=0)
    known = clone(model).fit(X.toarray(), y, sensitive_features=s)
    model.fit(X, y, sensitive_features=s)
    for found, expected in zip(
        model.predict(X[:30], return_std=True), known.predict(X[:30].toarray(), True), strict=True
    ):
        assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("make", [FairKernelDecomposition, FairKernelShrinkage])
@pytest.mark.parametrize("weights", [None, 0])
def test_a_fair_kernel_of_sparse_rows(rng, make, weights):
    X, _, s = wide_rows(rng, 90, 200, each=8)
    w = None if weights is None else rng.integers(0, 3, size=90)
    model = make(gamma=0.05, held_out=0)
    known = clone(model).fit(X.toarray(), sensitive_features=s, sample_weight=w)
    K = model.fit_transform(X, sensitive_features=s, sample_weight=w)
    assert_allclose(K, known.transform(X.toarray()), atol=1e-8)
    assert_array_equal(K, K.T)
    assert_allclose(model.transform(X[:10]), K[:10], atol=1e-8)
    assert_allclose(model.diag(X), K.diagonal(), atol=1e-7)
    assert isinstance(model.fair_.X, csr_array)


@pytest.mark.parametrize("given", [[1], "y"])
def test_columns_of_sparse_rows_may_be_given(rng, given):
    X, y, s = wide_rows(rng, 150, 60, each=8)
    written = X.toarray()
    written[:, 1] = rng.normal(size=150)
    X = csr_array(written)
    model = FairKernelRidge(removal="shrinkage", given=given, gamma=0.05, held_out=0)
    known = clone(model).fit(X.toarray(), y, sensitive_features=s).predict(X.toarray())
    assert_allclose(model.fit(X, y, sensitive_features=s).predict(X), known, atol=1e-7)


def test_a_given_column_of_sparse_rows_that_is_sensitive_is_refused(rng):
    X, y, _ = wide_rows(rng, 150, 60, each=8)
    with pytest.raises(ValueError, match="given must not name the sensitive features"):
        FairKernelRidge(removal="shrinkage", given=[2]).fit(
            X, y, sensitive_features=X[:, [2]].toarray()
        )


def test_rows_are_added_sparse(rng):
    X, y, s = wide_rows(rng, 400, 3000, each=8)
    setting = {"approximation": "nystroem", "landmarks": 30, "random_state": 0, "gamma": 0.05}
    models = [FairKernelRidge(iterations=2, **setting) for _ in range(2)]
    for part in (slice(0, 250), slice(250, 400)):
        models[0].partial_fit(X[part], y[part], sensitive_features=s[part])
        models[1].partial_fit(X[part].toarray(), y[part], sensitive_features=s[part])
    assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-7)


def test_several_targets_of_sparse_rows(rng):
    X, y, s = wide_rows(rng, 150, 300, each=8)
    Y = np.column_stack([y, -2 * y + s])
    model = FairKernelRidge(iterations=2, gamma=0.05, held_out=0)
    known = clone(model).fit(X.toarray(), Y, sensitive_features=s).predict(X.toarray())
    assert_allclose(model.fit(X, Y, sensitive_features=s).predict(X), known, atol=1e-7)


def test_a_rival_on_a_kernel_keeps_rows_sparse(rng):
    X, y, s = wide_rows(rng, 150, 200_000, each=8)
    model = FairKernelLearning(gamma=0.05).fit(X, y, sensitive_features=s)
    used = np.unique(X.indices)
    narrow = clone(model).fit(X[:, used], y, sensitive_features=s)
    assert_allclose(model.predict(X), narrow.predict(X[:, used]), atol=1e-8)
    assert isinstance(model.expansion_.centers, csr_array)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
@pytest.mark.parametrize("n", [3, 2 * PANEL_ROWS, 4 * PANEL_ROWS + 1])
def test_kernels_of_sparse_rows_are_those_of_dense_ones(rng, kernel, n):
    X, Z = random_array((n, 40), density=0.2, rng=rng), random_array((70, 40), density=0.3, rng=rng)
    X, Z = csr_array(X), csr_array(Z)
    k = Kernel(kernel, 0.3)
    known = k(X.toarray(), Z.toarray())
    assert_allclose(k(X, Z), known, atol=1e-13)
    assert_allclose(k(X.toarray(), Z), known, atol=1e-13)
    out = np.empty(known.shape)
    assert KernelColumns(k, Z)(X, out) is out
    assert_allclose(out, known, atol=1e-13)
    assert_allclose(k.diag(X), k.diag(X.toarray()), atol=1e-13)
    K = k.gram(X)
    assert_array_equal(K, K.T)
    assert_allclose(K, k.gram(X.toarray()), atol=1e-13)


def test_distances_far_from_the_origin_are_taken_by_differences(rng, monkeypatch):
    monkeypatch.setattr("fkd.core.linalg._TILE", 5 * 40)  # several tiles each way
    dense = np.where(rng.uniform(size=(23, 40)) < 0.3, 1e7 + rng.normal(size=(23, 40)), 0.0)
    dense[:, 0] = 1e7 + rng.normal(size=23)
    near = dense + np.where(dense > 0, 0.01 * rng.normal(size=dense.shape), 0.0)
    X, Z = csr_array(dense), csr_array(near)
    known = np.exp(-((dense[:, None] - near[None]) ** 2).sum(axis=2))
    assert_allclose(Kernel("rbf", 1.0)(X, Z), known, atol=1e-12)
    D = squared_norms(X)[:, None] + squared_norms(Z) - 2 * sparse_products(X, Z)
    assert np.abs(np.exp(-np.maximum(D, 0)) - known).max() > 1e-3  # products would not do
    assert_allclose(sparse_distances(X, Z), ((dense[:, None] - near[None]) ** 2).sum(axis=2))


def test_entries_that_stand_twice_are_summed_and_the_callers_rows_kept(rng):
    X, y, s = wide_rows(rng, 60, 30, each=8)
    twice = csr_matrix(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    before = twice.data.copy()
    model = FairKernelRidge(gamma=0.05, iterations=1)
    found = clone(model).fit(twice, y, sensitive_features=s).predict(twice)
    assert_allclose(found, model.fit(X, y, sensitive_features=s).predict(X), atol=1e-8)
    assert_array_equal(twice.data, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_missing_value_is_refused_with_its_column(rng, bad):
    X, y, S = rows(rng)
    X[X < 0] = 0.0
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"X must be finite, got (NaN|inf) in column 2"):
        FairKernelRidge().fit(csr_array(X), y, sensitive_features=S)
