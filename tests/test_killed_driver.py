"""A driver that is killed: the same command completes what is missing, no process stays."""

import random
import re
import time
from collections import Counter

import pytest
from mlflow.tracking import MlflowClient
from server_process import left_after
from sweep_process import Fkd, fkd, records, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed
from tracking_server import recorded_trials

from tasks.settings import Settings
from tasks.study import open_study
from tasks.tracking import tracking_uri


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    return warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())


@pytest.fixture
def config():
    return sweep_config(gammas=3, alphas=2, lengths=3)


def _todo(said):
    return int(re.search(r"(\d+) in \d+ tasks to compute", said)[1])


def _check_recorded(settings, study):
    """Assert that MLflow holds each trial once, one parent, one version of the champion."""
    name = study.config.name
    assert Counter(recorded_trials(settings, name)) == {t.key: 1 for t in study.trials}
    client = MlflowClient(tracking_uri(settings))
    place = client.get_experiment_by_name(name).experiment_id
    parents = client.search_runs([place], "tags.`fkd.identity` != ''")
    assert len(parents) == 1
    assert len(client.search_model_versions(f"name = '{name}'")) == 1


@pytest.mark.timeout(900)
def test_after_a_kill_the_same_command_computes_exactly_the_missing_trials(home, config, tmp_path):
    path = write_config(config, tmp_path)
    run = Fkd(home, "run", path)
    run.wait_for(lambda: len(records(home)) >= 10)
    run.kill()
    assert left_after(home, 30) == []
    kept = records(home)
    code, said = fkd(home, "run", path)
    assert code == 0, said
    settings = Settings(home, None, None, None)
    study = open_study(config, settings)
    assert _todo(said) == study.size() - len(kept)
    assert f"{_todo(said)} not finished before" in said
    assert len(records(home)) == study.size()
    assert kept.items() <= records(home).items()  # no file was written again
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    _check_recorded(settings, study)
    assert left_after(home, 30) == []


POINTS = {
    "the server starts": "prefect/keeper",
    "rows are prepared": "prepared/*.npz",
    "the first record is kept": "store/??/*.npz",
    "results are written": "experiments/sweep/results.csv",
    "runs are recorded": "mlflow/write.lock",
    "trials are recorded": "experiments/sweep/tracking.json",
    "the champion is kept": "store/champions/*.npz",
    "the report is written": "experiments/sweep/report.html",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", POINTS.values(), ids=POINTS.keys())
@pytest.mark.timeout(1800)
def test_a_driver_may_be_killed_at_any_point(file, home, config, tmp_path):
    path, rng = write_config(config, tmp_path), random.Random(file)
    settings = Settings(home, None, None, None)
    run = Fkd(home, "run", path)
    run.wait_for(lambda: list(home.glob(file)))
    time.sleep(rng.uniform(0, 1))
    run.kill()
    assert left_after(home, 30) == []
    kept = records(home)
    code, said = fkd(home, "run", path)
    assert code == 0, said
    study = open_study(config, settings)
    assert kept.items() <= records(home).items()
    assert len(records(home)) == study.size()
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    _check_recorded(settings, study)
    assert left_after(home, 30) == []
