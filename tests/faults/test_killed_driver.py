"""A driver that is killed: the same command completes what is missing, no process stays."""

import random
import re
import time
from collections import Counter

import pytest
from mlflow.tracking import MlflowClient
from server_process import left_after
from soak_figures import keep
from sweep_process import Fkd, fkd, records, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed
from tracking_server import recorded_trials

from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.track.runs import tracking_uri

pytestmark = pytest.mark.stack


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    return warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())


@pytest.fixture
def config():
    return sweep_config(gammas=3, alphas=2, lengths=3)


def _todo(said):
    """How many fits a run has announced to compute."""
    found = re.search(r"(\d+) in \d+ tasks to compute", said)
    assert found or "nothing to compute" in said, said
    return int(found[1]) if found else 0


def _killed(run, home):
    """The records that a killed run has left, with the seconds until its processes had gone."""
    run.kill()
    killed = time.monotonic()
    assert left_after(home, 30) == []
    return records(home), round(time.monotonic() - killed, 1)


def _check_recorded(settings, study):
    """Assert that MLflow holds each trial once, one parent, one version of the champion."""
    name = study.config.name
    assert Counter(recorded_trials(settings, name)) == {t.key: 1 for t in study.trials}
    client = MlflowClient(tracking_uri(settings))
    place = client.get_experiment_by_name(name).experiment_id
    parents = client.search_runs([place], "tags.`fkd.identity` != ''")
    assert len(parents) == 1
    assert len(client.search_model_versions(f"name = '{name}'")) == 1


def _completed(home, path, config, tmp_path, kept):
    """The study after the same command has computed exactly what was missing, with its words."""
    code, said = fkd(home, "run", path)
    assert code == 0, said
    settings = Settings(home, None, None, None)
    study = open_study(config, settings)
    assert _todo(said) == study.size() - len(kept)
    assert kept.items() <= records(home).items()  # no file was written again
    assert len(records(home)) == study.size()
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    _check_recorded(settings, study)
    assert left_after(home, 30) == []
    return study, said


@pytest.mark.timeout(900)
def test_after_a_kill_the_same_command_computes_exactly_the_missing_trials(home, config, tmp_path):
    path = write_config(config, tmp_path)
    run = Fkd(home, "run", path)
    run.wait_for(lambda: len(records(home)) >= 10)
    kept, _ = _killed(run, home)
    study, said = _completed(home, path, config, tmp_path, kept)
    assert f"{study.size() - len(kept)} not finished before" in said


POINTS = {
    "the server starts": "prefect/keeper",
    "rows are prepared": "store/prepared/*.arrays",
    "the first record is kept": "store/??/*.arrays",
    "results are written": "experiments/sweep/results.csv",
    "runs are recorded": "mlflow/write.lock",
    "trials are recorded": "experiments/sweep/tracking.json",
    "the champion is kept": "store/champions/*.arrays",
    "the report is written": "experiments/sweep/report.html",
}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.timeout(1800)
def test_a_driver_may_be_killed_at_any_point(point, home, config, tmp_path):
    path, rng = write_config(config, tmp_path), random.Random(point)
    run = Fkd(home, "run", path)
    run.wait_for(lambda: list(home.glob(POINTS[point])))
    time.sleep(rng.uniform(0, 1))
    kept, seconds = _killed(run, home)
    study, _ = _completed(home, path, config, tmp_path, kept)
    keep(
        "F2",
        f"killed as {point}",
        kills=1,
        fits=study.size(),
        kept=len(kept),
        computed_after=study.size() - len(kept),
        seconds_until_no_process=seconds,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_driver_may_be_killed_again_and_again(home, tmp_path):
    config = sweep_config(gammas=8, alphas=4, lengths=6, landmarks=400, k=3)
    path, rng = write_config(config, tmp_path), random.Random(0)
    kept, counts, slowest = {}, [], 0.0
    for _ in range(10):
        run, enough = Fkd(home, "run", path), len(kept) + rng.randint(1, 40)
        run.wait_for(lambda enough=enough: len(records(home)) >= enough)
        found, seconds = _killed(run, home)
        assert kept.items() <= found.items()
        kept, slowest = found, max(slowest, seconds)
        counts.append(len(kept))
    study, _ = _completed(home, path, config, tmp_path, kept)
    keep(
        "F2",
        "killed again and again",
        kills=len(counts),
        fits=study.size(),
        kept=counts,
        computed_after=study.size() - len(kept),
        seconds_until_no_process=slowest,
    )
