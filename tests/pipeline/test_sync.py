import json

import pytest
from tracking_server import recorded_trials, warm_mlflow

from configs.errors import UserError
from configs.load import dump_config
from flows.cli import main
from flows.store_commands import sync_all
from tasks.track.client import runs_page
from tasks.track.run_index import note_run, recorded, recorded_experiments


@pytest.fixture
def study(quick_study, tmp_path_factory):
    """A computed study that MLflow has missed; its configuration lies beside its results."""
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    note_run(quick_study)
    (quick_study.folder / "config.yaml").write_text(dump_config(quick_study.config))
    return quick_study


def test_an_empty_home_has_nothing_to_record(settings):
    with pytest.raises(UserError, match="nothing to record"):
        sync_all()


def test_what_was_missed_is_recorded_exactly_once(study, capsys):
    sync_all()
    assert "quick: 3 new trial runs" in capsys.readouterr().out
    sync_all()
    assert "quick: 0 new trial runs" in capsys.readouterr().out
    found = recorded_trials(study.settings, "quick")
    assert sorted(found) == sorted(trial.key for trial in study.trials)
    assert recorded(study) is not None


def test_an_experiment_that_cannot_be_opened_does_not_keep_the_others_waiting(study, capsys):
    (entry,) = (study.settings.home / "runs").iterdir()
    broken = json.loads(entry.read_text())
    broken["config"]["methods"] = ["no_such_method"]
    entry.with_name("0123.json").write_text(json.dumps(broken))
    with pytest.raises(UserError, match=r"no_such_method"):
        sync_all()
    assert "quick: 3 new trial runs" in capsys.readouterr().out


def test_a_damaged_record_of_places_is_told_then_written_again(study, capsys):
    sync_all()
    place = study.folder / "tracking.json"
    place.write_text("{damaged")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(study.folder / "config.yaml")])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert "tracking.json must contain" in said
    sync_all()
    assert recorded(study) is not None


def test_a_damaged_entry_is_named_while_the_others_are_recorded(study, capsys):
    (study.settings.home / "runs" / "0123.json").write_text("[]")
    with pytest.raises(UserError, match=r"0123\.json is damaged \(TypeError\); remove it"):
        sync_all()
    assert "quick: 3 new trial runs" in capsys.readouterr().out


def test_every_experiment_has_its_page_of_runs(study):
    sync_all()
    (study.settings.experiments / "other").mkdir()
    (study.settings.experiments / "other" / "tracking.json").write_text("[]")
    found = recorded_experiments(study.settings)
    assert found == {"quick": recorded(study).experiment_id}
    page = runs_page("http://h:5/", found["quick"], "r1")
    assert (
        page == f"http://h:5/#/experiments/{found['quick']}/runs/r1?workflowType=machine_learning"
    )
