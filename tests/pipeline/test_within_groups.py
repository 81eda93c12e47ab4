import numpy as np
import pytest
from stored_files import stored

from configs.errors import UserError
from configs.load import parse_config
from fkd.measures import gdp, hgr, pairwise_fairness
from fkd.measures.groups import control_groups
from fkd.problems.table import Table
from tasks.data.load import Loaded
from tasks.plan.trials import record_key
from tasks.select import groups as within
from tasks.select import judgement as held_out
from tasks.select.champion import select_champion
from tasks.select.groups import CHOSEN, REFERENCE, within_groups
from tasks.select.judgement import without_removal
from tasks.select.study import check_control_columns, control_columns, open_study

COLUMN = "racepctblack"


def controlled(study, *names):
    """The same study with control columns."""
    tree = study.config.model_dump(mode="json")
    tree["data"]["control"] = list(names)
    return open_study(parse_config(tree, study.config.name), study.settings)


def test_nothing_is_measured_within_groups_unless_asked_for(quick_study):
    assert within_groups(quick_study, select_champion(quick_study)) is None


def test_control_columns_need_no_other_fit_and_no_other_champion(quick_study):
    study = controlled(quick_study, "medIncome")
    assert not study.missing()
    assert [trial.key for trial in study.trials] == [trial.key for trial in quick_study.trials]
    assert select_champion(study).key == select_champion(quick_study).key


def test_numbers_are_those_of_the_stored_held_out_predictions(quick_study, monkeypatch):
    study = controlled(quick_study, "medIncome")
    champion = select_champion(study)
    monkeypatch.setattr(held_out, "fitted_models", None)
    found = within_groups(study, champion)
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    test = study.loaded.table.take(fold.test)
    s, y = test.S([COLUMN])[:, 0], test.y
    groups = control_columns(test, ["medIncome"]).astype(float)
    chosen, before = (
        study.store.predictions(record_key(trial, fold, study.inputs))
        for trial in (champion.trial, without_removal(study, champion.trial))
    )
    assert not np.allclose(chosen, before)
    for model, f in ((CHOSEN, chosen), (REFERENCE, before)):
        scores = {name: models[model] for name, models in found.scores[COLUMN].items()}
        expected = {
            "hgr": hgr(f, s, margins="standard", control_features=groups),
            "gdp": gdp(f, s, margins="range", control_features=groups),
            "pf": pairwise_fairness(y, f, s, control_features=groups),
        }
        assert {name: score.mean[0] for name, score in scores.items()} == pytest.approx(expected)
        assert scores["pf"].overall == pairwise_fairness(y, f, s)
        for score in scores.values():
            assert len(score.groups) == 5
            assert sum(rows for _, rows, _ in score.groups) == test.n
            assert score.mean[1] < score.mean[0] < score.mean[2]
    assert set(found.noise[COLUMN]) == {"hgr"}
    assert 0.05 < found.noise[COLUMN]["hgr"] < 0.35


def test_numbers_are_made_once_and_read_again(quick_study, monkeypatch):
    study = controlled(quick_study, "medIncome")
    champion = select_champion(study)
    first = within_groups(study, champion)
    with monkeypatch.context() as patched:
        patched.setattr(within, "by_stratum", None)
        assert within_groups(study, champion) == first
    other = controlled(quick_study, "pctUrban")
    assert within_groups(other, champion).scores != first.scores
    (damaged, *_) = sorted((stored(study.settings, "within")).glob("*.arrays"))
    damaged.write_bytes(b"damaged")
    assert within_groups(study, champion) == first


def test_groups_too_small_to_measure_end_no_run(quick_study):
    study = controlled(quick_study, "medIncome", "pctUrban", "population")
    found = within_groups(study, select_champion(study))
    scores = found.scores[COLUMN]
    told = [*found.problems[COLUMN].values()] + [
        str(score[CHOSEN].left_out) for score in scores.values()
    ]
    assert any("fewer than 30 rows" in text for text in told)


@pytest.fixture
def table():
    size = np.array([1.0, np.nan, 3.0, 3.0])
    return Table(
        numeric_names=("size", "rooms"),
        numeric=np.stack([size, np.array([1.0, 2.0, 3.0, 4.0])], axis=1),
        categorical_names=("kind",),
        codes=np.array([[0], [1], [-1], [0]], dtype=np.int32),
        levels=(("house", "flat"),),
        target_name="rent",
        target=np.array([10.0, 20.0, 30.0, 20.0]),
        sensitive_names=("age", "income"),
        sensitive=np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0], [4.0, 6.0]]),
        target_range=(10.0, 30.0),
        sensitive_range=np.array([[1.0, 4.0], [5.0, 6.0]]),
        extra={"year": np.array([2018, 2018, 2019, 2019])},
        gaps=("size",),
    )


def groups(table, *names):
    found = control_groups(control_columns(table, names), table.n)
    return {group.label: group.index.tolist() for group in found}


def test_columns_of_every_role_make_groups(table):
    assert groups(table, "rooms") == {"1": [0], "2": [1], "3": [2], "4": [3]}
    assert groups(table, "year") == {"2018": [0, 1], "2019": [2, 3]}
    assert groups(table, "rent") == {"10": [0], "20": [1, 3], "30": [2]}
    assert groups(table, "income") == {"5": [0, 1], "6": [2, 3]}


def test_what_is_missing_is_a_group_of_its_own(table):
    assert groups(table, "kind") == {"flat": [1], "house": [0, 3], "missing": [2]}
    assert groups(table, "size") == {"1": [0], "3": [2, 3], "missing": [1]}


def test_columns_combine(table):
    assert groups(table, "year", "kind") == {
        "2018 / flat": [1],
        "2018 / house": [0],
        "2019 / house": [3],
        "2019 / missing": [2],
    }


def test_a_column_that_the_table_has_not_kept_is_refused_with_the_reason(table):
    story = {"columns_left_out": {"floor": "constant in these rows"}}
    loaded = Loaded(table, "digest", story)
    check_control_columns(loaded, ["size", "kind", "rent", "year", "income"])
    with pytest.raises(UserError, match=r"data.control .* 'floor' \(constant in these rows\)"):
        check_control_columns(loaded, ["size", "floor"])
