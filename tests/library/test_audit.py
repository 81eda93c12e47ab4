"""Audit of predictions: numbers are those of the measures, with intervals, groups and pairs."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import HistGradientBoostingRegressor

import fkd
from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import gdp, hgr, pairwise_fairness


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    S = pd.DataFrame({"age": rng.uniform(18, 80, n), "income": rng.gamma(2.0, 1000.0, n)})
    y = S["age"].to_numpy() + rng.normal(scale=5, size=n)
    plain = S["age"].to_numpy() + rng.normal(scale=2, size=n)
    return y, 0.3 * plain + rng.normal(scale=3, size=n) + 35, plain, S


@pytest.fixture(scope="module")
def found():
    y, fair, plain, S = rows()
    job = np.where(S["income"] < 2000, "low", "high")
    return fkd.audit(y, fair, S, other=plain, control_features=job, replicates=60)


def test_numbers_are_those_of_the_measures(found):
    y, fair, plain, S = rows()
    age = S["age"].to_numpy()
    (first, second) = found.columns
    assert (first.name, second.name) == ("age", "income")
    assert_allclose(found.mae.estimate, np.abs(fair - y).mean())
    assert_allclose(found.error.estimate, (fair - y).mean())
    assert_allclose(found.other_mae.estimate, np.abs(plain - y).mean())
    assert_allclose(first.scores["hgr"].estimate, hgr(fair, age, margins="standard"))
    assert_allclose(first.scores["gdp"].estimate, gdp(fair, age))
    assert_allclose(first.scores["pf"].estimate, pairwise_fairness(y, fair, age))
    difference = gdp(fair, age) - gdp(plain, age)
    assert_allclose(first.changes["gdp"].estimate, difference)
    assert first.changes["gdp"].high < 0
    assert_allclose(first.other_scores["gdp"].estimate, gdp(plain, age))
    assert_allclose(found.mae_change.estimate, np.abs(fair - y).mean() - np.abs(plain - y).mean())


def test_intervals_contain_their_estimates_and_the_noise_floor_separates(found):
    for column in found.columns:
        for interval in (*column.scores.values(), *column.changes.values()):
            assert interval.low <= interval.estimate <= interval.high
    age, income = found.columns
    assert age.scores["hgr"].estimate > age.noise["hgr"].upper
    assert income.scores["hgr"].estimate < 2 * income.noise["hgr"].upper


def test_groups_and_pairs_are_included(found):
    (age, income) = found.columns
    assert {*age.within} == {"hgr", "gdp", "pf"}
    assert [stratum.label for stratum in age.strata] == ["high", "low"]
    (pair,) = found.pairs
    assert pair.names == ("age", "income")
    assert income.left_out == ()


def test_audit_of_one_model_has_no_comparison():
    y, fair, _, S = rows(BLOCK_ROWS + 100)
    found = fkd.audit(y, fair, S["age"], replicates=20)
    (column,) = found.columns
    assert found.other_mae is None
    assert not column.changes
    assert not column.other_scores
    assert "gain" not in column.profile.curves
    assert column.name == "age"


def test_undefined_pairwise_fairness_is_left_out():
    _, fair, _, S = rows()
    age = S["age"].to_numpy()
    (column,) = fkd.audit(age, fair, age, replicates=20).columns  # s never falls while y rises
    assert {*column.scores} == {"hgr", "gdp"}


def test_audit_depends_on_the_seed_alone():
    y, fair, _, S = rows(200)
    one, two, other = (
        fkd.audit(y, fair, S["age"].to_numpy(), replicates=20, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert one.mae == two.mae != other.mae
    assert one.columns[0].name == "0"


def test_any_model_can_be_audited():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 3))
    s = X[:, 0] + 0.3 * rng.normal(size=900)
    y = X @ [1.0, 0.5, 0.2] + 0.3 * rng.normal(size=900)
    trees = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X[:600], y[:600])
    found = fkd.audit(y[600:], trees.predict(X[600:]), s[600:], replicates=60)
    (column,) = found.columns
    assert found.rows == 300
    assert column.scores["hgr"].low > column.noise["hgr"].upper
    curve, leak = column.profile.curves["prediction"], column.profile.leak
    assert curve.lowest[-1] > curve.highest[0]
    assert leak.values[-1] > leak.values[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_pred": np.ones(399)}, "^y_true must"),
        ({"y_pred": np.ones(400)}, "^y_pred must"),
        ({"other": np.zeros(400)}, "^other must"),
        ({"other": np.arange(20.0)}, "^other must"),
        (
            {"sensitive_features": pd.DataFrame({"sex": np.arange(400) % 2})},
            "^sensitive_features column sex must .*control",
        ),
        (
            {"control_features": np.arange(400).astype(str)},
            "^control_features must",
        ),
        ({"sensitive_features": np.ones((399, 2))}, "^sensitive_features must"),
    ],
)
def test_invalid_arguments_are_refused_by_name(change, words):
    y, fair, _, S = rows()
    arguments = {"y_true": y, "y_pred": fair, "sensitive_features": S["age"], **change}
    with pytest.raises(ValueError, match=words):
        fkd.audit(**arguments, replicates=20)
