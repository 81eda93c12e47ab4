"""Dense linear algebra of symmetric matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.linalg import (
    ShiftedInverse,
    condition,
    downdate,
    gram,
    is_lower_triangular,
    is_symmetric,
    mirror_lower,
    psd_factor,
    solve_both_sides,
    solve_lower,
    spectral_norm,
)


def wishart(rng, n, rank):
    A = rng.normal(size=(n, rank))
    return A @ A.T


@pytest.mark.parametrize("n", [1, 2, 17, 300])
def test_the_factor_of_a_regular_matrix_is_lower_triangular(rng, n):
    K = wishart(rng, n, n) + np.eye(n)
    G, pivots = psd_factor(K)
    assert pivots is None
    assert is_lower_triangular(G)
    assert_allclose(G @ G.T, K, rtol=0, atol=1e-13 * np.trace(K))


@pytest.mark.parametrize(("n", "rank"), [(2, 1), (20, 3), (300, 40)])
def test_the_factor_of_a_singular_matrix_has_its_rank(rng, n, rank):
    K = wishart(rng, n, rank)
    G, pivots = psd_factor(K)
    assert G.shape == (n, rank)
    assert is_lower_triangular(G[pivots])
    assert_allclose(G @ G.T, K, rtol=0, atol=1e-12 * np.trace(K))


def test_duplicate_rows_are_factored_once(rng):
    K = wishart(rng, 30, 30) + np.eye(30)
    twice = np.r_[np.arange(30), np.arange(10)]
    G, pivots = psd_factor(K[np.ix_(twice, twice)])
    assert len(pivots) == 30
    assert_allclose(G @ G.T, K[np.ix_(twice, twice)], rtol=0, atol=1e-12 * np.trace(K))


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e100])
def test_the_rank_does_not_depend_on_the_unit(rng, scale):
    G, _ = psd_factor(scale * wishart(rng, 40, 7))
    assert G.shape == (40, 7)


@pytest.mark.parametrize("K", [np.array([[0.0, 1.0], [1.0, 0.0]]), -np.eye(3), np.zeros((3, 3))])
def test_a_matrix_without_positive_diagonal_is_refused(K):
    with pytest.raises(ValueError, match="positive diagonal"):
        psd_factor(K)


def test_an_indefinite_matrix_is_refused(rng):
    K = wishart(rng, 20, 20)
    K -= np.linalg.eigvalsh(K)[10] * np.eye(20)
    with pytest.raises(ValueError, match="positive semi-definite"):
        psd_factor(K)


def test_factoring_leaves_its_argument_alone_unless_told(rng):
    K = wishart(rng, 10, 4)
    K.flags.writeable = False
    psd_factor(K)
    owned = np.asfortranarray(wishart(rng, 10, 10) + np.eye(10))
    G, _ = psd_factor(owned, overwrite=True)
    assert np.shares_memory(G, owned)


@pytest.mark.parametrize("lower", [True, False])
def test_gram_is_the_product_whatever_the_shape_of_its_factor(rng, lower):
    G = rng.normal(size=(300, 300))
    G = np.asfortranarray(np.tril(G) if lower else G)
    before = G.copy()
    C = gram(G)
    assert_allclose(C, G.T @ G, rtol=1e-12, atol=1e-11)
    assert_array_equal(C, C.T)
    assert_array_equal(G, before)


@pytest.mark.parametrize("n", [1, 255, 256, 600])
def test_mirroring_makes_a_matrix_symmetric(rng, n):
    A = rng.normal(size=(n, n))
    lower = np.tril(A)
    assert_array_equal(mirror_lower(A), lower + np.tril(A, -1).T)


@pytest.mark.parametrize("width", [0, 3])
def test_a_downdated_matrix_is_exactly_symmetric(rng, width):
    K, F = wishart(rng, 50, 50), rng.normal(size=(50, width))
    K.flags.writeable = F.flags.writeable = False
    found = downdate(K, F)
    assert_allclose(found, K - F @ F.T, rtol=1e-12, atol=1e-11)
    assert_array_equal(found, found.T)


@pytest.mark.parametrize("columns", [(), (1,), (3,)])
def test_the_shifted_inverse_solves(rng, columns):
    C, B = wishart(rng, 40, 10), rng.normal(size=(40, *columns))
    found = ShiftedInverse.from_matrix(C, 0.1) @ B
    assert_allclose((C + 0.1 * np.eye(40)) @ found, B, atol=1e-11)


def test_a_ridge_lost_in_rounding_is_refused(rng):
    C = wishart(rng, 40, 10)
    with pytest.raises(ValueError, match=r"alpha must be larger than.*got 1e-20"):
        ShiftedInverse.from_matrix(C - 1e-10 * np.eye(40), 1e-20, name="alpha")


@pytest.mark.parametrize(("noise", "expected"), [(0.0, True), (1e-14, True), (1e-6, False)])
def test_symmetry_is_judged_to_rounding(rng, noise, expected):
    K = wishart(rng, 300, 300)
    assert is_symmetric(K + noise * np.abs(K).max() * rng.normal(size=K.shape)) is expected


def test_a_matrix_that_is_not_square_is_not_symmetric(rng):
    assert not is_symmetric(rng.normal(size=(3, 4)))


def lower(rng, n):
    return np.linalg.cholesky(wishart(rng, n, n + 5) + np.eye(n))


@pytest.mark.parametrize("n", [1, 2, 17, 127, 128, 129, 300])
def test_solving_on_both_sides_is_the_inverse_congruence(rng, n):
    L, C = lower(rng, n), wishart(rng, n, n)
    found = solve_both_sides(L, C)
    assert_array_equal(found, found.T)
    assert_allclose(L @ found @ L.T, C, atol=1e-9 * np.abs(C).max())
    assert_allclose(solve_both_sides(L, L @ L.T), np.eye(n), atol=1e-9)
    assert_allclose(L @ solve_lower(L, C), C, atol=1e-9 * np.abs(C).max())


@pytest.mark.parametrize("n", [1, 2, 50, 300])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_spectral_norm_is_the_largest_eigenvalue_by_size(rng, n, sign):
    A = sign * wishart(rng, n, n)
    expected = np.linalg.norm(A, 2)
    assert expected * 0.9 < spectral_norm(A.__matmul__, n) <= expected * (1 + 1e-12)


def test_the_spectral_norm_of_opposite_eigenvalues(rng):
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    A = (Q * np.append([5.0, -5.0], np.linspace(-1, 1, 58))) @ Q.T
    assert spectral_norm(A.__matmul__, 60) == pytest.approx(5.0, rel=1e-6)


def test_the_spectral_norm_of_nothing_is_zero():
    assert spectral_norm(np.zeros((9, 9)).__matmul__, 9) == 0.0


@pytest.mark.parametrize("n", [1, 30, 300])
def test_the_condition_number_is_that_of_the_product(rng, n):
    L = lower(rng, n)
    assert condition(L) == pytest.approx(np.linalg.cond(L @ L.T), rel=0.15)
