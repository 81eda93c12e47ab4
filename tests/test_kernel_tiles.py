import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate, psd_factor
from fkd.paper.kernel_tiles import (
    TILE_ROWS,
    KernelRows,
    chunked_dual_path,
    product_part,
)
from fkd.paper.nystroem_removal import nystroem_path

KERNEL = Kernel("rbf", 0.1)


def sample(rng, n=240, q=60, l=2):
    X = rng.normal(size=(n, 4))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return KernelRows(KERNEL, X, np.sort(rng.choice(n, size=q, replace=False))), S


def in_features(K, S, **setting):
    """Return the fair kernel matrix by the same algorithm in the space of a factor of K."""
    G, _ = psd_factor(K)
    return downdate(K, G @ nystroem_path(G, S, ridge=0.1, **setting).U)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("q", [24, 120, 240])
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_blocks_reach_the_kernel_of_the_whole_matrix(rng, l, q, blocks):
    data, S = sample(rng, q=q, l=l)
    K = KERNEL.gram(data.X)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=10, block_rows=-(-240 // blocks))
    whole = in_features(K, S, iterations=10, landmarks=data.landmarks)
    # The inner q x q system has a condition beyond 1e12, so 1e-10 is out of reach of either.
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)
    assert np.abs(K - path.fair_gram(K)).max(axis=None) > 0.01  # there was something to remove


def test_duplicate_rows_are_no_trouble(rng):
    data, S = sample(rng)
    doubled = KernelRows(KERNEL, np.concatenate([data.X, data.X]), data.landmarks)
    SS = np.concatenate([S, S + rng.normal(size=S.shape)])
    K = KERNEL.gram(doubled.X)
    path = chunked_dual_path(doubled, SS, ridge=0.1, iterations=8, block_rows=100)
    whole = in_features(K, SS, iterations=8, landmarks=data.landmarks)
    assert_allclose(path.fair_gram(K), whole, atol=1e-8)


def test_factors_belong_together(rng):
    data, S = sample(rng)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=6, block_rows=50)
    assert path.A.shape == (240, 12)
    assert_allclose(KERNEL.gram(data.X) @ path.A, path.F, atol=1e-8)
    assert_allclose(path.A.T @ path.F, np.eye(12), atol=1e-8)


def test_a_repeated_column_is_removed_once(rng):
    data, S = sample(rng)
    twice = np.column_stack([S[:, 0], 2 * S[:, 0]])
    path = chunked_dual_path(data, twice, ridge=0.1, iterations=4, block_rows=100)
    once = chunked_dual_path(data, S[:, :1], ridge=0.1, iterations=4, block_rows=100)
    K = KERNEL.gram(data.X)
    assert path.A.shape[1] == 4
    assert_allclose(path.fair_gram(K), once.fair_gram(K), atol=1e-7)


def test_no_iteration_removes_nothing(rng):
    data, S = sample(rng)
    path = chunked_dual_path(data, S, ridge=0.1, iterations=0)
    assert path.A.shape == (240, 0)


def test_each_pair_of_rows_is_made_once(rng, monkeypatch):
    data, S = sample(rng, n=300)
    monkeypatch.setattr("fkd.paper.kernel_tiles.TILE_ROWS", 64)
    made = []

    def counting(X, Z):
        made.append(len(X) * len(Z))
        return KERNEL(X, Z)

    counted = KernelRows(Kernel(counting), data.X, data.landmarks)
    blocks = [slice(0, 130), slice(130, 200), slice(200, 300)]
    total = sum(product_part(counted, rows=rows, B=S) for rows in blocks)
    assert_allclose(total, KERNEL.gram(data.X) @ S, rtol=1e-10)
    assert sum(made) < 0.65 * 300**2


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
        ({"block_rows": 0}, "block_rows"),
    ],
)
def test_impossible_settings_are_named(rng, wrong, message):
    data, S = sample(rng)
    with pytest.raises(ValueError, match=message):
        chunked_dual_path(data, S, **{"ridge": 0.1, "iterations": 2, **wrong})
