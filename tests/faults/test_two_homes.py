"""Two homes on one MLflow server: one store has one parent run, each trial one run."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from object_stores import BUCKET, moto_server, variables
from recording_sample import check_recorded, home_of, parents, record
from server_process import left_after
from sweep_process import PATIENCE, Fkd, warm_home, write_config
from sweep_sample import sweep_config
from tracking_server import mlflow_server, postgres, recorded_trials, warm_mlflow

from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]
HOMES, TRIALS = 4, 12


@contextmanager
def _database(kind, folder, base):
    """The address of a database for a server: a created sqlite file, or a fresh PostgreSQL."""
    if kind == "postgresql":
        with postgres() as address:
            yield address
    else:
        yield f"sqlite:///{warm_mlflow(folder / 'server', base)}"


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))]
)
def server(request, tmp_path, tmp_path_factory):
    """A running server on either kind of database."""
    with (
        _database(request.param, tmp_path, tmp_path_factory.getbasetemp()) as database,
        mlflow_server(database, tmp_path) as found,
    ):
        found.start()
        yield found


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    """The address of a store that homes share, with the variables of its server."""
    if request.param == "folder":
        yield str(tmp_path / "store"), {}
    else:
        with moto_server() as endpoint:
            yield f"s3://{BUCKET}/state", variables(endpoint)


def _recorders(folder, count, uri, store, identity, there):
    """Processes of one home each, which all record once a line is written to them."""
    sample = [sys.executable, "-m", "recording_sample", str(folder)]
    started = [
        subprocess.Popen(
            [*sample, f"home{i}", uri, store, identity, str(TRIALS)],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **there},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    return started


def test_homes_on_one_store_record_each_trial_once(server, store, tmp_path, monkeypatch):
    address, there = store
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    started = _recorders(tmp_path, HOMES, server.uri, address, "race", there)
    added = [int(process.communicate(timeout=PATIENCE)[0]) for process in started]
    assert sum(added) == TRIALS
    settings = home_of(tmp_path, "home0", server.uri, address)
    assert len(parents(settings, "race")) == 1
    check_recorded(settings, "race", TRIALS)


def test_homes_on_different_stores_have_different_parents(server, tmp_path):
    homes = [
        home_of(tmp_path, name, server.uri, str(tmp_path / name / "store"))
        for name in ("one", "other")
    ]
    assert [record(home, "same", TRIALS) for home in homes] == [TRIALS, TRIALS]
    assert len(parents(homes[0], "same")) == 2
    check_recorded(homes[0], "same", TRIALS)
    assert record(homes[0], "same", TRIALS) == 0


def _recording(client):
    """Whether some trials have runs."""
    places = [place.experiment_id for place in client.search_experiments()]
    return len(client.search_runs(places, "tags.`fkd.trial` != ''")) > 6


def test_two_runs_on_one_store_one_of_them_killed_while_it_records(
    server, tmp_path, tmp_path_factory
):
    base = tmp_path_factory.getbasetemp()
    config = sweep_config("cluster.workers=1", gammas=2, alphas=3, lengths=3)
    path = write_config(config, tmp_path)
    homes = [warm_home(tmp_path / name / "home", base) for name in ("one", "other")]
    shared = str(tmp_path / "store")
    there = {"MLFLOW_TRACKING_URI": server.uri, "FKD_STORE": shared}
    runs = [Fkd(home, "run", path, **there) for home in homes]
    client = MlflowClient(server.uri, server.uri)
    runs[0].wait_for(lambda: _recording(client))
    runs[0].kill()
    assert runs[1].wait() == 0, runs[1].said
    again = Fkd(homes[0], "run", path, **there)
    assert again.wait() == 0, again.said
    for home in homes:
        settings = Settings(home, mlflow_tracking_uri=server.uri, shared=shared)
        study = open_study(config, settings)
        assert study.missing() == []
        assert Counter(recorded_trials(settings, config.name)) == {t.key: 1 for t in study.trials}
        assert left_after(home, 30) == []
    place = client.get_experiment_by_name(config.name).experiment_id
    found = client.search_runs([place], max_results=1000)
    assert len([run for run in found if "fkd.identity" in run.data.tags]) == 1
    assert len(found) == 1 + len(study.trials)
    assert [one.name for one in client.search_registered_models()] == [config.model]
    assert len(client.search_model_versions(f"name = '{config.model}'")) == 1
