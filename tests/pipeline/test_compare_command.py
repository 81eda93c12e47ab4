"""`fkd compare`: what two runs have not in common."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pipeline_fixtures import QUICK
from stored_files import stored

from configs.errors import UserError
from configs.load import dump_config, load_config
from fkd.measures import compare as compare_predictions
from fkd.measures import gdp
from flows.cli import main
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.track.compare import (
    code_differences,
    config_differences,
    data_differences,
    paired_trials,
)
from tasks.track.run_index import find_study, identity_of, note_run

WIDER = (
    *QUICK[1:3],
    "name=wider",
    "methods=[dummy, {name: krr_fkd, gamma: 0.3, grid: {iterations: [0, 4]}, "
    "approximation: {kind: nystroem, landmarks: 60}}]",
)


def computed(settings, overrides):
    study = open_study(load_config("default", overrides), settings)
    for job in study.missing():
        run_job(job)
    note_run(study)
    return study


@pytest.fixture
def both(quick_study):
    note_run(quick_study)
    return quick_study, computed(quick_study.settings, WIDER)


def compare(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["compare", *words])
    caught = capsys.readouterr()
    return end.value.code, re.sub(r"\s+", " ", caught.out + caught.err)


def test_settings_rows_and_code_that_differ_are_named(both):
    found = {difference.what: difference for difference in config_differences(*both)}
    assert {what for what in found if "gamma" in what} == {"methods.1.gamma"}
    assert found["name"].first == "quick"
    assert set(found) == {"name", "methods.1.gamma"}
    assert data_differences(*both) == []
    assert code_differences(*both) == []


def test_a_pair_is_compared_on_the_same_rows(both):
    first = both[0]
    pairs, reason = paired_trials(*both, most=12)
    assert reason == ""
    champion = pairs[0]
    assert champion.title.startswith("champion: ")
    # Only dummies have the same parameters in both, and these are the same fit.
    assert [pair.same for pair in pairs[1:]] == [True]
    mae = [scores.mae[0] for scores in champion.scores]
    assert_allclose(mae[2], mae[0] - mae[1], rtol=1e-9)
    table = first.loaded.table
    pooled = {}
    for study in both:
        for trial in study.trials:
            folds = study.inputs.splits.outer(study.loaded.table)
            y_pred = np.full(table.n, np.nan)
            for fold in folds.values():
                y_pred[fold.test] = study.store.predictions(record_key(trial, fold, study.inputs))
            pooled[study.config.name, study.title(trial)] = y_pred
    titles = champion.title.removeprefix("champion: ").split(" → ")
    before, after = pooled["quick", titles[0]], pooled["wider", titles[-1]]
    assert_allclose(mae[1], np.abs(before - table.y).mean(), rtol=1e-9)
    assert_allclose(mae[0], np.abs(after - table.y).mean(), rtol=1e-9)
    s = table.S()[:, 0]
    sides = (after, s), (before, s)
    expected = compare_predictions(gdp, *sides, rng=np.random.default_rng(1)).difference
    low, high = champion.scores[2].measures["racepctblack"]["gdp"][1:]
    assert low < expected.estimate < high


def test_the_command_prints_all_of_it(both, capsys):
    code, told = compare(capsys, "quick", "wider")
    assert code == 0
    assert "A quick" in told
    assert "3 of 3 trials stored" in told
    assert "methods.1.gamma" in told
    assert "Rows: the same" in told
    assert "Code: the same" in told
    assert re.search(r"MAE │ 0\.\d+ │ 0\.\d+ │ [+-]0\.\d+ \([+-]0\.\d+ to [+-]0\.\d+\)", told)
    assert "Both runs use the same stored fits of: Dummy." in told


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("cluster.blas_threads=2", r"cluster\.blas_threads │ 1 │ 2"),
        ("data.sample=300", r"rows used │ 1993 │ 300"),
        ("methods.1.gamma=0.3", r"methods\.1\.gamma │ [\w.]+ │ 0\.3"),
    ],
)
def test_the_reason_of_another_key_is_named(quick_study, tmp_path, capsys, change, named):
    """The second run is a configuration of which nothing is computed."""
    note_run(quick_study)
    other = load_config("default", (*QUICK, change))
    (tmp_path / "other.yaml").write_text(dump_config(other))
    code, told = compare(capsys, "quick", str(tmp_path / "other.yaml"))
    assert code == 0
    assert re.search(named, told)


def test_a_run_is_found_by_each_of_its_names(quick_study, tmp_path):
    note_run(quick_study)
    identity, folder = identity_of(quick_study), quick_study.folder
    (folder / "config.yaml").write_text(dump_config(quick_study.config))
    (folder / "report.html").touch()
    (folder / "tracking.json").write_text(
        json.dumps({"identity": identity, "run_id": "a" * 32, "uri": "x", "experiment_id": "1"})
    )
    (tmp_path / "mine.yaml").write_text(dump_config(quick_study.config))
    words = ("quick", "quick~0", identity[:8], "a" * 32, str(folder))
    for word in (*words, str(folder / "report.html"), str(tmp_path / "mine.yaml")):
        assert identity_of(find_study(quick_study.settings, word)) == identity, word
    with pytest.raises(UserError, match="quick~4"):
        find_study(quick_study.settings, "quick~4")


def test_a_run_with_itself_is_the_same(both, capsys):
    code, told = compare(capsys, "quick", "quick")
    assert code == 0
    assert "Settings: the same" in told
    assert "Both runs use the same stored fits of: champion:" in told
    assert "B − A" not in told


def test_other_folds_have_no_interval_and_it_is_told(both, capsys):
    first = both[0]
    other = computed(first.settings, (*QUICK, "name=other", "seed=1", "select=null"))
    pairs, reason = paired_trials(first, other, most=12)
    assert reason == "the runs test on other folds"
    assert all(pair.scores is None for pair in pairs)
    code, told = compare(capsys, "quick", "other", "--most", "2")
    assert code == 0
    assert "without intervals: the runs test on other folds" in told
    assert "seed │ 0 │ 1" in told


def test_other_rows_are_told(both, capsys):
    first = both[0]
    other = computed(first.settings, (*QUICK, "name=fewer", "data.sample=300", "select=null"))
    found = {difference.what: difference for difference in data_differences(first, other)}
    assert (found["rows used"].first, found["rows used"].second) == ("1993", "300")
    assert "digest" in found
    assert paired_trials(first, other, most=12)[1] == "the runs have other rows or another target"


def test_predictions_that_were_not_kept_leave_means(both):
    first, second = both
    for path in stored(first.settings).glob("??/*.arrays"):
        path.unlink()
    pairs, reason = paired_trials(first, second, most=1)
    assert reason == ""
    (pair,) = pairs
    assert pair.scores is None
    assert pair.means["racepctblack"]["mae"][0] > 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("quick", "widr"), "'wider'"),
        (("quick", "wider", "--most", "0"), "--most"),
        (("quick", "nowhere.html"), "config.yaml"),
    ],
)
def test_what_is_not_there_is_refused(both, capsys, words, named):
    code, told = compare(capsys, *words)
    assert code == 2
    assert named in told
