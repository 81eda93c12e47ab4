"""Scorers: declared measures in scikit-learn's searches, by metadata routing."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fkd import FairnessWarning, FairSVC
from fkd.measures import MEASURES, gdp, scorer

every_name = pytest.mark.parametrize("name", [*MEASURES, "pairwise_fairness"])


@pytest.fixture
def S(rng):
    return rng.uniform(size=(120, 2)) * [1.0, 0.4]


@pytest.fixture
def X(rng, S):
    return np.column_stack([S[:, 0] + 0.1 * rng.normal(size=120), rng.normal(size=120)])


@pytest.fixture
def y(rng, X):
    return X @ [2.0, 1.0] + 0.1 * rng.normal(size=120)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@every_name
def test_search_selects_the_fairer_of_two_models(routing, name, X, y, S):
    pipeline = Pipeline([("scale", StandardScaler()), ("model", Ridge())])
    search = GridSearchCV(
        pipeline, {"model": [Ridge(), DummyRegressor()]}, scoring=scorer(name), cv=3
    )
    search.fit(X, y, sensitive_features=S)
    assert isinstance(search.best_params_["model"], DummyRegressor)
    assert search.best_score_ == 0.0
    assert (search.cv_results_["mean_test_score"][0] < 0).all()


@every_name
@pytest.mark.parametrize("weights", [False, True])
def test_score_is_minus_the_measure_of_the_worst_column_of_the_test_rows(
    routing, rng, name, weights, X, y, S
):
    folds, w = KFold(3), rng.uniform(0.5, 2, size=120)
    params = {"sensitive_features": S} | ({"sample_weight": w} if weights else {})
    model = Ridge().set_fit_request(sample_weight=False)
    found = cross_validate(model, X, y, scoring=scorer(name), cv=folds, params=params)
    measure, expected = MEASURES["pf" if name == "pairwise_fairness" else name], []
    for train, test in folds.split(X):
        f = Ridge().fit(X[train], y[train]).predict(X[test])
        options = {"sample_weight": w[test]} if weights else {}
        expected.append(-max(measure(*measure.columns(y[test], f, S[test]), **options)))
    assert_allclose(found["test_score"], expected, rtol=1e-12)


def test_options_are_passed_to_the_measure(routing, X, y, S):
    model = Ridge().fit(X, y)
    plugin = scorer("gdp", estimator="plugin")
    value = plugin(model, X, y, sensitive_features=S)
    assert_allclose(value, -max(gdp(model.predict(X), S, estimator="plugin")))


def test_several_scorers_in_one_search(routing, X, y, S):
    scoring = {"fairness": scorer("gdp"), "error": "neg_mean_absolute_error"}
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1e6]}, scoring=scoring, refit="fairness", cv=3)
    search.fit(X, y, sensitive_features=S)
    assert search.best_params_ == {"alpha": 1e6}
    assert search.cv_results_["mean_test_error"][0] > search.cv_results_["mean_test_error"][1]


@every_name
def test_scorer_can_be_pickled(routing, name, X, y, S):
    model = Ridge().fit(X, y)
    copy = pickle.loads(pickle.dumps(scorer(name)))
    value = scorer(name)(model, X, y, sensitive_features=S)
    assert copy(model, X, y, sensitive_features=S) == value < 0


def test_making_a_scorer_does_not_change_the_global_configuration():
    scorer("hgr")
    assert not get_config()["enable_metadata_routing"]


def test_missing_attribute_is_refused_with_the_remedy(X, y):
    model = Ridge().fit(X, y)
    with pytest.raises(TypeError, match=r"sensitive_features .*enable_metadata_routing"):
        scorer("hgr")(model, X, y)


def test_unknown_measure_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^measure must .*hgr.*'hrg'"):
        scorer("hrg")


@every_name
def test_classes_may_be_strings(routing, name, rng, X, S):
    y = np.where(X[:, 0] > np.median(X[:, 0]), "yes", "no")
    numbers = np.where(y == "yes", 1, 0)
    words, codes = (LogisticRegression().fit(X, target) for target in (y, numbers))
    found = scorer(name)(words, X, y, sensitive_features=S)
    assert found == scorer(name)(codes, X, numbers, sensitive_features=S) < 0
    flipped = np.where(y == "yes", "a", "b")  # the other class comes first
    other = LogisticRegression().fit(X, flipped)
    assert_allclose(scorer(name)(other, X, flipped, sensitive_features=S), found, rtol=1e-9)


@every_name
def test_worst_of_more_than_two_classes_counts(routing, name, X, S):
    y = np.array(["high", "low", "middle"])[np.digitize(X[:, 0], [0.3, 0.7])]
    model = LogisticRegression(C=100.0).fit(X, y)
    found = scorer(name)(model, X, y, sensitive_features=S)
    each = [
        scorer(name)(FixedPredictions(model.predict(X) == word), X, y == word, sensitive_features=S)
        for word in model.classes_
    ]
    assert found == min(each) < max(each)


class FixedPredictions(BaseEstimator):
    """A model with fixed predictions."""

    def __init__(self, answers):
        self.answers = answers

    def predict(self, X):
        return self.answers.astype(float)


def test_search_over_a_fair_classifier(routing, X, S):
    y = np.where(X[:, 0] + X[:, 1] > 0.5, "yes", "no")
    search = GridSearchCV(
        FairSVC(gamma=0.3, C=10.0, held_out=0), {"iterations": [0, 4]}, scoring=scorer("gdp"), cv=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        search.fit(X, y, sensitive_features=S)
    assert search.best_params_ == {"iterations": 4}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
