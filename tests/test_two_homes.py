"""Homes that know nothing of each other on one MLflow server: each trial has one run."""

import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from claim_sample import check_recorded, home_of
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from server_process import left_after
from sweep_process import PATIENCE, Fkd, warm_home, write_config
from sweep_sample import sweep_config
from tracking_server import mlflow_server, postgres, recorded_trials, warm_mlflow

from tasks.adapters.settings import Settings
from tasks.study.opening import open_study

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


def test_homes_that_record_at_the_same_moment_make_one_run_of_each_trial(server, tmp_path):
    sample = [sys.executable, "-m", "claim_sample", str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen(
            [*sample, f"home{i}", server.uri, "race", str(TRIALS)],
            cwd=str(__file__).rpartition("/")[0],
            **pipes,
        )
        for i in range(HOMES)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    added = [int(process.communicate(timeout=PATIENCE)[0]) for process in processes]
    assert sum(added) == TRIALS
    check_recorded(home_of(tmp_path, "home0", server.uri), "race", TRIALS)


def _recording(client):
    """Whether trials are being recorded: some have runs, none is complete on both sides."""
    places = [place.experiment_id for place in client.search_experiments()]
    return len(client.search_runs(places, "tags.`fkd.claim` != ''")) > 6


def test_two_runs_from_two_homes_one_of_them_killed_while_it_records(
    server, tmp_path, tmp_path_factory
):
    base = tmp_path_factory.getbasetemp()
    config = sweep_config("cluster.workers=1", gammas=2, alphas=3, lengths=3)
    path = write_config(config, tmp_path)
    homes = [warm_home(tmp_path / name / "home", base) for name in ("one", "other")]
    there = {"MLFLOW_TRACKING_URI": server.uri}
    killed, other = [Fkd(home, "run", path, **there) for home in homes]
    client = MlflowClient(server.uri, server.uri)
    killed.wait_for(lambda: _recording(client))
    killed.kill()
    assert other.wait() == 0, other.said
    again = Fkd(homes[0], "run", path, **there)
    assert again.wait() == 0, again.said
    for home in homes:
        settings = Settings(home, mlflow_tracking_uri=server.uri)
        study = open_study(config, settings)
        assert study.missing() == []
        assert Counter(recorded_trials(settings, config.name)) == {t.key: 1 for t in study.trials}
        assert left_after(home, 30) == []
    place = client.get_experiment_by_name(config.name).experiment_id
    runs = client.search_runs([place], max_results=1000)
    (parent,) = [run for run in runs if "fkd.identity" in run.data.tags]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(runs) == 1 + len(children) == 1 + len(study.trials)
    assert [one.name for one in client.search_registered_models()] == [config.model]
    assert len(client.search_model_versions(f"name = '{config.model}'")) == 1
    dropped = client.search_runs([place], run_view_type=ViewType.DELETED_ONLY)
    assert not [run for run in dropped if run.data.metrics]  # nobody's numbers were thrown away
