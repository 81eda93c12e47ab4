import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

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


def test_intervals_hold_their_numbers_and_a_floor_tells_noise(found):
    for column in found.columns:
        for interval in (*column.scores.values(), *column.changes.values()):
            assert interval.low <= interval.estimate <= interval.high
    age, income = found.columns
    assert age.scores["hgr"].estimate > age.noise.upper
    assert income.scores["hgr"].estimate < 2 * income.noise.upper


def test_groups_and_pairs_are_there(found):
    (age, income) = found.columns
    assert {*age.within} == {"hgr", "gdp", "pf"}
    assert [stratum.label for stratum in age.strata] == ["high", "low"]
    (pair,) = found.pairs
    assert pair.names == ("age", "income")
    assert income.left_out == ()


def test_one_model_stands_alone():
    y, fair, _, S = rows(BLOCK_ROWS + 100)
    found = fkd.audit(y, fair, S["age"], replicates=20)
    (column,) = found.columns
    assert found.other_mae is None
    assert not column.changes
    assert not column.other_scores
    assert "gain" not in column.profile.curves
    assert column.name == "age"


def test_the_same_seed_gives_the_same_audit():
    y, fair, _, S = rows(200)
    one, two, other = (
        fkd.audit(y, fair, S["age"].to_numpy(), replicates=20, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert one.mae == two.mae != other.mae
    assert one.columns[0].name == "0"


def test_boosted_trees_on_the_embedded_data_can_be_audited():
    """Any scikit-learn model: nothing of ours has fitted it."""
    import tempfile
    from pathlib import Path

    from sklearn.ensemble import HistGradientBoostingRegressor

    from configs.data import DataConfig
    from tasks.adapters.settings import Settings
    from tasks.data.load import load_table

    with tempfile.TemporaryDirectory() as home:
        settings = Settings(Path(home), None, None, None)
        table = load_table(DataConfig(problem="crimes"), settings).table
    train, test = np.arange(table.n) % 3 != 0, np.arange(table.n) % 3 == 0
    trees = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    trees.fit(table.numeric[train], table.target[train])
    black = table.sensitive[:, table.sensitive_names.index("racepctblack")]
    found = fkd.audit(
        table.target[test], trees.predict(table.numeric[test]), black[test], replicates=60
    )
    (column,) = found.columns
    assert found.mae.estimate < 0.12
    # It leans on race as the truth does, and the audit sees that.
    assert column.scores["hgr"].low > column.noise.upper
    curve = column.profile.curves["prediction"]
    assert curve.lowest[-1] > curve.highest[0]
    leak = column.profile.leak
    assert leak.values[-1] > leak.values[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_pred": np.ones(399)}, r"y_true must have one row per prediction \(399\), got 400"),
        ({"y_pred": np.ones(400)}, "y_pred must vary to be audited, got 400 times 1"),
        ({"other": np.zeros(400)}, "other must vary to be audited"),
        ({"other": np.arange(20.0)}, "other must have one row per prediction"),
        (
            {"sensitive_features": pd.DataFrame({"sex": np.arange(400) % 2})},
            r"column sex must have more than two values .* got 2 \(0 and 1\); pass it as control",
        ),
        (
            {"control_features": np.arange(400).astype(str)},
            r"control_features must leave a group of at least 30 rows .* take fewer or coarser",
        ),
        ({"sensitive_features": np.ones((399, 2))}, "sensitive_features must have one row"),
    ],
)
def test_bad_input_is_one_sentence_with_the_cure(change, words):
    y, fair, _, S = rows()
    arguments = {"y_true": y, "y_pred": fair, "sensitive_features": S["age"], **change}
    with pytest.raises(ValueError, match=words):
        fkd.audit(**arguments, replicates=20)
