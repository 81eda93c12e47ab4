"""The whole pipeline as a user meets it: the command line, its files, its servers, its end."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pandas as pd
import psutil
import pytest
from conftest import QUICK
from mlflow.tracking import MlflowClient

WORDS = [word for override in QUICK for word in ("--set", override)]


def _environment(home):
    hidden = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "FKD_DATA_MIRROR")
    return {**{k: v for k, v in os.environ.items() if k not in hidden}, "FKD_HOME": str(home)}


def _start(home, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *words],
        env=_environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _fkd(home, *words):
    process = _start(home, *words)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def _left_running(home):
    """Processes that carry this FKD_HOME, other than this one, once they had time to end."""
    for _ in range(150):
        found = [p for p in psutil.process_iter() if p.pid != os.getpid() and _belongs(p, home)]
        if not found:
            return []
        time.sleep(0.2)
    return found


def _belongs(process, home):
    try:
        return process.environ().get("FKD_HOME") == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A fresh home after `fkd run`, with what the terminal showed."""
    home = tmp_path_factory.mktemp("run") / "home"
    return home, *_fkd(home, "run", "default", *WORDS)


def test_a_fresh_run_ends_well_and_quietly(first):
    home, code, out, err = first
    assert code == 0, err
    assert "Traceback" not in out + err
    assert "KRR-FKD" in out
    assert "report.html" in out
    assert not _left_running(home)


def test_the_report_the_figures_and_the_configuration_lie_in_one_folder(first):
    home = first[0]
    names = {path.name for path in (home / "experiments" / "quick").iterdir()}
    assert {"report.html", "fronts-racepctblack.png", "results.csv", "config.yaml"} <= names


def test_results_are_tidy(first):
    frame = pd.read_csv(first[0] / "experiments" / "quick" / "results.csv")
    assert len(frame) == 3 * 3  # trials times folds
    wanted = ["problem", "method", "strength", "sensitive", "removed", "fold"]
    assert {*wanted, "mae", "hgr", "gdp", "pf", "seconds"} <= set(frame.columns)
    assert set(frame["fold"]) == {0, 1, 2}
    numbers = frame[["mae", "hgr", "gdp", "pf"]]
    assert numbers.notna().all().all()
    dummies = frame[frame["method"] == "dummy"]
    assert (dummies[["hgr", "gdp", "pf"]] == 0).all().all()


def test_mlflow_holds_every_trial_and_the_registered_champion(first):
    client = MlflowClient(f"sqlite:///{first[0] / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quick")
    runs = client.search_runs([experiment.experiment_id])
    parents = [r for r in runs if "mlflow.parentRunId" not in r.data.tags]
    assert (len(parents), len(runs)) == (1, 4)
    assert {r.info.status for r in runs} == {"FINISHED"}
    artifacts = {file.path for file in client.list_artifacts(parents[0].info.run_id)}
    assert {"report.html", "results.csv", "config.yaml"} <= artifacts
    assert client.get_model_version_by_alias("quick", "champion").run_id == parents[0].info.run_id


def test_a_second_run_computes_nothing_and_changes_no_number(first):
    home = first[0]
    results = home / "experiments" / "quick" / "results.csv"
    before = results.read_bytes()
    stored = {p: p.stat().st_mtime_ns for p in (home / "store").rglob("*.npz")}
    code, _, err = _fkd(home, "run", "default", *WORDS)
    assert code == 0, err
    assert "nothing to compute" in err
    assert results.read_bytes() == before
    assert {p: p.stat().st_mtime_ns for p in (home / "store").rglob("*.npz")} == stored
    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quick")
    assert len(client.search_runs([experiment.experiment_id])) == 4
    assert len(client.search_model_versions("name = 'quick'")) == 1


def test_ctrl_c_ends_all_and_the_same_command_continues(tmp_path):
    home = tmp_path / "home"
    process = _start(home, "run", "default", "--set", "name=stopped")
    for line in process.stderr:
        if "to compute" in line:
            break
    while not list((home / "store").rglob("*.npz")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "continues" in err
    assert not _left_running(home)
    assert not list(home.rglob("*.part"))
    code, out, _ = _fkd(home, "run", "default", "--set", "name=stopped", "--dry-run")
    assert code == 0
    assert "99" in out


def test_a_run_whose_gate_refuses_fails_everywhere_and_promotes_nothing(first):
    home, _, _, _ = first
    uri = f"sqlite:///{home}/mlflow/mlflow.db"
    client = MlflowClient(uri, uri)
    before = client.get_model_version_by_alias("quick", "champion").version
    words = ("--set", "gate={gdp: 0.000001}", "--set", "select={inner_folds: 2}")
    code, out, err = _fkd(home, "run", "default", *WORDS, *words)
    assert code == 3, err
    assert "Traceback" not in out + err
    assert "The champion breaks the gate: gdp on racepctblack" in err + out
    assert "models:/quick@candidate" in out
    assert client.get_model_version_by_alias("quick", "champion").version == before
    refused = client.get_model_version_by_alias("quick", "candidate")
    assert refused.version != before
    assert refused.tags["fkd.verdict"].startswith("refused: gdp on racepctblack")
    with closing(sqlite3.connect(home / "prefect" / "prefect.db")) as database:
        states = database.execute("select state_type from flow_run order by created").fetchall()
    assert states[0] == ("COMPLETED",)
    assert states[-1] == ("FAILED",)
    assert not _left_running(home)
