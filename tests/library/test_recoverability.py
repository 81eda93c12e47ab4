"""Recoverability: high if features still contain the attribute, about zero if not."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fkd import FairKernelDecomposition
from fkd.measures import recoverability
from fkd.measures.recoverability import MAX_TREE_COLUMNS


@pytest.fixture
def S(rng):
    return rng.normal(loc=[5.0, -3.0], scale=[1.0, 2.0], size=(600, 2))


@pytest.fixture
def X(rng, S):
    """Gaussian inputs in which both attributes hide, so that no correlation is independence."""
    return (S - [5.0, -3.0]) @ rng.normal(size=(2, 8)) + 0.5 * rng.normal(size=(600, 8))


def without_covariance(X, S):
    """The inputs projected away from all that correlates with the attributes."""
    W = np.linalg.qr((X - X.mean(axis=0)).T @ (S - S.mean(axis=0)))[0]
    return X - (X @ W) @ W.T


def test_removed_attributes_cannot_be_predicted_by_any_model(X, S):
    found = recoverability(without_covariance(X, S), S, before=X)
    assert [recovery.model for recovery in found] == ["boosted trees", "rbf ridge"]
    assert all((recovery.before > 0.6).all() for recovery in found)
    assert all((np.abs(recovery.after) < 0.15).all() for recovery in found)


def test_original_features_predict_the_attribute(X, S):
    found = recoverability(X, S)
    assert all((recovery.after > 0.6).all() for recovery in found)
    assert all(recovery.before is None for recovery in found)


def test_nonlinear_dependence_is_found(rng):
    s = rng.normal(size=800)
    # A Hermite polynomial: uncorrelated with s, though far from independent of it.
    features = np.column_stack([s**3 - 3 * s, rng.normal(size=800)])
    assert abs(np.corrcoef(features[:, 0], s)[0, 1]) < 0.15
    assert all(recovery.after > 0.25 for recovery in recoverability(features, s))


def test_fair_features_of_the_decomposition_predict_less(rng):
    S = rng.uniform(size=(500, 2)) * [1.0, 3.0]
    X = np.column_stack([S[:, 0] ** 2, np.cos(S[:, 1]), *rng.normal(size=(4, 500))])
    X[:, :2] += 0.1 * rng.normal(size=(500, 2))
    fair = FairKernelDecomposition(
        gamma=0.5, ridge=0.05, iterations=100, center_sensitive=True
    ).fit(X, sensitive_features=S)
    found = recoverability(fair.features(X), S, before=fair.at(0).features(X))
    assert all((recovery.before > 0.4).all() for recovery in found)
    assert all((recovery.after < recovery.before / 2).all() for recovery in found)


def test_one_column_gives_reproducible_floats(X, S):
    found, again = (recoverability(X, S[:, 0], before=X, random_state=3) for _ in range(2))
    assert found == again
    assert type(found[0].after) is float
    assert found[0].before == found[0].after


def test_frames_lists_and_read_only_arrays_are_accepted(X, S):
    X.flags.writeable = S.flags.writeable = False
    expected = [recovery.after for recovery in recoverability(X, S)]
    found = recoverability(pd.DataFrame(X), pd.DataFrame(S))
    assert_allclose([recovery.after for recovery in found], expected, rtol=0, atol=0)


def test_max_rows_limits_the_rows(X, S):
    few = recoverability(X, S, max_rows=100)
    assert not np.allclose(few[1].after, recoverability(X, S)[1].after)


def test_wide_features_are_reduced_to_their_principal_axes(rng, X, S):
    wide = X @ np.linalg.qr(rng.normal(size=(MAX_TREE_COLUMNS + 40, 8)))[0].T
    assert (recoverability(wide, S)[0].after > 0.6).all()


def test_constant_features_predict_nothing(S):
    found = recoverability(np.ones((600, 3)), S)
    assert all((np.abs(recovery.after) < 0.05).all() for recovery in found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": np.ones((10, 2)), "sensitive_features": np.arange(10)}, "20 rows"),
        ({"features": np.ones(50)}, "^features must"),
        ({"features": np.full((50, 2), np.nan)}, "^features must be finite"),
        ({"before": np.ones((49, 2))}, "^before must"),
        ({"sensitive_features": np.arange(49.0)}, "^sensitive_features must"),
        ({"sensitive_features": np.ones(50)}, "^sensitive_features must .*column 0"),
    ],
)
def test_invalid_arguments_are_refused_by_name(rng, change, words):
    arguments = {"features": rng.normal(size=(50, 2)), "sensitive_features": np.arange(50.0)}
    with pytest.raises(ValueError, match=words):
        recoverability(**(arguments | change))
