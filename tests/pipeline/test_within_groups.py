import numpy as np
import pytest
from stored_files import stored

from configs.load import parse_config
from fkd.measures import gdp, hgr, pairwise_fairness
from tasks.plan.trials import record_key
from tasks.select import groups as within
from tasks.select import held_out
from tasks.select.champion import select_champion
from tasks.select.control_columns import control_columns
from tasks.select.groups import CHOSEN, REFERENCE, within_groups
from tasks.select.judgement import without_removal
from tasks.select.study import open_study

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
    monkeypatch.setattr(held_out, "fit_trials", None)
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
