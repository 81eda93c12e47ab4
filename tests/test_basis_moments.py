from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose
from shrinkage_sample import covariances

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.feature_maps import make_map
from fkd.core.moments import BasisMoments, basis_moments
from fkd.core.sensitive_basis import SplineBasis


def sample(rng, n=300, r=20, p=4, k=3):
    Z = rng.normal(size=(n, k)) - 2.0
    B = rng.normal(size=(n, p)) + 6.0 + Z[:, :1]
    G = rng.normal(size=(n, r)) + 1.0 + B[:, :1] + Z[:, :1]
    return G, B, Z


def residual(B, Z):
    A = np.column_stack([np.ones(len(Z)), Z])
    return B - A @ np.linalg.lstsq(A, B, rcond=None)[0]


def test_the_covariance_is_that_of_centred_columns(rng):
    G, B, _ = sample(rng)
    sums = BasisMoments.from_rows(G, B)
    assert_allclose(sums.covariance(), covariances(G, B), atol=1e-12)
    assert_allclose(sums.products(), len(G) * covariances(G, B), atol=1e-9)
    assert_allclose(
        BasisMoments.from_rows(G + 5.0, B - 7.0).covariance(), covariances(G, B), atol=1e-11
    )
    # Without the centring it is another number altogether.
    assert np.abs(G.T @ B / len(G) - covariances(G, B)).max() > 1


def test_what_is_given_is_taken_out_of_the_basis(rng):
    G, B, Z = sample(rng)
    T = BasisMoments.from_rows(G, B, Z).covariance()
    assert_allclose(T, covariances(G, residual(B, Z)), atol=1e-12)
    assert np.abs(T - covariances(G, B)).max() > 0.5


@pytest.mark.parametrize("given", [False, True])
def test_sums_of_parts_are_those_of_the_whole(rng, given):
    G, B, Z = sample(rng)
    whole = BasisMoments.from_rows(G, B, Z if given else None)
    rows = np.array_split(np.arange(len(G)), 7)
    added = reduce(add, [BasisMoments.from_rows(G[i], B[i], Z[i] if given else None) for i in rows])
    assert (added.n, added.p) == (300, 4)
    for name in ("GW", "WW", "g", "w", "gg", "scale"):
        assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-12)
    assert_allclose(added.covariance(), whole.covariance(), atol=1e-12)


def test_given_columns_may_repeat_each_other(rng):
    G, B, Z = sample(rng)
    splines = SplineBasis.from_rows(Z)(Z)  # those of a column add up to one
    repeated = np.hstack([splines, splines[:, :12], np.ones((300, 1))])
    T = BasisMoments.from_rows(G, B, repeated).covariance()
    assert_allclose(T, covariances(G, residual(B, splines)), atol=1e-10)


def test_given_columns_that_say_nothing_change_nothing(rng):
    G, B, _ = sample(rng)
    constant = BasisMoments.from_rows(G, B, np.ones((300, 2)))
    assert_allclose(constant.covariance(), covariances(G, B), atol=1e-12)


def test_given_columns_that_determine_the_basis_are_refused(rng):
    G, B, Z = sample(rng)
    with pytest.raises(ValueError, match="given must leave something"):
        BasisMoments.from_rows(G, B, np.hstack([Z, B @ rng.normal(size=(4, 4)) - 3.0])).covariance()


def test_no_covariance_is_larger_than_the_scale(rng):
    G, B, _ = sample(rng)
    sums = BasisMoments.from_rows(G, B)
    assert np.linalg.norm(sums.covariance(), 2) <= sums.scale
    same = BasisMoments.from_rows(
        B[:, :1] - B[:, :1].mean(axis=0), B[:, :1] - B[:, :1].mean(axis=0)
    )
    assert np.linalg.norm(same.covariance(), 2) == pytest.approx(same.scale)  # nor smaller


@pytest.mark.parametrize("approximation", ["nystroem", "exact"])
def test_blocks_of_rows_meet_their_own_functions(rng, approximation):
    n = 300 if approximation == "exact" else BLOCK_ROWS + 300
    X = rng.normal(size=(n, 2))
    B, Z = np.column_stack([X[:, 0] ** 2, X[:, 1]]), X[:, :1] + rng.normal(size=(n, 1))
    feature_map = make_map(X, gamma=0.3, approximation=approximation, landmarks=12, random_state=0)
    T = basis_moments(feature_map, X, B, Z).covariance()
    expected = covariances(feature_map.transform(X), residual(B, Z))
    assert_allclose(T, expected, atol=1e-6 if approximation == "exact" else 1e-11)
    assert np.abs(expected).max() > 0.01
