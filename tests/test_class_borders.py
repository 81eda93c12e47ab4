"""Borders of fair features against those of the fair kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from fkd import FairSVC
from fkd.core.feature_maps import make_map
from fkd.core.removal import FairFeatures, RemovalPath
from fkd.estimators.svc import FeatureBorders

SETTING = {"gamma": 0.2, "C": 2.0, "iterations": 2, "held_out": 0}


def sample(rng, classes, n=240):
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 2] + 0.3 * rng.normal(size=n), np.linspace(-1, 1, classes - 1))
    return X, y, X[:, 0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_borders_of_features_are_those_of_scikit_learn(rng, classes):
    X, y, _ = sample(rng, classes)
    feature_map = make_map(X, gamma=0.2, approximation="nystroem", landmarks=60, random_state=0)
    nothing = RemovalPath.nothing(feature_map.rank)
    plain = FairFeatures(feature_map, nothing.at(0))
    G = plain.training_features(X)
    rows = X, y.astype(float), None
    borders = FeatureBorders.fit(plain, nothing, *rows, C=2.0, tol=1e-3, max_iter=-1)
    oracle = SVC(C=2.0, kernel="linear").fit(G, y)
    assert_allclose(borders.decisions(X), oracle.decision_function(G), atol=1e-9)
    assert_array_equal(borders.classes(X), oracle.predict(G))
    assert borders.n_iter > 0


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_with_every_row_a_landmark_both_forms_agree(rng, classes):
    X, y, s = sample(rng, classes, n=120)
    setting = {**SETTING, "tol": 1e-8}
    exact = FairSVC(**setting).fit(X, y, sensitive_features=s)
    reduced = FairSVC(approximation="nystroem", landmarks=120, random_state=0, **setting).fit(
        X, y, sensitive_features=s
    )
    new = rng.normal(size=(30, 4))
    assert_allclose(reduced.decision_function(new), exact.decision_function(new), atol=1e-4)
    assert_array_equal(reduced.predict(new), exact.predict(new))
