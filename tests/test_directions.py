import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.removal import Directions


@pytest.fixture
def removed(rng):
    V = np.linalg.qr(rng.normal(size=(140, 5)))[0]
    kept = np.array([0.0, 1e-20, 0.2, 0.9, 1.0])
    return Directions(V, 1.0 - kept, kept)


def dense(removed):
    return np.eye(len(removed.V)) - removed.V @ np.diag(removed.shares) @ removed.V.T


def test_inner_products_of_the_features_are_the_fair_kernel(rng, removed):
    G = rng.normal(size=(300, 140))
    left = removed.features(G)
    assert_allclose(left @ left.T, G @ dense(removed) @ G.T, atol=1e-10)
    F = removed.subtracted(G @ removed.V)
    assert_allclose(left @ left.T, G @ G.T - F @ F.T, atol=1e-10)


def test_weights_give_functions_of_the_fair_space(rng, removed):
    G, beta = rng.normal(size=(300, 140)), rng.normal(size=140)
    assert_allclose(G @ removed.weights(beta), G @ dense(removed) @ beta, atol=1e-10)


def test_only_what_is_wholly_taken_is_gone(removed):
    assert removed.width == 5
    assert_array_equal(removed.gone, removed.V[:, :1])


def test_whole_directions_are_projected_out(rng, removed):
    G, whole = rng.normal(size=(20, 140)), Directions.whole(removed.V)
    assert_allclose(whole.features(G) @ removed.V, 0, atol=1e-13)
    assert np.abs(G @ removed.V).max() > 1  # was there before
    assert_array_equal(whole.gone, removed.V)


def test_no_directions_change_no_bit(rng):
    G, nothing = rng.normal(size=(20, 7)), Directions.whole(np.empty((7, 0)))
    assert_array_equal(nothing.features(G), G)
    assert_array_equal(nothing.weights(G[0]), G[0])
    assert nothing.subtracted(G @ nothing.V).shape == (20, 0)
