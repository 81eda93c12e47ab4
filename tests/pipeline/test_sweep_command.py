"""Sweeps: their axes, one failing run among others, what a second sweep computes."""

import json
import sqlite3
import sys
from contextlib import closing

import pytest
import yaml
from dask_process import THREADS
from flow_stages import run_stages
from mlflow.tracking import MlflowClient
from server_process import PATIENCE, left_after, seeded
from sweep_process import fkd, records

from configs.errors import UserError
from configs.load import load_configs
from flows.cli import main
from flows.outcome import Cell, Outcome, SweepFailedError, end_runs
from tasks.data.census import write_synthetic_census

YEAR = 2017  # of which no checksums are known
METHOD = {
    "name": "krr_fkd",
    "grid": {"iterations": [0, 2]},
    "approximation": {"kind": "nystroem", "landmarks": 30},
}
STATES = "data.states=[[WY], [VT], [ND]]"
NAMES = ["states-WY", "states-VT", "states-ND"]


def write_state(mirror, state):
    path = mirror / f"census/{YEAR}/1-Year/csv_p{state.lower()}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synthetic_census(path, state=state, year=YEAR, rows=400, seed=4)


@pytest.fixture
def mirror(tmp_path):
    """A mirror with the first and the last of three states."""
    for state in ("WY", "ND"):
        write_state(tmp_path / "mirror", state)
    return tmp_path / "mirror"


@pytest.fixture
def source(tmp_path):
    """A small configuration of one state, whose hooks append their message to a file."""
    script = f"import sys; open({str(tmp_path / 'heard')!r}, 'a').write(sys.stdin.read() + chr(10))"
    hook = {"command": [sys.executable, "-c", script]}
    tree = {
        "name": "states",
        "data": {"problem": "acs_income", "source": "census", "states": ["WY"], "year": YEAR},
        "folds": {"k": 2},
        "methods": ["dummy", METHOD],
        "select": {"inner_folds": 2},
        "cluster": THREADS,
        "hooks": {"on_success": hook, "on_failure": hook},
    }
    path = tmp_path / "states.yaml"
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def heard(folder):
    """The states that hooks were told since the last look, by run."""
    file = folder / "heard"
    messages = [json.loads(line) for line in file.read_text().splitlines()]
    file.unlink()
    return {message["name"]: message["state"] for message in messages}


def test_every_combination_of_file_and_command_line_is_a_run(source):
    configs = load_configs(source, ["sweep={seed: [0, 1]}"], ["data.states=[[MT], [ID]]"])
    found = {config.name: (config.seed, config.data.states) for config in configs}
    assert found == {
        "states-0-MT": (0, ("MT",)),
        "states-0-ID": (0, ("ID",)),
        "states-1-MT": (1, ("MT",)),
        "states-1-ID": (1, ("ID",)),
    }


@pytest.mark.parametrize(
    ("over", "says"),
    [
        (["data.year=2017"], "data.year must be a list"),
        (["data.year=[]"], "data.year must be a list"),
        (["data.year"], "path.to.key=value"),
        (["data.year=[2017", "seed=[0]"], "data.year"),
        (["seed=[0]", "seed=[1]"], "seed is given twice"),
        (["folds.k=[2, 3]"], "folds.k is given twice"),
        (["data.yaer=[2017, 2018]"], "'year'"),
        (["data.states=[[XX]]"], "data.states"),
        (["seed=[0, 0]"], "must differ"),
    ],
)
def test_a_wrong_axis_is_refused_before_any_work(source, settings, over, says, capsys):
    words = [word for text in over for word in ("--over", text)]
    with pytest.raises(SystemExit) as ended:
        main(["sweep", source, "--set", "sweep={folds.k: [2]}", *words])
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not settings.home.exists()


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_file_of_several_runs_is_left_to_sweep(source, command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, source, "--set", "sweep={seed: [0, 1]}"])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{source} describes 2 runs. Use `fkd sweep {source}`." in said


def test_a_dry_run_plans_every_run_and_computes_nothing(
    source, settings, mirror, monkeypatch, capsys
):
    monkeypatch.setenv("FKD_DATA_MIRROR", str(mirror))
    with pytest.raises(SystemExit) as ended:
        main(["sweep", source, "--over", "data.states=[[WY], [ND]]", "--dry-run"])
    assert ended.value.code == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    planned = {row[0]: row[1:5] for row in rows if row and row[0].startswith("states-")}
    assert planned == {"states-WY": ["3", "12", "0", "12"], "states-ND": ["3", "12", "0", "12"]}
    assert records(settings.home) == {}


