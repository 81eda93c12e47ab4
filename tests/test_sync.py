import pytest
from tracking_server import recorded_trials, warm_mlflow

from configs.errors import UserError
from configs.load import dump_config
from flows.sync import sync_all
from tasks.study.recording import recorded


@pytest.fixture
def study(quick_study, tmp_path_factory):
    """A computed study that MLflow has missed; its configuration lies beside its results."""
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    quick_study.folder.mkdir(parents=True)
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
    broken = study.settings.experiments / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("name: broken\nmethods: [no_such_method]\n")
    with pytest.raises(UserError, match=r"broken: .*no_such_method"):
        sync_all()
    assert "quick: 3 new trial runs" in capsys.readouterr().out
