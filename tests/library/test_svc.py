"""Support vector classification on the fair kernel, in kernels and in features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from fkd import FairSVC
from fkd.core.feature_maps import make_map
from fkd.core.removal import FairFeatures, RemovalPath
from fkd.estimators.svc import FeatureBorders


def sample(rng, n=200):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0]
    return X, np.where(X[:, 0] + X[:, 1] + X[:, 2] > 0, "yes", "no"), S


def leaning(prediction, y, S):
    """Return the largest covariance with a sensitive column, in units of both deviations."""
    covariance = (prediction - prediction.mean()) @ (S - S.mean(axis=0)) / len(S)
    return np.abs(covariance / (y.std() * S.std(axis=0))).max()


def test_without_removal_it_is_a_plain_classifier(rng):
    X, y, S = sample(rng)
    oracle = SVC(gamma=0.2, C=2.0).fit(X, y)
    model = FairSVC(gamma=0.2, C=2.0, iterations=0).fit(X, y, sensitive_features=S)
    assert_array_equal(model.predict(X), oracle.predict(X))
    assert_allclose(model.decision_function(X), oracle.decision_function(X), atol=1e-6)
    assert model.classes_.tolist() == ["no", "yes"]


def test_decisions_lean_on_the_sensitive_columns_before_but_not_after(rng):
    X, y, S = sample(rng)
    before, after = (
        FairSVC(gamma=0.01, C=10.0, iterations=m, center_sensitive=True)
        .fit(X, y, sensitive_features=S)
        .decision_function(X)
        for m in (0, 3)
    )
    assert leaning(before, before, S) > 0.5
    assert leaning(after, before, S) < 0.1


def test_more_than_two_classes_are_told_apart(rng):
    X, _, S = sample(rng)
    y = np.digitize(X[:, 2], [-0.5, 0.5])
    model = FairSVC(gamma=0.1, C=10.0, iterations=2).fit(X, y, sensitive_features=S)
    assert model.score(X, y) > 0.8
    assert model.decision_function(X).shape == (200, 3)


def test_a_bad_penalty_is_refused_by_name(rng):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match="C must be a finite number above 0"):
        FairSVC(C=-1).fit(X, y, sensitive_features=S)


SETTING = {"gamma": 0.2, "C": 2.0, "iterations": 2, "held_out": 0}


def several_classes(rng, classes, n=240):
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 2] + 0.3 * rng.normal(size=n), np.linspace(-1, 1, classes - 1))
    return X, y, X[:, 0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_borders_of_features_are_those_of_scikit_learn(rng, classes):
    X, y, _ = several_classes(rng, classes)
    feature_map = make_map(X, gamma=0.2, approximation="nystroem", landmarks=60, random_state=0)
    nothing = RemovalPath.nothing(feature_map.rank)
    plain = FairFeatures(feature_map, nothing.at(0))
    G = plain.training_features(X)
    oracle = SVC(C=2.0, kernel="linear").fit(G, y)
    borders = FeatureBorders.from_libsvm(plain, nothing, oracle)
    assert_allclose(borders.decisions(X), oracle.decision_function(G), atol=1e-9)
    assert_array_equal(borders.classes(X), oracle.predict(G))
    assert borders.n_iter > 0


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_with_every_row_a_landmark_both_forms_agree(rng, classes):
    X, y, s = several_classes(rng, classes, n=120)
    setting = {**SETTING, "tol": 1e-8}
    exact = FairSVC(**setting).fit(X, y, sensitive_features=s)
    reduced = FairSVC(approximation="nystroem", landmarks=120, random_state=0, **setting).fit(
        X, y, sensitive_features=s
    )
    new = rng.normal(size=(30, 4))
    assert_allclose(reduced.decision_function(new), exact.decision_function(new), atol=1e-4)
    assert_array_equal(reduced.predict(new), exact.predict(new))
