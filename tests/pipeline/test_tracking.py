import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import mlflow
import numpy as np
import pytest
from mlflow.tracking import MlflowClient
from tracking_server import warm_mlflow

from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient, TrackingUnreachableError, tracking_uri
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.registry import load_model
from tasks.track.run_index import recorded
from tasks.track.runs import Tracking


@pytest.fixture
def study(quick_study, tmp_path_factory):
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    return quick_study


def _runs(study):
    client = MlflowClient(tracking_uri(study.settings))
    place = recorded(study)
    runs = client.search_runs([place.experiment_id])
    return (
        [r for r in runs if r.info.run_id == place.run_id],
        [r for r in runs if r.data.tags.get("mlflow.parentRunId") == place.run_id],
    )


def test_every_trial_has_one_run_under_one_parent(study):
    assert record_trials(study) == len(study.trials) == 3
    parents, children = _runs(study)
    assert (len(parents), len(children)) == (1, 3)
    assert {r.data.tags["fkd.trial"] for r in children} == {t.key for t in study.trials}
    for run in children:
        assert run.info.status == "FINISHED"
        assert run.data.tags["fkd.data"] == study.loaded.digest
        assert run.data.tags["fkd.config"] == study.config.digest


def test_a_runs_numbers_are_those_of_the_store(study):
    record_trials(study)
    _, children = _runs(study)
    by_key = {r.data.tags["fkd.trial"]: r for r in children}
    for result in study.results():
        run = by_key[result.trial.key]
        assert run.data.metrics["hgr_mean"] == result.mean("hgr", "racepctblack")
        assert run.data.metrics["mae_mean"] == result.mean("mae", "racepctblack")
        assert run.data.metrics["mae_std"] == result.std("mae", "racepctblack")
        assert run.data.params["method"] == result.trial.method


def test_recording_again_adds_nothing(study):
    record_trials(study)
    before = [r.info.run_id for group in _runs(study) for r in group]
    assert record_trials(study) == 0
    assert [r.info.run_id for group in _runs(study) for r in group] == before


def test_a_run_that_was_interrupted_is_completed_not_doubled(study):
    record_trials(study)
    _, children = _runs(study)
    MlflowClient(tracking_uri(study.settings)).update_run(children[0].info.run_id, status="RUNNING")
    assert record_trials(study) == 1
    assert len(_runs(study)[1]) == 3


def test_the_registered_champion_predicts_as_the_one_in_process(study):
    record_trials(study)
    assert record_champion(study) == "models:/quick@champion"
    champion = select_champion(study)
    loaded = load_model(study.settings, "models:/quick@champion")
    assert np.array_equal(
        loaded.predict(champion.example), champion.bundle.predict(champion.example)
    )
    signature = loaded.metadata.signature
    assert set(signature.inputs.input_names()) == set(champion.bundle.input_columns)
    assert loaded.input_example is not None


def test_the_model_holds_no_pickle(study):
    record_trials(study)
    record_champion(study)
    mlflow.set_tracking_uri(tracking_uri(study.settings))
    folder = mlflow.artifacts.download_artifacts("models:/quick@champion")
    names = [name for _, _, files in os.walk(folder) for name in files]
    assert "bundle.npz" in names
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]


def test_the_same_champion_is_registered_once(study):
    record_trials(study)
    record_champion(study)
    record_champion(study)
    client = MlflowClient(tracking_uri(study.settings))
    assert len(client.search_model_versions("name = 'quick'")) == 1


def test_a_champion_that_another_home_registers_meanwhile_is_registered_once(
    study, tmp_path, monkeypatch
):
    shutil.copytree(study.settings.home, tmp_path / "other")
    there = replace(study.settings, home=tmp_path / "other", mlflow_tracking_uri=_uri(study))
    other, real, calls = open_study(study.config, there), TimedClient.__getattr__, []

    def overtaken(self, name):
        if name == "create_model_version" and not calls:
            calls.append(name)
            record_champion(other)
        return real(self, name)

    record_trials(study)
    monkeypatch.setattr(TimedClient, "__getattr__", overtaken)
    record_champion(study)
    assert calls
    client = MlflowClient(_uri(study))
    (version,) = client.search_model_versions("name = 'quick'")
    assert client.get_model_version_by_alias("quick", "champion").version == version.version


def _uri(study):
    return tracking_uri(study.settings)


def test_files_and_configuration_lie_on_the_parent(study):
    record_trials(study)
    record_files(study)
    client = MlflowClient(tracking_uri(study.settings))
    names = {file.path for file in client.list_artifacts(recorded(study).run_id)}
    assert {"config.yaml", "tracking.json"} <= names


def test_a_server_that_does_not_answer_is_named_at_once(study):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    gone = Settings(study.settings.home, None, None, f"http://127.0.0.1:{port}")
    with pytest.raises(TrackingUnreachableError, match=f"127.0.0.1:{port}"):
        Tracking(gone, "quick")


@pytest.mark.stack
def test_the_served_model_answers_as_the_one_in_process(study, free_port):
    record_trials(study)
    record_champion(study)
    champion = select_champion(study)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "models", "serve", "-m", "models:/quick@champion"),
            *("--env-manager", "local", "--host", "127.0.0.1", "--port", str(free_port)),
        ],
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": tracking_uri(study.settings),
            # MLflow calls uvicorn by its bare name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        answer = _ask(free_port, champion.example)
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    assert np.array_equal(answer, champion.bundle.predict(champion.example))


def _ask(port, example):
    """The server's predictions, once it is up; bounded in time."""
    body = {
        "dataframe_split": json.loads(
            example.to_json(orient="split", index=False, double_precision=15)
        )
    }
    transport = httpx.HTTPTransport(retries=0)
    with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(240):
            try:
                client.get("/ping", timeout=2).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.25)
                continue
            return np.array(
                client.post("/invocations", json=body, timeout=30).json()["predictions"]
            )
    raise AssertionError("the model server did not come up")
