"""The whole pipeline as a user meets it: the command line, its files, its servers, its end."""

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pandas as pd
import pytest
from command_line import CommandLine
from mlflow.tracking import MlflowClient
from pipeline_fixtures import QUICK
from server_process import PATIENCE, clean_environment, left_after, seeded

from configs.load import load_config
from fkd import __version__
from flows.run import show_plan

pytestmark = pytest.mark.stack

ARTIFACTS = "select key, type, data, description from artifact"
WORDS = [word for override in QUICK for word in ("--set", override)]


def _start(home, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", *words],
        env=clean_environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _rows(home, query):
    with closing(sqlite3.connect(home / "prefect" / "prefect.db")) as database:
        return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A home after its first `fkd run`, with what the terminal showed."""
    home = seeded(tmp_path_factory.mktemp("run") / "home", tmp_path_factory.getbasetemp())
    process = _start(home, "run", "default", *WORDS)
    out, err = process.communicate()
    return home, process.returncode, out, err


@pytest.fixture(scope="module")
def terminal(first):
    """A terminal for further commands in that home."""
    with CommandLine(clean_environment(first[0]), first[0].parent) as terminal:
        yield terminal


def _took(page):
    """What a report says of the time that its numbers took."""
    return re.search(r"<dt>Duration</dt><dd>([^<]+)</dd>", page)[1]


def test_the_terminal_says_what_the_removal_changed(first):
    said = " ".join(first[2].split())
    assert "The chosen model is KRR-FKD with iterations 4. Compared with the same model" in said
    assert "its dependence on share of Black residents fell" in said


def test_a_fresh_run_ends_well_and_quietly(first):
    home, code, out, err = first
    assert code == 0, err
    assert "Traceback" not in out + err
    assert "KRR-FKD" in out
    assert "report.html" in out
    assert left_after(home, PATIENCE) == []


def test_prefect_shows_the_run_by_name_tags_and_our_lines(first):
    home, _, out, err = first
    (name, tags), *others = _rows(
        home,
        "select name, tags from flow_run where flow_id in "
        "(select id from flow where name = 'experiment')",
    )
    assert others == []
    assert re.fullmatch(r"quick \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", name)
    digest = load_config("default", QUICK).digest[:8]
    ours = {"experiment:quick", "problem:crimes", f"config:{digest}", f"fkd:{__version__}"}
    assert set(json.loads(tags)) == ours
    lines = [line for (line,) in _rows(home, "select message from log")]
    for words in ("1993 rows read", "to compute", "new trial runs of", "champion: KRR-FKD"):
        assert len([line for line in lines if words in line]) == 1
        assert (out + err).count(words) == 1


def test_prefect_shows_the_progress_and_the_result(first):
    home = first[0]
    found = {
        key: (kind, json.loads(str(data)), text)
        for key, kind, data, text in _rows(
            home, "select key, type, data, description from artifact"
        )
        if key is not None
    }
    assert found["progress"] == ("progress", 100, "15 of 15 fits")
    kind, text, _ = found["result-quick"]
    assert kind == "markdown"
    assert "| KRR-FKD ← champion | 4 | 0." in text
    assert "## The champion on held-out rows" in text
    assert (home / "experiments" / "quick" / "report.html").as_uri() in text
    assert "models:/quick@champion" in text
    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    assert client.get_model_version_by_alias("quick", "champion").run_id in text


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


def test_ctrl_c_ends_all_and_the_same_command_continues(first, monkeypatch, capsys):
    home = first[0]
    process = _start(home, "run", "default", "--set", "name=stopped")
    stored = set((home / "store").rglob("*.*"))
    for line in process.stderr:
        if "to compute" in line:
            break
    while set((home / "store").rglob("*.*")) <= stored:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "continues" in err
    assert left_after(home, PATIENCE) == []
    assert not list(home.rglob("*.part"))
    monkeypatch.setenv("FKD_HOME", str(home))
    show_plan([load_config("default", ["name=stopped"])])
    assert "216" in capsys.readouterr().out


def test_a_second_run_computes_nothing_and_changes_no_number(first, terminal):
    home = first[0]
    results = home / "experiments" / "quick" / "results.csv"
    before = results.read_bytes()
    took = _took((home / "experiments" / "quick" / "report.html").read_text())
    stored = {p: p.stat().st_mtime_ns for p in (home / "store").rglob("*.*")}
    code, _, err = terminal.fkd("run", "default", *WORDS)
    assert code == 0, err
    assert "nothing to compute" in err
    page = home / "experiments" / "quick" / "report.html"
    assert _took(page.read_text()) == took
    assert results.read_bytes() == before
    assert {p: p.stat().st_mtime_ns for p in (home / "store").rglob("*.*")} == stored
    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quick")
    assert len(client.search_runs([experiment.experiment_id])) == 4
    assert len(client.search_model_versions("name = 'quick'")) == 1


def test_a_run_whose_gate_refuses_fails_everywhere_and_promotes_nothing(first, terminal):
    home, _, _, _ = first
    uri = f"sqlite:///{home}/mlflow/mlflow.db"
    client = MlflowClient(uri, uri)
    before = client.get_model_version_by_alias("quick", "champion").version
    words = ("--set", "gate={gdp: 0.000001}", "--set", "select={minimise: mae, inner_folds: 2}")
    code, out, err = terminal.fkd("run", "default", *WORDS, *words)
    assert code == 3, err
    assert "Traceback" not in out + err
    assert "The champion breaks the gate: gdp on racepctblack" in err + out
    said = " ".join(out.split())
    assert "The chosen model breaks its limit: GDP on share of Black residents" in said
    page = (home / "experiments" / "quick" / "report.html").read_text()
    top = page[: page.index('<p class="lead">')]
    assert "The chosen model breaks its limit: GDP on share of Black residents" in top
    assert "models:/quick@candidate" in out
    assert client.get_model_version_by_alias("quick", "champion").version == before
    refused = client.get_model_version_by_alias("quick", "candidate")
    assert refused.version != before
    assert refused.tags["fkd.finding"].startswith("limit broken; ")
    assert "The chosen model breaks its limit: GDP" in refused.description
    assert refused.tags["fkd.verdict"].startswith("refused: gdp on racepctblack")
    assert _rows(home, "select state_type from flow_run order by created")[-1] == ("FAILED",)
    texts = [
        text for (text,) in _rows(home, "select data from artifact where key = 'result-quick'")
    ]
    assert len([text for text in texts if "## Broken limits" in text]) == 1


def test_the_advice_of_a_report_keeps_what_was_set(terminal):
    code, _, err = terminal.fkd("report", "default", *WORDS, "--set", "seed=7")
    assert code == 2
    assert f"`{shlex.join(['fkd', 'run', 'default', *WORDS, '--set', 'seed=7'])}`" in err
