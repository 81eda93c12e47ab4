"""Selection of landmarks by randomly pivoted Cholesky."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fkd.core.feature_maps import NystroemMap
from fkd.core.kernels import Kernel
from fkd.core.landmarks import choose_landmarks, rp_cholesky


def missed_trace(kernel, X, landmarks):
    """Share of the kernel's trace that the landmarks do not explain."""
    G = NystroemMap.from_landmarks(kernel, X, landmarks).transform(X)
    return 1 - (G**2).sum(axis=None) / kernel.gram(X).trace()


@pytest.mark.parametrize("method", ["rpcholesky", "uniform"])
@pytest.mark.parametrize("q", [1, 7, 60])
def test_landmarks_are_distinct_rows(rng, method, q):
    X = rng.normal(size=(60, 3))
    found = choose_landmarks(Kernel("rbf", 0.5), X, q, method=method, rng=rng)
    assert len(found) == q
    assert_array_equal(found, np.unique(found))


@pytest.mark.parametrize("method", ["rpcholesky", "uniform"])
def test_the_same_seed_gives_the_same_landmarks(rng, method):
    X, kernel = rng.normal(size=(80, 3)), Kernel("rbf", 0.5)
    pair = [
        choose_landmarks(kernel, X, 9, method=method, rng=np.random.default_rng(5))
        for _ in range(2)
    ]
    assert_array_equal(*pair)


def test_random_pivoting_finds_rare_clusters_that_uniform_sampling_misses(rng):
    crowd = rng.normal(scale=0.01, size=(950, 2))
    rare = rng.normal(scale=0.01, size=(50, 2)) + 10 * np.repeat(np.arange(1, 11), 5)[:, None]
    X, kernel = np.vstack([crowd, rare]), Kernel("rbf", 0.5)
    pivoted = choose_landmarks(kernel, X, 20, method="rpcholesky", rng=rng)
    uniform = choose_landmarks(kernel, X, 20, method="uniform", rng=rng)
    assert missed_trace(kernel, X, pivoted) < 1e-3
    assert missed_trace(kernel, X, uniform) > 0.02  # the check would bite


def test_pivots_stop_at_the_rank(rng):
    X = rng.normal(size=(100, 3))
    assert len(rp_cholesky(Kernel("linear"), X, np.arange(100), 20, rng=rng)) == 3


def test_a_precomputed_kernel_gives_the_landmarks_of_its_rows(rng):
    X = rng.normal(size=(300, 3))
    kernel = Kernel("rbf", 0.5)
    K = kernel.gram(X)
    by_rows = choose_landmarks(kernel, X, 10, method="rpcholesky", rng=np.random.default_rng(1))
    by_matrix = choose_landmarks(
        Kernel("precomputed"), K, 10, method="rpcholesky", rng=np.random.default_rng(1)
    )
    assert_array_equal(by_rows, by_matrix)


def test_blocks_thinned_by_rejection_sample_what_is_left_unexplained(rng):
    # Two orthogonal groups, one row of weight 3 against three equal rows of weight 1: after the
    # first pivot of the triple its copies explain nothing, so two pivots always cover both groups.
    X = np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    pairs = [rp_cholesky(Kernel("linear"), X, np.arange(4), 2, rng=rng) for _ in range(50)]
    assert all(0 in pair and len(pair) == 2 for pair in pairs)
    # The heavy row comes first with probability 9/12.
    assert 0.55 < np.mean([pair[0] == 0 for pair in pairs]) < 0.95
