"""A champion on new months of the same office: quiet, drifted, unfit to be looked at."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from flow_stages import run_stages, watch_stages
from mlflow.tracking import MlflowClient
from numpy.testing import assert_allclose
from tracking_server import warm_mlflow
from watch_sample import COLUMNS, write_month, write_wages

from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config
from fkd.measures import MEASURES, REPORTED, NumberChange, SampleChanges
from flows.monitor import BandCrossedError, WatchedModel, _refit_config, end_watch
from flows.store_commands import sync_all
from tasks.data.load import load_table
from tasks.fit.job import run_job
from tasks.monitor.check import (
    Watch,
    champion_rows,
    judge_refit,
    known_watches,
    read_batches,
    reasons_of,
    refusals,
    watched_champion,
)
from tasks.select.champion import select_champion
from tasks.select.judgement import HeldOutRecord, held_out_record, strictest
from tasks.select.study import open_study
from tasks.track.client import tracking_uri
from tasks.track.recording import record_champion, record_trials
from tasks.track.run_index import known_runs


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder with a configuration, its first month, and a home in which its champion serves."""
    folder = tmp_path_factory.mktemp("office")
    source = write_wages(folder)
    warm_mlflow(folder / "home" / "mlflow", tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FKD_HOME", str(folder / "home"))
        for name in ("FKD_DATA_MIRROR", "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
            patched.delenv(name, raising=False)
        (outcome,) = run_stages(load_config(source))
    assert outcome.paths["model"] == "models:/wages@champion"
    return folder


@pytest.fixture
def home(office, settings, tmp_path):
    """The served champion in a home of the test's own; artifacts stay where they were made."""
    shutil.copytree(office / "home", settings.home)
    return settings


def client(settings):
    uri = tracking_uri(settings)
    return MlflowClient(uri, uri)


def champion_number(settings):
    return int(client(settings).get_model_version_by_alias("wages", "champion").version)


def test_the_record_is_what_the_champion_predicted_for_its_held_out_rows(office, home):
    study = open_study(load_config(office / "wages.yaml"), home)
    champion = select_champion(study)
    record = watched_champion(home, "wages").record
    table = study.loaded.table
    test = table.take(study.inputs.splits.held_out_fold(table).test)
    assert_allclose(record.y, test.target)
    assert_allclose(record.S, test.sensitive)
    assert record.columns == ("age",)
    expected = held_out_record(study, champion.trial)
    assert_allclose(record.y_pred, expected.y_pred)
    again = HeldOutRecord.from_arrays(expected.arrays())
    assert again.target_range == expected.target_range
    # What is served predicts these numbers, not others.
    assert_allclose(watched_champion(home, "wages").predictions(test), record.y_pred, rtol=1e-6)


def test_of_very_many_held_out_rows_some_are_kept(office, home, monkeypatch):
    study = open_study(load_config(office / "wages.yaml"), home)
    monkeypatch.setattr("tasks.select.judgement.MOST_KEPT", 50)
    whole = watched_champion(home, "wages").record
    record = held_out_record(study, select_champion(study).trial)
    assert len(record.y) == len(record.y_pred) == len(record.S) == 50
    pairs = set(zip(whole.y, whole.y_pred, whole.S[:, 0], strict=True))
    assert set(zip(record.y, record.y_pred, record.S[:, 0], strict=True)) <= pairs


def test_a_month_like_the_others_is_quiet_and_looked_at_once(office, home, tmp_path, capsys):
    month = write_month(tmp_path / "quiet.csv", seed=5)
    (found,), page = watch_stages("wages", str(month))
    assert found.verdict == "quiet"
    assert found.refit is None
    assert champion_number(home) == 1
    version = client(home).get_model_version("wages", "1")
    assert version.tags["fkd.watch"] == "quiet"
    assert "nothing outside the band" in version.tags["fkd.watch.reason"]
    Path(page).unlink()
    again, page = watch_stages("wages", str(month))
    assert again == []
    assert page in "".join(capsys.readouterr()).replace("\n", "")
    (kept,) = known_watches(home, "wages")
    assert kept.reason == found.reason
    assert_allclose(kept.changes.curves[0].change, found.changes.curves[0].change)
    assert "quiet.csv" in Path(page).read_text()


@pytest.fixture
def drifted(tmp_path):
    return str(write_month(tmp_path / "drifted.csv", n=800, seed=31, drift=150.0))


def versions(settings):
    return sorted(int(v.version) for v in client(settings).search_model_versions("name='wages'"))


def test_a_planted_drift_is_reported_and_changes_nothing(home, drifted):
    report = home.experiments / "wages" / "report.html"
    before = report.read_bytes()
    (found,), page = watch_stages("wages", drifted)
    assert found.verdict == "crossed"
    assert any("mean signed error along age" in reason for reason in found.reasons)
    error = next(c for c in found.changes.curves if c.quantity == "error")
    assert error.points[error.crossed].min() > 40
    assert found.refit is None
    assert (champion_number(home), versions(home)) == (1, [1])
    assert report.read_bytes() == before
    assert [path.name for path in home.experiments.iterdir()] == ["wages"]
    (run,) = [
        run
        for place in client(home).search_experiments()
        for run in client(home).search_runs([place.experiment_id])
        if run.data.tags.get("fkd.watch.model") == "wages"
    ]
    assert run.data.tags["fkd.watch"] == "crossed"
    assert run.data.tags["fkd.watch.reason"] == found.reason
    assert run.data.metrics["watch/mae_after"] > 0
    assert "Changed curves" in Path(page).read_text()


def test_a_crossed_band_without_refit_ends_with_exit_code_3(home, drifted):
    found, page = watch_stages("wages", drifted)
    with pytest.raises(BandCrossedError, match="--refit") as caught:
        end_watch(WatchedModel("wages"), found, page)
    assert caught.value.exit_code == 3


def test_a_refit_without_a_gate_is_a_candidate_fitted_on_old_and_new_rows(office, home, drifted):
    report = home.experiments / "wages" / "report.html"
    before = report.read_bytes()
    watch_stages("wages", drifted)  # a look alone does not stand in the way of a refit
    (found,), page = watch_stages("wages", drifted, refit=True)
    assert not found.refit.promoted
    assert "fkd promote wages --version 2 --who" in found.refit.why
    assert (champion_number(home), versions(home)) == (1, [1, 2])
    assert int(client(home).get_model_version_by_alias("wages", "candidate").version) == 2
    tags = client(home).get_model_version("wages", "2").tags
    assert tags["fkd.because"].startswith("drifted.csv crossed: ")
    assert "gate" in tags["fkd.verdict"]
    assert "(candidate)" in Path(page).read_text()

    data = load_config(office / "wages.yaml").data
    old = load_table(data, home).table
    new = load_table(data.model_copy(update={"path": drifted}), home).table
    (run,) = [run for run in known_runs(home)[0] if run.config.name == "wages-refit"]
    table = run.open(home).loaded.table
    assert_allclose(table.target, np.concatenate([old.target, new.target]))
    assert_allclose(table.numeric, np.concatenate([old.numeric, new.numeric]))

    assert report.read_bytes() == before
    assert (
        "models:/wages@candidate" in (home.experiments / "wages-refit" / "report.html").read_text()
    )
    assert watch_stages("wages", drifted, refit=True)[0] == []  # done before
    sync_all()
    assert champion_number(home) == 1


def test_a_refit_that_passes_a_configured_gate_is_promoted(office, home, drifted):
    run_stages(load_config(office / "wages.yaml", ["gate={gdp: 0.5}"]))
    (found,), _ = watch_stages("wages", drifted, refit=True)
    assert found.refit.promoted
    assert champion_number(home) == 2
    assert client(home).get_model_version("wages", "2").tags["fkd.verdict"] == "passed"
    end_watch(WatchedModel("wages"), [found], "")  # no error: a promoted refit is the answer
    # Neither part of its rows is new to the new champion.
    assert watch_stages("wages", str(office / "month-0.csv"), drifted)[0] == []


def test_a_refit_that_breaks_the_gate_stays_a_candidate(home):
    champion = watched_champion(home, "wages")
    study = open_study(champion.config.model_copy(update={"gate": {"gdp": 1e-6}}), home)
    _, told = judge_refit(study, champion)
    assert not told.promoted
    assert "gdp on age" in told.why


def test_a_refit_with_a_new_issue_stays_a_candidate(office, home, tmp_path):
    path = write_month(tmp_path / "few.csv", n=60, seed=40, drift=400.0)
    champion = watched_champion(home, "wages")
    tree = champion.config.model_dump(mode="json")
    tree["data"]["path"], tree["gate"] = str(path), {"gdp": 1.0}
    study = open_study(parse_config(tree, "few"), home)
    for job in study.missing():
        run_job(job)
    judged, told = judge_refit(study, champion)
    assert not told.promoted
    assert judged.refused[0].startswith("check D1 found an issue that version 1 did not have")
    record_trials(judged)
    assert record_champion(judged) == "models:/wages@candidate"
    # The reason is kept with the run, so that recording it again does not promote it.
    sync_all()
    assert champion_number(home) == 1


def test_a_refit_is_compared_on_new_rows_only(office, home):
    study = open_study(load_config(office / "wages.yaml"), home)
    (refusal,) = refusals(study, watched_champion(home, "wages"), study.loaded.table.n)
    assert "none of the new rows is held out" in refusal


def test_the_configuration_of_a_refit_of_a_refit_can_be_read_again(home):
    champion = watched_champion(home, "wages")
    long = champion.config.data.model_copy(update={"title": 80 * "w"})
    config = champion.config.model_copy(update={"data": long})
    for _ in range(2):
        config = _refit_config(replace(champion, config=config))
        assert parse_config(yaml.safe_load(dump_config(config)), "config.yaml") == config


def test_a_refit_without_the_rows_of_the_champion_is_refused(home, drifted):
    champion = watched_champion(home, "wages")
    with pytest.raises(UserError, match=r"--refit .* wages version 1"):
        champion_rows(home, replace(champion, data="0" * 64))
    gone = champion.config.data.model_copy(update={"path": "gone.csv"})
    config = champion.config.model_copy(update={"data": gone})
    with pytest.raises(UserError, match=r"--refit .*gone\.csv"):
        champion_rows(home, replace(champion, config=config, data="0" * 64))


def test_a_refit_with_more_error_than_the_champion_stays_a_candidate(office, home):
    study = open_study(load_config(office / "wages.yaml"), home)
    champion = watched_champion(home, "wages")
    assert refusals(study, champion) == ()
    perfect = replace(champion, predict=lambda frame: _truth(study, len(frame)))
    (refusal,) = refusals(study, perfect)
    assert refusal.startswith("its mean absolute error on the new held-out rows is greater by")


def _truth(study, n):
    table = study.loaded.table
    test = table.take(study.inputs.splits.held_out_fold(table).test)
    assert test.n == n
    return test.target


def test_the_rows_that_a_champion_was_chosen_on_are_nothing_new(office, home, tmp_path, capsys):
    shutil.copy(office / "month-0.csv", tmp_path)
    assert watch_stages("wages", str(tmp_path / "month-*.csv"))[0] == []
    assert "month-0.csv: the rows that version 1 was chosen on" in capsys.readouterr().err
    assert known_watches(home, "wages") == []


def test_a_second_recording_keeps_one_record(office, home):
    study = open_study(load_config(office / "wages.yaml"), home)
    record_champion(study)
    version = client(home).get_model_version("wages", "1")
    kept = client(home).list_artifacts(version.tags["fkd.run"], "watch")
    assert [file.path for file in kept] == [f"watch/{select_champion(study).key}.npz"]


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ((), "--data must name new rows"),
        (("gone.csv",), "data.path must be an existing CSV"),
        (("states=NJ",), "data.states.*applies to problem acs_income"),
        (("few.csv",), "few.csv cannot be compared with the record: the sample after must have"),
        (("other.csv",), "skill"),
        (("blind.csv",), "age"),
    ],
)
def test_what_cannot_be_looked_at_is_told(office, home, tmp_path, monkeypatch, named, sentence):
    write_month(tmp_path / "few.csv", n=29)
    write_month(tmp_path / "other.csv", columns=[c for c in COLUMNS if c != "skill"])
    write_month(tmp_path / "blind.csv", columns=[c for c in COLUMNS if c != "age"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence):
        watch_stages("wages", *named)


def test_a_name_without_a_champion_is_told(office, home):
    with pytest.raises(UserError, match="no registered model 'wage'"):
        watched_champion(home, "wage")
    client(home).delete_registered_model_alias("wages", "champion")
    with pytest.raises(UserError, match="wages has no champion, only 1 versions"):
        watched_champion(home, "wages")


def test_a_champion_of_an_earlier_version_says_how_to_get_a_record(office, home):
    client(home).set_model_version_tag("wages", "1", "fkd.champion", "another")
    with pytest.raises(UserError, match="has no record of its held-out rows"):
        watched_champion(home, "wages")


def test_a_pattern_names_files_in_their_order(office, home, tmp_path):
    config = load_config(office / "wages.yaml")
    for name in ("b-2.csv", "b-1.csv", "c-1.csv"):
        write_month(tmp_path / name)
    found = read_batches(config, [str(tmp_path / "b-*.csv"), str(tmp_path / "c-1.csv")])
    assert [batch.label for batch in found] == ["b-1.csv", "b-2.csv", "c-1.csv"]
    assert found[0].config.data.path == str(tmp_path / "b-1.csv")
    assert found[0].config.name == config.name
    assert read_batches(config, [str(tmp_path / "z*.csv")]) == []


def test_census_rows_are_named_by_keys(settings):
    config = load_config("acs_income")
    (batch,) = read_batches(config, ["states=ID year=2019"])
    assert (batch.config.data.states, batch.config.data.year) == (("ID",), (2019,))
    with pytest.raises(UserError, match="must be keys of the data for acs_income"):
        read_batches(config, ["idaho.csv"])


def look(*numbers):
    changes = SampleChanges(numbers, (), 0.5, (100, 100), 0.95)
    return Watch("m", 1, "t", "rows", "digest", "2026-01-01", "wage", "euros", changes)


def test_a_limit_is_left_behind_where_the_whole_band_lies_above_it():
    def gdp(before, after):
        return look(NumberChange("gdp", "age", before, after, after - before, 0.0, 0.04, False))

    assert reasons_of(gdp(0.09, 0.13), {"gdp": 0.1})[0].startswith("gdp on age is 0.1300")
    assert reasons_of(gdp(0.09, 0.12), {"gdp": 0.1}) == ()
    assert reasons_of(gdp(0.11, 0.13), {"gdp": 0.1}) == ()  # the record had left it before
    assert reasons_of(gdp(0.09, 0.13), {"hgr": 0.1}) == ()


def test_the_strictest_limit_counts():
    assert strictest({"gdp": 0.04}, {"gdp": 0.02, "pf": 1}) == {"gdp": 0.02, "pf": 1}


def test_a_look_reads_back_as_it_was_written(office, home, tmp_path):
    month = write_month(tmp_path / "young.csv", seed=6)
    (found,), _ = watch_stages("wages", str(month))
    curve = replace(found.changes.curves[0], after=found.changes.curves[0].after * np.nan)
    changed = replace(found, changes=replace(found.changes, curves=(curve,)))
    again = Watch.from_json(changed.to_json())
    assert np.isnan(again.changes.curves[0].after).all()
    assert again.changes.numbers == found.changes.numbers
    assert (again.changes.curves[0].crossed == curve.crossed).all()
    assert again.words == {"age": "age"}


def test_gdp_of_a_look_is_a_share_as_limits_are(office, home, tmp_path):
    month = write_month(tmp_path / "gdp.csv", seed=7)
    (found,), _ = watch_stages("wages", str(month))
    told = {one.quantity: one.before for one in found.changes.numbers}
    study = open_study(load_config(office / "wages.yaml"), home)
    scores = select_champion(study).judgement.held_out
    assert_allclose(told["gdp"], scores.measures["age"]["gdp"][0], rtol=1e-6)
    assert_allclose(told["hgr"], scores.measures["age"]["hgr"][0], rtol=1e-6)
    low, high = study.loaded.table.target_range
    assert_allclose(told["mae"], scores.mae[0] * (high - low), rtol=1e-6)


def test_every_measure_in_units_of_the_prediction_is_a_share(home, tmp_path, monkeypatch):
    plugin = MEASURES["gdp_plugin"]
    monkeypatch.setitem(REPORTED, plugin.name, plugin)
    monkeypatch.setattr("fkd.measures.drift._MEASURES", (plugin.scaled(),))
    (found,), _ = watch_stages("wages", str(write_month(tmp_path / "plugin.csv", seed=8)))
    told = {one.quantity: one.before for one in found.changes.numbers}
    assert 0 < told["gdp_plugin"] < 1
