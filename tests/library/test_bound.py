"""A bound on a measure: the smallest strength that satisfies it on held-out rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd import FairGaussianProcess, FairKernelRidge, FairSVC, FairSVR
from fkd.estimators import held_out
from fkd.measures import gdp, hgr, pairwise_fairness

pytestmark = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
REGRESSORS = [FairKernelRidge, FairSVR, FairGaussianProcess]
KINDS = [{"removal": "path", "iterations": 12}, {"removal": "shrinkage"}]


@pytest.fixture
def people(rng):
    X = rng.normal(size=(300, 4))
    s = X[:, 0] + 0.5 * rng.normal(size=300)
    y = 40 + 3 * X[:, 0] + 3 * X[:, 1] + rng.normal(size=300)
    return X, y, s


def by_hand(estimator, X, y, s, strength):
    """Predictions of every row by a plain fit without it at one strength."""
    name = "penalty" if estimator.removal == "shrinkage" else "iterations"
    plain = type(estimator)(**{**estimator.get_params(), "unfairness": None, "held_out": 0})
    f = np.empty(len(y))
    for train, test in held_out.inner_folds(len(y)):
        share = len(train) / len(y)
        # What counts per row is that of all rows.
        scaled = {"C": plain.C / share} if hasattr(plain, "C") else {"alpha": plain.alpha * share}
        model = type(estimator)(**{**plain.get_params(), **scaled, name: strength})
        f[test] = model.fit(X[train], y[train], sensitive_features=s[train]).predict(X[test])
    return f


@pytest.mark.parametrize("kind", KINDS, ids=["path", "shrinkage"])
@pytest.mark.parametrize("machine", REGRESSORS)
def test_the_least_strength_that_keeps_the_bound_is_taken(people, machine, kind):
    X, y, s = people
    free = machine(gamma=0.05, unfairness={"gdp": 10.0}, **kind).fit(X, y, sensitive_features=s)
    assert free.strength_ == 0
    limit = 0.5 * free.unfairness_.values["gdp"].estimate
    model = machine(gamma=0.05, unfairness={"gdp": limit}, **kind)
    model.fit(X, y, sensitive_features=s)
    kept = model.unfairness_
    assert model.strength_ == kept.strength > 0
    weaker = [found["gdp"] for strength, found in kept.tried.items() if strength < kept.strength]
    assert min(weaker) > limit >= kept.tried[kept.strength]["gdp"]
    assert kept.values["gdp"].low <= kept.values["gdp"].estimate <= kept.values["gdp"].high
    # What is fitted in the end is the model of that strength.
    name = "penalty" if model.removal == "shrinkage" else "iterations"
    named = model.get_params() | {"unfairness": None, name: kept.strength}
    plain = machine(**named).fit(X, y, sensitive_features=s)
    assert_array_equal(plain.predict(X), model.predict(X))


@pytest.mark.parametrize("machine", [FairKernelRidge, FairSVR])
def test_its_values_are_those_of_rows_that_took_no_part(people, machine):
    X, y, s = people
    setting = {"gamma": 0.05, "removal": "shrinkage"}
    bounds = {"gdp": 0.02, "hgr": 0.6, "pf": 0.5}
    model = machine(unfairness=bounds, **setting).fit(X, y, sensitive_features=s)
    f = by_hand(model, X, y, s, model.strength_)
    values = model.unfairness_.values
    # GDP counts in units of the target's range.
    assert_allclose(values["gdp"].estimate, gdp(f, s, margins="range") / np.ptp(y), rtol=2e-2)
    assert_allclose(values["hgr"].estimate, hgr(f, s), rtol=2e-2)
    assert_allclose(values["pf"].estimate, pairwise_fairness(y, f, s), atol=2e-2)
    seen = gdp(model.predict(X), s, margins="range") / np.ptp(y)
    assert abs(seen - values["gdp"].estimate) > 1e-6  # not of the rows it was fitted to


def test_a_classifier_keeps_it_by_its_decisions(people):
    X, y, s = people
    free = FairSVC(gamma=0.05, unfairness={"hgr": 1.0}).fit(X, y > 40, sensitive_features=s)
    limit = 0.7 * free.unfairness_.values["hgr"].estimate
    model = FairSVC(gamma=0.05, removal="shrinkage", unfairness={"hgr": limit})
    model.fit(X, y > 40, sensitive_features=s)
    assert model.strength_ > 0
    assert model.unfairness_.values["hgr"].estimate <= limit


def test_of_several_columns_the_worst_counts(people, rng):
    X, y, s = people
    S = np.column_stack([rng.normal(size=len(s)), s])
    one = FairKernelRidge(gamma=0.05, unfairness={"gdp": 0.02}, iterations=12)
    both = one.fit(X, y, sensitive_features=S).unfairness_
    f = by_hand(one, X, y, S, both.strength)
    worst = gdp(f, S, margins="range").max() / np.ptp(y)
    assert_allclose(both.values["gdp"].estimate, worst, rtol=2e-2)


def test_the_unit_of_the_target_changes_nothing(people):
    X, y, s = people
    setting = {"gamma": 0.05, "removal": "shrinkage", "unfairness": {"gdp": 0.02}}
    plain = FairKernelRidge(**setting).fit(X, y, sensitive_features=s)
    other = FairKernelRidge(**setting).fit(X, 1000 * y, sensitive_features=s)
    assert plain.strength_ == other.strength_ > 0


def test_the_longest_path_tried_is_the_one_asked_for():
    assert held_out.strengths_to_try(6) == [0, 1, 2, 3, 4, 5, 6]
    assert held_out.strengths_to_try(200)[-1] == 200
    assert held_out.strengths_to_try(0) == [0]
    prices = held_out.strengths_to_try(None)
    assert prices == sorted(prices)
    assert prices[0] == 0


def test_without_a_bound_the_strength_is_the_users(people):
    X, y, s = people
    model = FairSVR(gamma=0.05, iterations=3).fit(X, y, sensitive_features=s)
    assert model.strength_ == 3
    assert model.unfairness_ is None


@pytest.mark.parametrize(
    ("unfairness", "says"),
    [
        ({"gdp": 1e-9}, r"unfairness of gdp must be at least 0\.\d+.*got 1e-09"),
        ({"gpd": 0.1}, "unfairness must name .*gpd"),
        ({"gdp": -0.1}, "unfairness of gdp must not be negative, got -0.1"),
        ({"gdp": np.nan}, "unfairness of gdp must be a finite number"),
        ({}, "must map a measure to its bound"),
        (0.1, "must map a measure to its bound"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_told_with_the_cure(people, unfairness, says):
    X, y, s = people
    model = FairKernelRidge(gamma=0.05, iterations=5, unfairness=unfairness)
    with pytest.raises(ValueError, match=says):
        model.fit(X, y, sensitive_features=s)


def test_bounds_that_only_different_strengths_keep_are_told_apart():
    tried = {0.0: {"gdp": 0.3, "pf": 0.0}, 1.0: {"gdp": 0.1, "pf": 0.4}}
    says = held_out._unreachable_message({"gdp": 0.2, "pf": 0.1}, tried)
    assert "no strength satisfies all" in says


def test_few_rows_choose_nothing(rng):
    X = rng.normal(size=(40, 2))
    model = FairKernelRidge(unfairness={"gdp": 0.1})
    with pytest.raises(ValueError, match=r"at least 50 training rows.*got 40"):
        model.fit(X, X[:, 1], sensitive_features=X[:, 0])
