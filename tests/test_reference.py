import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.kernels import Kernel
from fkd.paper.high_precision import removed_columns


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
    X = rng.normal(size=(8, 3))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(8, l))
    K = Kernel("rbf", 0.3).gram(X)
    F = removed_columns(K, S, ridge=0.1, iterations=iterations)
    assert_allclose(K - F @ F.T, printed_recursion(K, S, 0.1, iterations), atol=1e-15)


def test_more_bits_do_not_change_the_result(rng):
    X = rng.normal(size=(12, 3))
    K, S = Kernel("rbf", 0.3).gram(X), X[:, :1]
    coarse, fine = (
        removed_columns(K, S, ridge=0.01, iterations=12, bits=bits) for bits in (400, 900)
    )
    assert_allclose(coarse, fine, rtol=1e-15, atol=1e-18)