def test_a_run_whose_rows_are_too_few_does_not_stop_the_others(
    source, settings, mirror, monkeypatch
):
    monkeypatch.setenv("FKD_DATA_MIRROR", str(mirror))
    configs = load_configs(source, [], ["data.sample=[200, 3, 150]"])
    first, second, third = run_stages(*configs)
    assert isinstance(second, UserError)
    assert "folds" in str(second)
    for outcome in (first, third):
        assert isinstance(outcome, Outcome)
        assert outcome.problem() is None


def test_a_run_that_cannot_be_concluded_does_not_stop_the_others(
    source, settings, mirror, monkeypatch
):
    monkeypatch.setenv("FKD_DATA_MIRROR", str(mirror))
    configs = load_configs(source, [], ["seed=[0, 1, 2]"])
    # A folder where the file belongs: writing the report fails.
    (settings.experiments / "states-1" / "report.html").mkdir(parents=True)
    ends = run_stages(*configs)
    assert [isinstance(end, Outcome) for end in ends] == [True, False, True]
    cells = [Cell(config, end) for config, end in zip(configs, ends, strict=True)]
    with pytest.raises(SweepFailedError, match=r"1 of 3 runs failed\. states-1: "):
        end_runs(cells)
    assert heard(settings.home.parent) == {
        "states-0": "success",
        "states-1": "failure",
        "states-2": "success",
    }


def test_the_error_of_a_single_run_is_raised(source, settings, mirror, monkeypatch):
    monkeypatch.setenv("FKD_DATA_MIRROR", str(mirror))
    with pytest.raises(UserError, match="folds"):
        run_stages(*load_configs(source, ["data.sample=3"]))


def _prefect(home, query):
    with closing(sqlite3.connect(home / "prefect" / "prefect.db")) as database:
        return database.execute(query).fetchall()


@pytest.mark.stack
def test_a_failed_download_is_repaired_by_the_same_command(
    source, mirror, tmp_path, tmp_path_factory
):
    home = seeded(tmp_path / "home", tmp_path_factory.getbasetemp(), mlflow=True)
    # Nothing listens there: the publisher cannot be reached either.
    there = {"FKD_DATA_MIRROR": str(mirror), "HTTPS_PROXY": "http://127.0.0.1:1"}
    command = ("sweep", source, "--over", STATES)

    code, said = fkd(home, *command, **there)
    assert code == 3, said
    assert "Traceback" not in said
    table = said[said.index("Runs of the sweep") :].splitlines()[1:4]
    assert [line.split()[:2] for line in table] == [
        ["states-WY", "done"],
        ["states-VT", "failed"],
        ["states-ND", "done"],
    ]
    assert table[0].endswith(str(home / "experiments" / "states-WY" / "report.html"))
    assert "csv_pvt.zip could not be fetched" in table[1]
    assert "1 of 3 runs failed" in said
    assert heard(tmp_path) == dict(zip(NAMES, ["success", "failure", "success"], strict=True))
    (state,) = _prefect(home, "select state_type from flow_run where name like 'states-WY%'")
    assert state == ("FAILED",)
    ((artifact,),) = _prefect(home, "select data from artifact where key = 'sweep'")
    assert "| states-VT | failed |" in json.loads(artifact)
    client = MlflowClient(f"sqlite:///{home / 'mlflow' / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'states'")
    runs = client.search_runs([experiment.experiment_id])
    parents = {
        run.info.run_name: run.info.run_id for run in runs if "fkd.identity" in run.data.tags
    }
    assert set(parents) == {"states-WY", "states-ND"}
    for parent in parents.values():
        children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent]
        assert len(children) == 3

    before = records(home)
    code, said = fkd(home, *command, **there)
    assert code == 3, said
    assert "all stored, nothing to compute" in said
    assert records(home) == before

    write_state(mirror, "VT")
    code, said = fkd(home, *command, **there)
    assert code == 0, said
    after = records(home)
    assert len(after) == len(before) * 3 // 2
    assert before.items() <= after.items()
    assert (home / "experiments" / "states-VT" / "report.html").exists()
    assert left_after(home, PATIENCE) == []
