import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.feature_maps import ExactMap, NystroemMap
from fkd.core.kernels import Kernel

KERNELS = [
    Kernel("rbf", 0.2),
    Kernel("laplacian", 0.2),
    Kernel("polynomial", 1.0, 2),
    Kernel("linear"),
]


def rows(rng, n=60, d=4):
    return rng.normal(size=(n, d))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_exact_features_give_the_kernel_back(rng, kernel):
    X = rows(rng)
    fmap = ExactMap.from_rows(kernel, X)
    (G,) = fmap.training_blocks(X)
    K = kernel.gram(X)
    scale = np.trace(K)
    assert_allclose(G @ G.T, K, rtol=0, atol=1e-12 * scale)
    assert_allclose(fmap.transform(X), G, rtol=0, atol=1e-7 * np.sqrt(scale))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(0, 10))
def test_duplicate_rows_change_neither_rank_nor_features(seed, copies):
    X = rows(np.random.default_rng(seed), n=20)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.2), np.vstack([X, X[:copies]]))
    assert fmap.rank == 20
    assert_allclose(fmap.G[20:], fmap.G[:copies], atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "rank"), [(Kernel("linear"), 4), (Kernel("polynomial", 1.0, 2), 15)]
)
def test_a_singular_kernel_has_the_rank_of_its_feature_space(rng, kernel, rank):
    assert ExactMap.from_rows(kernel, rows(rng)).rank == rank


@pytest.mark.parametrize(
    "method", [ExactMap.from_rows, lambda k, X: NystroemMap.from_landmarks(k, X, np.arange(len(X)))]
)
def test_products_agree_with_features(rng, method):
    X, new, B = rows(rng), rows(rng, n=9), rng.normal(size=(60, 3))
    fmap = method(Kernel("rbf", 0.5), X)
    assert_allclose(fmap.product(new, B), fmap.transform(new) @ B, atol=1e-9)
    assert_allclose(fmap.training_product(X, B), fmap.product(X, B), atol=1e-9)
    a = rng.normal(size=60)
    assert_allclose(fmap.training_adjoint(X, a), fmap.transform(X).T @ a, atol=1e-8)
    assert_allclose(fmap.cross(new, X), fmap.kernel(new, X), atol=1e-9)


def test_all_rows_as_landmarks_give_the_exact_map(rng):
    X, kernel = rows(rng), Kernel("rbf", 0.5)
    exact, full = (
        ExactMap.from_rows(kernel, X),
        NystroemMap.from_landmarks(kernel, X, np.arange(60)),
    )
    assert_array_equal(exact.centers, full.centers)
    assert_allclose(exact.G, full.transform(X), atol=1e-9)


def test_landmarks_that_repeat_are_left_out(rng):
    X = rows(rng)
    fmap = NystroemMap.from_landmarks(Kernel("rbf", 0.5), np.vstack([X, X]), np.r_[0:20, 60:70])
    assert fmap.rank == 20


def test_a_nystroem_map_reproduces_its_landmarks_and_underestimates_the_rest(rng):
    X, kernel = rows(rng), Kernel("rbf", 0.5)
    fmap = NystroemMap.from_landmarks(kernel, X, np.arange(20))
    K, approximate = kernel.gram(X), fmap.training_gram(X)
    assert_allclose(approximate[:20], K[:20], atol=1e-10)
    assert np.linalg.eigvalsh(K - approximate)[0] > -1e-12
    assert (approximate.diagonal()[20:] < 1 - 1e-3).all()
    assert_array_equal(fmap.unrepresented(X, fmap.transform(X)), np.zeros(60))


def test_the_exact_diagonal_holds_what_lies_outside_the_training_span(rng):
    fmap = ExactMap.from_rows(Kernel("rbf", 0.5), rows(rng))
    far = rows(rng, n=3) + 100
    assert_allclose(fmap.transform(far), 0, atol=1e-12)
    assert_array_equal(fmap.unrepresented(far, fmap.transform(far)), np.ones(3))


def test_an_exact_map_refuses_rows_it_was_not_made_from(rng):
    fmap = ExactMap.from_rows(Kernel("rbf", 0.5), rows(rng))
    with pytest.raises(ValueError, match="X must be the 60 training rows"):
        list(fmap.training_blocks(rows(rng, n=9)))


@pytest.mark.parametrize("copies", [0, 5])
def test_an_expansion_predicts_what_features_times_weights_do(rng, copies):
    X = rows(rng)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.2), np.vstack([X, X[:copies]]))
    beta, new = rng.normal(size=fmap.rank), rows(rng, n=9)
    f = fmap.expansion(beta, 0.5)
    assert_allclose(f.predict(new), fmap.transform(new) @ beta + 0.5, atol=1e-8)


def test_float32_rows_give_float64_features(rng):
    X = rows(rng)
    fmap = NystroemMap.from_landmarks(Kernel("rbf", 0.5), X, np.arange(20))
    G = fmap.transform(X.astype(np.float32))
    assert G.dtype == np.float64
    assert_allclose(G, fmap.transform(X), atol=1e-4)
