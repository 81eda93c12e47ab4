import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import pairwise

from fkd.core.kernels import Kernel

REFERENCES = {
    "rbf": lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.3),
    "laplacian": lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=0.3),
    "polynomial": lambda X, Z: pairwise.polynomial_kernel(X, Z, degree=2, gamma=0.3, coef0=0.5),
    "linear": pairwise.linear_kernel,
}
NAMES = sorted(REFERENCES)


def kernel(name):
    return Kernel(name, gamma=0.3, degree=2, coef0=0.5)


def squared_plus_one(X, Z):
    return (X @ Z.T + 1) ** 2


@pytest.mark.parametrize("name", NAMES)
def test_a_block_agrees_with_scikit_learn(rng, name):
    X, Z = rng.normal(size=(300, 5)), rng.normal(size=(7, 5))
    X.flags.writeable = Z.flags.writeable = False
    assert_allclose(kernel(name)(X, Z), REFERENCES[name](X, Z), rtol=1e-12)


@pytest.mark.parametrize("name", [*NAMES, squared_plus_one])
def test_the_kernel_matrix_is_the_block_of_rows_against_themselves(rng, name):
    X = rng.normal(size=(200, 4))
    K = kernel(name).gram(X)
    assert_allclose(K, kernel(name)(X, X.copy()), rtol=1e-12)
    assert_array_equal(K, K.T)
    assert K.flags.f_contiguous
    assert_allclose(kernel(name).diag(X), K.diagonal(), rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_float32_rows_give_a_float32_block(rng, name):
    X, Z = rng.normal(size=(30, 5)), rng.normal(size=(7, 5))
    block = kernel(name)(X.astype(np.float32), Z)
    assert block.dtype == np.float32
    assert_allclose(block, kernel(name)(X, Z), rtol=1e-4, atol=1e-4)


def test_a_common_offset_costs_no_digits(rng):
    X = rng.normal(size=(50, 5))
    # The offset itself rounds the inputs to 1e6 eps; the kernel must not lose more than that.
    assert_allclose(kernel("rbf").gram(X + 1e6), kernel("rbf").gram(X), atol=1e-8)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_a_huge_gamma_gives_the_identity(rng, name):
    X = rng.normal(size=(10, 3))
    assert_array_equal(Kernel(name, gamma=1e308).gram(X), np.eye(10))


def test_a_precomputed_kernel_is_read_by_column(rng):
    K = kernel("rbf").gram(rng.normal(size=(10, 3)))
    k = Kernel("precomputed")
    assert_array_equal(k.gram(K), K)
    assert not np.shares_memory(k.gram(K), K)
    assert_array_equal(k(K[:4], k.rows(K)[[2, 5]]), K[:4][:, [2, 5]])
    with pytest.raises(ValueError, match="precomputed"):
        k.diag(K[:4])


def test_values_that_overflow_are_refused(rng):
    X = 1e120 * rng.normal(size=(5, 2))
    with pytest.raises(ValueError, match="finite"):
        Kernel("polynomial", gamma=1.0, degree=3).gram(X)


def test_a_function_of_the_wrong_shape_is_refused(rng):
    with pytest.raises(ValueError, match=r"one value per pair.*\(5, 5\).*\(5,\)"):
        Kernel(lambda X, Z: X[:, 0]).gram(rng.normal(size=(5, 2)))
