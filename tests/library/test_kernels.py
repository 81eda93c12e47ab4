"""Kernel functions against scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.metrics import pairwise

from fkd.core.kernels import Kernel, KernelColumns

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


def indicators(rng, n, d=40):
    """Rows of few entries, one of them a number."""
    X = np.where(rng.random((n, d)) < 0.1, 1.0, 0.0)
    X[:, 0] = rng.normal(size=n)
    return X


# A few rows, those of one step of the sparse product, one more, several blocks.
@pytest.mark.parametrize("n", [0, 1, 256, 257, 4097])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_sparse_rows_have_the_values_of_dense_ones(rng, name, single, n):
    X, Z = indicators(rng, n), indicators(rng, 7)
    columns = KernelColumns(kernel(name), Z, single)
    found = columns(csr_array(X))
    assert found.shape == (n, 7)
    assert found.dtype == (np.float32 if single else np.float64)
    tolerance = {"rtol": 3e-5, "atol": 3e-5} if single else {"rtol": 1e-12}
    if n:
        assert_allclose(found, REFERENCES[name](X, Z), **tolerance)
    room = np.full((n, 9), np.nan)
    assert columns(csr_array(X), room[:, :7]) is not None
    assert_array_equal(room[:, :7], found)
    assert np.isnan(room[:, 7:]).all()
    assert_allclose(kernel(name)(csr_array(X).astype(found.dtype), Z), found, rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_equal_rows_have_equal_values_whoever_holds_them(rng, sparse):
    """A row of a table is predicted alike alone, in a block, as a landmark of its own."""
    X = indicators(rng, 600)
    Z = X[:50]
    rows = csr_array(X) if sparse else X
    whole = KernelColumns(kernel("rbf"), Z)(rows)
    assert_array_equal(KernelColumns(kernel("rbf"), Z.copy())(rows), whole)
    if sparse:
        # Dense products may round by the number of rows; sparse ones go row by row.
        for part in (slice(0, 1), slice(3, 259), slice(590, 600)):
            assert_array_equal(KernelColumns(kernel("rbf"), Z)(rows[part]), whole[part])


def test_sparse_values_never_exceed_one(rng):
    X = indicators(rng, 900)
    for single in (False, True):
        K = KernelColumns(kernel("rbf"), X, single)(csr_array(X))
        assert K.max() <= 1.0
        assert_allclose(K.diagonal(), 1.0, atol=1e-5 if single else 1e-14)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_an_offset_costs_sparse_rows_no_digits(rng, offset, single):
    """|x|² + |z|² - 2 x·z would leave nothing of distances beside so large a column."""
    X, Z = indicators(rng, 300), indicators(rng, 20)
    expected = pairwise.rbf_kernel(X, Z, gamma=0.3)
    X[:, 0] += offset
    Z[:, 0] += offset
    found = KernelColumns(kernel("rbf"), Z, single)(csr_array(X))
    # The offset itself rounds the inputs, to offset times eps of float64.
    assert_allclose(found, expected, atol=1e-5 if single else 1e-8)
    naive = csr_array(X.astype(found.dtype)) @ Z.T.astype(found.dtype)
    x2, z2 = ((A.astype(found.dtype) ** 2).sum(axis=1) for A in (X, Z))
    lost = np.exp(-0.3 * np.maximum(x2[:, None] + z2 - 2 * naive, 0.0)) - expected
    assert np.abs(lost).max() > 100 * np.abs(found - expected).max()


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_an_offset_costs_dense_rows_no_digits_in_single_precision(rng, name):
    X, Z = rng.normal(size=(300, 4)), rng.normal(size=(20, 4))
    found = KernelColumns(kernel(name), Z + 1e5, single=True)(X + 1e5)
    assert found.dtype == np.float32
    assert_allclose(found, REFERENCES[name](X, Z), atol=1e-5)


def test_sparse_arguments_are_not_written_to(rng):
    X, Z = csr_array(indicators(rng, 300)), indicators(rng, 20)
    before = X.toarray()
    X.data.flags.writeable = Z.flags.writeable = False
    for single in (False, True):
        KernelColumns(kernel("rbf"), Z, single)(X)
    assert_array_equal(X.toarray(), before)
