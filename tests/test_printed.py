import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate, psd_factor
from fkd.core.moments import training_moments
from fkd.core.removal import removal_path
from fkd.paper.algorithm1 import algorithm_1
from fkd.paper.algorithm2 import (
    FeatureRemainder,
    inverse_product,
    nystroem_dual_path,
    nystroem_path,
)


def sample(rng, n=60, l=2):
    X = rng.normal(size=(n, 3))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return X, S, Kernel("rbf", 0.3).gram(X)


def exact(X, S, iterations):
    fmap = ExactMap.from_rows(Kernel("rbf", 0.3), X)
    moments = training_moments(fmap, X, S, np.zeros(len(X)))
    path = removal_path(moments, ridge=0.1, iterations=iterations)
    return downdate(fmap.kernel.gram(X), fmap.G @ path.U)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_the_transformation_takes_the_kernel_to_the_fair_one(rng, l, m):
    X, S, K = sample(rng, l=l)
    K_m, T = algorithm_1(K, S, ridge=0.1, iterations=m)
    assert_allclose(K @ T, K_m, atol=1e-10)
    assert_allclose(K_m, exact(X, S, m), atol=1e-10)


def test_the_transformation_is_an_oblique_projection(rng):
    _, S, K = sample(rng)
    _, T = algorithm_1(K, S, ridge=0.1, iterations=3)
    assert_allclose(T @ T, T, atol=1e-9)
    assert np.abs(T - T.T).max(axis=None) > 0.01  # not an orthogonal one


def test_two_rows_by_hand():
    K = np.array([[1.0, 0.5], [0.5, 1.0]])
    K_1, T = algorithm_1(K, np.array([[1.0], [-1.0]]), ridge=0.5, iterations=1)
    assert_allclose(K_1, [[0.75, 0.75], [0.75, 0.75]])
    assert_allclose(T, [[0.5, 0.5], [0.5, 0.5]])


def test_all_rows_as_landmarks_invert_exactly(rng):
    _, S, K = sample(rng)
    G, _ = psd_factor(K)
    b = inverse_product(FeatureRemainder(G, np.arange(60), np.empty((60, 0))), S, ridge=0.1)
    assert_allclose(b, np.linalg.solve(K + 0.1 * np.eye(60), S), rtol=1e-8, atol=1e-8)


def test_landmarks_without_full_rank_invert_exactly_too(rng):
    X, S, _ = sample(rng)
    K = X @ X.T  # rank 3: no factor of 60 pivots
    G, _ = psd_factor(K)
    b = inverse_product(FeatureRemainder(G, np.arange(60), np.empty((60, 0))), S, ridge=0.1)
    assert_allclose(b, np.linalg.solve(K + 0.1 * np.eye(60), S), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("form", ["features", "dual"])
def test_all_rows_as_landmarks_give_the_exact_path(rng, m, form):
    X, S, K = sample(rng)
    setting = {"ridge": 0.1, "iterations": m, "landmarks": np.arange(60)}
    if form == "dual":
        found = nystroem_dual_path(K, S, **setting).fair_gram(K)
    else:
        G = ExactMap.from_rows(Kernel("rbf", 0.3), X).G
        found = downdate(K, G @ nystroem_path(G, S, **setting).U)
    assert_allclose(found, exact(X, S, m), atol=1e-8)


def test_landmarks_that_span_the_kernel_give_the_exact_path(rng):
    X, S, _ = sample(rng)
    fmap = ExactMap.from_rows(Kernel("linear"), X)
    found = nystroem_path(fmap.G, S, ridge=0.1, iterations=1, landmarks=np.arange(5, 8))
    moments = training_moments(fmap, X, S, np.zeros(60))
    U = removal_path(moments, ridge=0.1, iterations=1).U
    assert_allclose(found.U @ found.U.T, U @ U.T, atol=1e-8)


@pytest.mark.parametrize("q", [3, 15])
def test_few_landmarks_still_remove_by_orthogonal_projection(rng, q):
    _, S, K = sample(rng)
    path = nystroem_dual_path(K, S, ridge=0.1, iterations=5, landmarks=np.arange(q))
    K_m = path.fair_gram(K)
    assert np.linalg.eigvalsh(K_m)[0] > -1e-10
    assert_allclose(path.A.T @ K @ path.A, np.eye(10), atol=1e-10)
    assert_allclose(K_m @ path.A, 0, atol=1e-9)
    assert_allclose(path.fair_block(K), K_m, atol=1e-10)
    assert_allclose(K @ path.T(), K_m, atol=1e-10)


def test_collinear_columns_are_deflated(rng):
    X, S, K = sample(rng, l=1)
    setting = {"ridge": 0.1, "iterations": 4, "landmarks": np.arange(20)}
    single = nystroem_dual_path(K, S, **setting).fair_gram(K)
    double = nystroem_dual_path(K, np.hstack([S, 2 * S]), **setting).fair_gram(K)
    assert_allclose(double, single, atol=1e-9)
    G = ExactMap.from_rows(Kernel("rbf", 0.3), X).G
    assert nystroem_path(G, np.hstack([S, 2 * S]), **setting).ends == (0, 1, 2, 3, 4)


def test_the_dual_form_needs_no_second_matrix(rng):
    n, q = 1500, 30
    _, S, K = sample(rng, n=n)
    tracemalloc.start()
    nystroem_dual_path(K, S, ridge=0.1, iterations=4, landmarks=np.arange(q))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A handful of n x q arrays; one n x n array would be fifty of them.
    assert peak < 8 * (8 * n * q)
