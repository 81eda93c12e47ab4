"""Algorithm 2: the Nystroem inverse, in features and over a kernel matrix read in passes."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate, psd_factor
from fkd.core.moments import training_moments
from fkd.core.removal import removal_path
from fkd.paper.algorithm2 import (
    TILE_ROWS,
    KernelRows,
    chunked_dual_path,
    nystroem_path,
    nystroem_weights,
    panel_products,
)

KERNEL = Kernel("rbf", 0.3)
WIDE = Kernel("rbf", 0.1)


def sample(rng, n=60, l=2, d=3):
    X = rng.normal(size=(n, d))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return X, S, KERNEL.gram(X)


def exact_gram(X, S, iterations):
    fmap = ExactMap.from_rows(KERNEL, X)
    moments = training_moments(fmap, X, S, np.zeros(len(X)))
    path = removal_path(moments, ridge=0.1, iterations=iterations)
    return downdate(fmap.kernel.gram(X), fmap.G @ path.U)


def dual_path(K, S, *, landmarks, **setting):
    """The path of a matrix in memory."""
    return chunked_dual_path(KernelRows(Kernel("precomputed"), K, landmarks), S, **setting)


# The inverse, and paths of few rows.


@pytest.mark.parametrize("rank", [60, 3])
def test_all_rows_as_landmarks_invert_exactly(rng, rank):
    X, S, K = sample(rng)
    K = K if rank == 60 else X @ X.T  # no factor of 60 pivots
    z = nystroem_weights(K, K @ K, K @ S, ridge=0.1)
    b = S / 0.1 - K @ z / 0.1**2
    assert_allclose(b, np.linalg.solve(K + 0.1 * np.eye(60), S), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("form", ["features", "dual"])
def test_all_rows_as_landmarks_give_the_exact_path(rng, m, form):
    X, S, K = sample(rng)
    setting = {"ridge": 0.1, "iterations": m, "landmarks": np.arange(60)}
    if form == "dual":
        found = dual_path(K, S, **setting).fair_gram(K)
    else:
        G = ExactMap.from_rows(KERNEL, X).G
        found = downdate(K, G @ nystroem_path(G, S, **setting).U)
    assert_allclose(found, exact_gram(X, S, m), atol=1e-8)


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
    path = dual_path(K, S, ridge=0.1, iterations=5, landmarks=np.arange(q))
    K_m, T = path.fair_gram(K), np.eye(60) - path.A @ path.F.T
    assert np.linalg.eigvalsh(K_m)[0] > -1e-10
    assert_allclose(path.A.T @ K @ path.A, np.eye(10), atol=1e-10)
    assert_allclose(K_m @ path.A, 0, atol=1e-9)
    assert_allclose(K @ T, K_m, atol=1e-10)


def test_collinear_columns_are_removed_once(rng):
    X, S, K = sample(rng, l=1)
    setting = {"ridge": 0.1, "iterations": 4, "landmarks": np.arange(20)}
    single = dual_path(K, S, **setting).fair_gram(K)
    double = dual_path(K, np.hstack([S, 2 * S]), **setting)
    assert double.ends == (0, 1, 2, 3, 4)
    assert_allclose(double.fair_gram(K), single, atol=1e-9)
    G = ExactMap.from_rows(KERNEL, X).G
    assert nystroem_path(G, np.hstack([S, 2 * S]), **setting).ends == (0, 1, 2, 3, 4)


def test_a_path_ends_when_no_direction_is_left(rng):
    # The sensitive column is zero outside the first two rows, which no other row is similar to.
    K = np.eye(60)
    K[0, 1] = K[1, 0] = 0.5
    K[2:, 2:] = KERNEL.gram(rng.normal(size=(58, 3)))
    S = np.zeros((60, 1))
    S[:2, 0] = 1.0, 3.0
    setting = {"ridge": 0.1, "iterations": 9, "landmarks": np.arange(20)}
    G, _ = psd_factor(K)
    for path in (nystroem_path(G, S, **setting), dual_path(K, S, **setting)):
        assert path.ends == (0, 1, 2)
        assert path.exhausted
        assert path.head(100).ends == path.ends


@pytest.mark.parametrize("wrong", [{"ridge": 0.0}, {"iterations": -1}])
def test_impossible_settings_are_refused(rng, wrong):
    X, S, K = sample(rng)
    setting = {"ridge": 0.1, "iterations": 2, "landmarks": np.arange(9), **wrong}
    for function, matrix in ((nystroem_path, X), (dual_path, K)):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            function(matrix, S, **setting)


# Paths over tiles of a kernel matrix.


def tiles(rng, n=240, q=60, l=2, tile_rows=TILE_ROWS):
    X, S, _ = sample(rng, n=n, l=l, d=4)
    return KernelRows(WIDE, X, np.sort(rng.choice(n, size=q, replace=False)), tile_rows), S


def in_features(K, S, **setting):
    """The fair kernel matrix by the same algorithm in the space of a factor of K."""
    G, _ = psd_factor(K)
    return downdate(K, G @ nystroem_path(G, S, ridge=0.1, **setting).U)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("q", [24, 120, 240])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_tiles_give_the_kernel_of_the_whole_matrix(rng, l, q, count):
    data, S = tiles(rng, q=q, l=l, tile_rows=-(-240 // count))
    K = WIDE.gram(data.X)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=10)
    whole = in_features(K, S, iterations=10, landmarks=data.landmarks)
    # The inner q x q system has a condition beyond 1e12: neither form can be exact to 1e-10.
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)
    assert np.abs(K - path.fair_gram(K)).max(axis=None) > 0.01  # something was removed


def test_duplicate_rows_give_the_same_kernel(rng):
    data, S = tiles(rng)
    doubled = KernelRows(WIDE, np.concatenate([data.X, data.X]), data.landmarks, 100)
    SS = np.concatenate([S, S + rng.normal(size=S.shape)])
    K = WIDE.gram(doubled.X)
    path = chunked_dual_path(doubled, SS, ridge=0.1, iterations=8)
    whole = in_features(K, SS, iterations=8, landmarks=data.landmarks)
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)


def test_factors_belong_together(rng):
    data, S = tiles(rng, tile_rows=50)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=6)
    assert path.A.shape == (240, 12)
    assert_allclose(WIDE.gram(data.X) @ path.A, path.F, atol=1e-8)
    assert_allclose(path.A.T @ path.F, np.eye(12), atol=1e-8)


def test_a_repeated_column_is_removed_once_in_tiles(rng):
    data, S = tiles(rng, tile_rows=100)
    twice = np.column_stack([S[:, 0], 2 * S[:, 0]])
    path = chunked_dual_path(data, twice, ridge=0.1, iterations=4)
    once = chunked_dual_path(data, S[:, :1], ridge=0.1, iterations=4)
    K = WIDE.gram(data.X)
    assert path.A.shape[1] == 4
    assert_allclose(path.fair_gram(K), once.fair_gram(K), atol=1e-7)


@pytest.mark.parametrize(("m", "width"), [(0, 0), (2, 4), (6, 12)])
def test_the_head_of_a_path_is_the_shorter_path(rng, m, width):
    data, S = tiles(rng)
    whole = chunked_dual_path(data, S, ridge=0.1, iterations=6)
    short = chunked_dual_path(data, S, ridge=0.1, iterations=m)
    head = whole.head(m)
    assert head.A.shape == (240, width)
    assert_array_equal(head.A, short.A)
    assert_array_equal(head.F, short.F)
    assert head.ends == short.ends
    with pytest.raises(ValueError, match="iterations must be at most 6"):
        whole.head(7)


def test_each_pair_of_rows_is_computed_once(rng):
    data, S = tiles(rng, n=300)
    made = []

    def counting(X, Z):
        made.append(len(X) * len(Z))
        return WIDE(X, Z)

    counted = KernelRows(Kernel(counting), data.X, data.landmarks, 64)
    first, second = counted.products([S[:, :1], S])
    assert_allclose(first, WIDE.gram(data.X) @ S[:, :1], rtol=1e-10)
    assert_allclose(second, WIDE.gram(data.X) @ S, rtol=1e-10)
    assert sum(made) < 0.65 * 300**2


def test_passes_over_the_landmark_columns_are_products_with_them(rng):
    data, S = tiles(rng, n=300, tile_rows=64)
    F = rng.normal(size=(300, 3))
    K_nq = (WIDE.gram(data.X) - F @ F.T)[:, data.landmarks]
    K_qq, C_q, b_q = data.landmark_system(S, F)
    assert_allclose(K_qq, K_nq[data.landmarks], atol=1e-10)
    assert_allclose(C_q, K_nq.T @ K_nq, rtol=1e-9)
    assert_allclose(b_q, K_nq.T @ S, atol=1e-9)
    z = rng.normal(size=(60, 2))
    one, other = data.landmark_products([z, z[:, :1]], F)
    assert_allclose(one, K_nq @ z, atol=1e-9)
    assert_allclose(other, K_nq @ z[:, :1], atol=1e-9)
    (adjoint,) = data.landmark_adjoints([S])
    assert_allclose(adjoint, WIDE.gram(data.X)[data.landmarks] @ S, atol=1e-9)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_panel_has_the_same_bits_beside_any_others(rng, width, transposed):
    K = rng.normal(size=(301, 257))
    K = K.T if transposed else K
    wide = rng.normal(size=(K.shape[1], 7))
    (alone,) = panel_products(K, [wide[:, 2 : 2 + width].copy()])
    together = panel_products(K, [wide[:, :2], wide[:, 2 : 2 + width], wide])
    assert_array_equal(together[1], alone)
    assert_allclose(together[2], K @ wide, rtol=1e-10, atol=1e-10)


def test_tiles_must_have_rows(rng):
    with pytest.raises(ValueError, match="tile_rows"):
        tiles(rng, tile_rows=0)


def peak_memory(function):
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_a_matrix_in_memory_is_not_copied(rng):
    n, q = 1500, 30
    _, S, K = sample(rng, n=n)
    peak = peak_memory(lambda: dual_path(K, S, ridge=0.1, iterations=4, landmarks=np.arange(q)))
    # A handful of n x q arrays; one n x n array would be fifty of them.
    assert peak < 8 * (8 * n * q)


def test_the_matrix_is_never_held_whole(rng):
    n = 2 * TILE_ROWS
    X = rng.normal(size=(n, 3))
    data = KernelRows(WIDE, X, np.arange(0, n, 64))
    peak = peak_memory(lambda: chunked_dual_path(data, X[:, :1], ridge=0.1, iterations=1))
    # One tile with its temporaries is a quarter of the 134 MB that the whole matrix needs.
    assert peak < 0.6 * 8 * n**2
