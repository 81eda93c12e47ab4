import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import covariances

from fkd.core.moments import BasisMoments
from fkd.core.removal import shrinkage

MUS = [0.0, 1e-3, 0.1, 1.0, 30.0, 1e6, np.inf]


def sample(rng, n=300, r=140, p=6):
    """Features of which some covary with functions, none of which has mean zero."""
    B = rng.normal(size=(n, p)) + 3.0
    G = rng.normal(size=(n, r)) + 1.0
    G[:, :3] += B[:, :3] - 2 * B[:, [0]]
    return G, B


def found(G, B):
    return shrinkage(BasisMoments.from_rows(G, B))


@pytest.mark.parametrize(("r", "p"), [(140, 6), (3, 10), (1, 1)])
@pytest.mark.parametrize("mu", MUS[:-1])
def test_features_are_those_of_the_priced_regulariser(rng, r, p, mu):
    G, B = sample(rng, r=max(r, 3), p=max(p, 3))
    G, B = G[:, :r], B[:, :p]
    T = covariances(G, B)
    left = found(G, B).at(mu).features(G)
    K = G @ np.linalg.solve(np.eye(r) + mu * (T @ T.T), G.T)
    assert_allclose(left @ left.T, K, atol=1e-9 * np.abs(G @ G.T).max())


@pytest.mark.parametrize(("r", "p"), [(140, 6), (20, 6), (3, 10)])
def test_at_an_infinite_price_nothing_covaries(rng, r, p):
    G, B = sample(rng, r=r, p=p)
    assert_allclose(covariances(found(G, B).at(np.inf).features(G), B), 0, atol=1e-12)
    assert np.abs(covariances(G, B)).max() > 0.5  # was there before


def test_no_price_changes_no_bit(rng):
    G, B = sample(rng)
    plain = found(G, B).at(0)
    assert_array_equal(plain.features(G), G)
    assert_array_equal(plain.weights(G[0]), G[0])
    assert not plain.subtracted(G @ plain.V).any()


def test_every_covariance_falls_with_the_price(rng):
    G, B = sample(rng)
    shrunk = found(G, B)
    left = [(covariances(shrunk.at(mu).features(G), B) ** 2).sum(axis=None) for mu in MUS]
    assert (np.diff(left) < 0).all()
    for mu in MUS:
        removed = shrunk.at(mu)
        assert_allclose(removed.shares + removed.kept, 1, rtol=1e-14)


def test_a_price_beyond_float64_takes_all(rng):
    G, B = sample(rng)
    most = found(1e3 * G, B).at(1e308)
    assert_array_equal(most.shares, 1)
    assert_allclose(covariances(most.features(G), B), 0, atol=1e-12)


def test_a_zero_basis_has_no_directions(rng):
    G, B = sample(rng)
    nothing = found(G, np.zeros_like(B))
    assert nothing.V.shape == (140, 0)
    assert_array_equal(nothing.at(np.inf).features(G), G)
    assert found(G, np.full_like(B, 0.1)).at(np.inf).width == 0  # constants, up to rounding
    assert found(np.full_like(G, 0.1), B).at(np.inf).width == 0
    assert found(G, B).at(np.inf).width == 6  # what covaries has


def test_rounding_is_not_projected_out(rng):
    G, B = sample(rng, r=20)
    A = np.column_stack([np.ones(len(G)), G])
    independent = B - A @ np.linalg.lstsq(A, B, rcond=None)[0]
    left = found(G, independent)
    assert left.V.shape[1] == 0
    # One function that covaries beside them is still found, alone.
    one = found(G, np.column_stack([independent, G[:, 0]])).at(np.inf)
    assert one.width == 1
    assert found(G, B).V.shape[1] == 6  # the check bites


@pytest.mark.parametrize("scale", [1e-9, 1e7])
def test_the_cut_is_relative(rng, scale):
    G, B = sample(rng)
    V = found(G, B).V
    assert_allclose(np.abs((found(scale * G, B).V * V).sum(axis=0)), 1)
    assert_allclose(np.abs((found(G, scale * B).V * V).sum(axis=0)), 1)


def test_a_weak_direction_beside_a_strong_one_is_found(rng):
    G, B = sample(rng, r=10, p=1)
    weak = rng.normal(size=300)
    B = np.column_stack([B, 1e-9 * weak])
    left = found(G, B).at(np.inf)
    assert left.width == 2  # of the square of T the second would be lost in rounding
    assert_allclose(covariances(left.features(G), weak[:, None]), 0, atol=1e-6)
    assert np.abs(covariances(G, weak[:, None])).max() > 1e-2


def test_collinear_functions_are_one_direction_each(rng):
    G, B = sample(rng, p=3)
    once, twice = found(G, B), found(G, np.hstack([B, B + 5.0]))
    assert twice.V.shape[1] == once.V.shape[1] == 3
    assert_allclose(twice.t, 2 * once.t)
    mixed = found(G, np.hstack([B, B @ rng.normal(size=(3, 4))])).at(np.inf)
    assert_allclose(mixed.features(G), once.at(np.inf).features(G), atol=1e-10)


def test_repeated_rows_change_nothing(rng):
    G, B = sample(rng)
    once, twice = found(G, B), found(np.vstack([G, G]), np.vstack([B, B]))
    assert_allclose(twice.t, once.t)
    assert_allclose(twice.at(0.3).features(G), once.at(0.3).features(G), atol=1e-11)


@pytest.mark.parametrize("mu", [-1.0, float("nan"), -np.inf])
def test_a_price_is_not_negative(rng, mu):
    with pytest.raises(ValueError, match="mu must not be negative, got"):
        found(*sample(rng)).at(mu)
