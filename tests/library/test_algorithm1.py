"""Algorithm 1 as printed against the removal path, and the reference in integer arithmetic."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate
from fkd.core.moments import training_moments
from fkd.core.removal import removal_path
from fkd.paper.algorithm1 import algorithm_1, removed_columns


def sample(rng, n=60, l=2):
    X = rng.normal(size=(n, 3))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return X, S, Kernel("rbf", 0.3).gram(X)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_the_transformation_gives_the_fair_kernel_of_the_path(rng, l, m):
    X, S, K = sample(rng, l=l)
    K_m, T = algorithm_1(K, S, ridge=0.1, iterations=m)
    assert_allclose(K @ T, K_m, atol=1e-10)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.3), X)
    moments = training_moments(fmap, X, S, np.zeros(len(X)))
    path = removal_path(moments, ridge=0.1, iterations=m)
    assert_allclose(K_m, downdate(K, fmap.G @ path.U), atol=1e-10)


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


@pytest.mark.parametrize("wrong", [{"ridge": 0.0}, {"iterations": -1}])
def test_impossible_settings_are_refused(rng, wrong):
    _, S, K = sample(rng)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        algorithm_1(K, S, **{"ridge": 0.1, "iterations": 2, **wrong})


def printed_recursion(K, S, ridge, iterations):
    """Algorithm 1 of the paper with 60 digits."""
    with mpmath.workdps(60):
        K, S = mpmath.matrix(K.tolist()), mpmath.matrix(S.tolist())
        for _ in range(iterations):
            b = mpmath.inverse(K + ridge * mpmath.eye(K.rows)) * S
            u = K * b
            K = K - u * mpmath.inverse(b.T * u) * u.T
        return np.array(K.tolist(), dtype=np.float64)


@pytest.mark.parametrize(("l", "iterations"), [(1, 1), (1, 6), (2, 3)])
def test_the_reference_is_the_printed_recursion_in_high_precision(rng, l, iterations):
    _, S, K = sample(rng, n=8, l=l)
    F = removed_columns(K, S, ridge=0.1, iterations=iterations)
    assert_allclose(K - F @ F.T, printed_recursion(K, S, 0.1, iterations), atol=1e-15)


def test_more_bits_do_not_change_the_reference(rng):
    X, _, K = sample(rng, n=12)
    coarse, fine = (
        removed_columns(K, X[:, :1], ridge=0.01, iterations=12, bits=bits) for bits in (400, 900)
    )
    assert_allclose(coarse, fine, rtol=1e-15, atol=1e-18)
