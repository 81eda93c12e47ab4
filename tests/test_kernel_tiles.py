import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate, psd_factor
from fkd.paper.algorithm2 import TILE_ROWS, KernelRows, chunked_dual_path, multiplied, nystroem_path

KERNEL = Kernel("rbf", 0.1)


def sample(rng, n=240, q=60, l=2, tile_rows=TILE_ROWS):
    X = rng.normal(size=(n, 4))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return KernelRows(KERNEL, X, np.sort(rng.choice(n, size=q, replace=False)), tile_rows), S


def in_features(K, S, **setting):
    """Return the fair kernel matrix by the same algorithm in the space of a factor of K."""
    G, _ = psd_factor(K)
    return downdate(K, G @ nystroem_path(G, S, ridge=0.1, **setting).U)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("q", [24, 120, 240])
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_blocks_reach_the_kernel_of_the_whole_matrix(rng, l, q, blocks):
    data, S = sample(rng, q=q, l=l, tile_rows=-(-240 // blocks))
    K = KERNEL.gram(data.X)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=10)
    whole = in_features(K, S, iterations=10, landmarks=data.landmarks)
    # The inner q x q system has a condition beyond 1e12, so 1e-10 is out of reach of either.
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)
    assert np.abs(K - path.fair_gram(K)).max(axis=None) > 0.01  # there was something to remove


def test_duplicate_rows_are_no_trouble(rng):
    data, S = sample(rng)
    doubled = KernelRows(KERNEL, np.concatenate([data.X, data.X]), data.landmarks, 100)
    SS = np.concatenate([S, S + rng.normal(size=S.shape)])
    K = KERNEL.gram(doubled.X)
    path = chunked_dual_path(doubled, SS, ridge=0.1, iterations=8)
    whole = in_features(K, SS, iterations=8, landmarks=data.landmarks)
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)


def test_factors_belong_together(rng):
    data, S = sample(rng, tile_rows=50)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=6)
    assert path.A.shape == (240, 12)
    assert_allclose(KERNEL.gram(data.X) @ path.A, path.F, atol=1e-8)
    assert_allclose(path.A.T @ path.F, np.eye(12), atol=1e-8)


def test_a_repeated_column_is_removed_once(rng):
    data, S = sample(rng, tile_rows=100)
    twice = np.column_stack([S[:, 0], 2 * S[:, 0]])
    path = chunked_dual_path(data, twice, ridge=0.1, iterations=4)
    once = chunked_dual_path(data, S[:, :1], ridge=0.1, iterations=4)
    K = KERNEL.gram(data.X)
    assert path.A.shape[1] == 4
    assert_allclose(path.fair_gram(K), once.fair_gram(K), atol=1e-7)


def test_no_iteration_removes_nothing(rng):
    data, S = sample(rng)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=0)
    assert path.A.shape == (240, 0)


def test_each_pair_of_rows_is_made_once(rng):
    data, S = sample(rng, n=300)
    made = []

    def counting(X, Z):
        made.append(len(X) * len(Z))
        return KERNEL(X, Z)

    counted = KernelRows(Kernel(counting), data.X, data.landmarks, 64)
    first, second = counted.products([S[:, :1], S])
    assert_allclose(first, KERNEL.gram(data.X) @ S[:, :1], rtol=1e-10)
    assert_allclose(second, KERNEL.gram(data.X) @ S, rtol=1e-10)
    assert sum(made) < 0.65 * 300**2


def test_passes_over_the_landmarks_read_what_is_left(rng):
    data, S = sample(rng, n=300, tile_rows=64)
    F = rng.normal(size=(300, 3))
    K_nq = (KERNEL.gram(data.X) - F @ F.T)[:, data.landmarks]
    K_qq, C_q, b_q = data.landmark_system(S, F)
    assert_allclose(K_qq, K_nq[data.landmarks], atol=1e-10)
    assert_allclose(C_q, K_nq.T @ K_nq, rtol=1e-9)
    assert_allclose(b_q, K_nq.T @ S, atol=1e-9)
    z = rng.normal(size=(60, 2))
    one, other = data.landmark_products([z, z[:, :1]], F)
    assert_allclose(one, K_nq @ z, atol=1e-9)
    assert_allclose(other, K_nq @ z[:, :1], atol=1e-9)
    (adjoint,) = data.landmark_adjoints([S])
    assert_allclose(adjoint, KERNEL.gram(data.X)[data.landmarks] @ S, atol=1e-9)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_panel_has_the_same_bits_whoever_is_beside_it(rng, width, transposed):
    K = rng.normal(size=(301, 257))
    K = K.T if transposed else K
    wide = rng.normal(size=(K.shape[1], 7))
    (alone,) = multiplied(K, [wide[:, 2 : 2 + width].copy()])
    together = multiplied(K, [wide[:, :2], wide[:, 2 : 2 + width], wide])
    np.testing.assert_array_equal(together[1], alone)
    assert_allclose(together[2], K @ wide, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("m", "width"), [(0, 0), (2, 4), (6, 12)])
def test_the_head_of_a_path_is_the_shorter_path(rng, m, width):
    data, S = sample(rng)
    whole = chunked_dual_path(data, S, ridge=0.1, iterations=6)
    short = chunked_dual_path(data, S, ridge=0.1, iterations=m)
    head = whole.head(m)
    assert head.A.shape == (240, width)
    np.testing.assert_array_equal(head.A, short.A)
    np.testing.assert_array_equal(head.F, short.F)
    assert head.ends == short.ends
    with pytest.raises(ValueError, match="at most 6"):
        whole.head(7)


def test_the_matrix_is_never_held_whole(rng):
    n = 2 * TILE_ROWS
    X = rng.normal(size=(n, 3))
    data = KernelRows(KERNEL, X, np.arange(0, n, 64))
    tracemalloc.start()
    chunked_dual_path(data, X[:, :1], ridge=0.1, iterations=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One tile with its temporaries is a quarter of the 134 MB that the whole matrix needs.
    assert peak < 0.6 * 8 * n**2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"iterations": -1}, "iterations"),
    ],
)
def test_impossible_settings_are_named(rng, wrong, message):
    data, S = sample(rng)
    with pytest.raises(ValueError, match=message):
        chunked_dual_path(data, S, **{"ridge": 0.1, "iterations": 2, **wrong})


def test_tiles_have_rows(rng):
    with pytest.raises(ValueError, match="tile_rows"):
        sample(rng, tile_rows=0)
