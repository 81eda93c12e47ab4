import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from dask_process import threads
from prefect_api import (
    PATIENCE,
    api_of,
    artifacts_of,
    ask,
    deployment,
    ended_run,
    lines_with,
    runs_of,
    server_variables,
    start_run,
    wait_until,
)
from server_process import clean_environment, left_after, listening, seeded

from configs.errors import UserError
from configs.load import load_config
from fkd import __version__
from flows.schedule import check_home, make_schedule, serve_schedule
from tasks.servers.servers import client_environment
from tasks.servers.shared_server import read_record

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]

SERVE = """
import sys
from flows.schedule import make_schedule, serve_flow
from tasks.servers.servers import client_environment, quiet_children
from tasks.servers.servers import prefect_server
from tasks.storage.settings import read_settings

settings = read_settings()
with client_environment(settings), prefect_server(settings) as url, quiet_children():
    from sleeper import sleeper

    schedule = make_schedule(None, 2.0)
    serve_flow(sleeper, name="naps", schedule=schedule, parameters={}, address=url)
"""

SLEEPER = """
import pathlib, time
from prefect import flow
from tasks.cluster.signals import end_with_parent

@flow
def sleeper():
    pathlib.Path(__file__).with_name("asleep").touch()
    end_with_parent()
    time.sleep(600)
"""

SMALL = (
    "name=small",
    "folds.k=2",
    "methods=[{name: krr_fkd, grid: {iterations: [0]}, "
    "approximation: {kind: nystroem, landmarks: 40}}]",
    "select={inner_folds: 2}",
    threads(1),
)
QUICK_SERVER = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1",
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
}


class Schedule:
    """`fkd schedule` as a user starts it, in a folder of its own, without FKD_HOME."""

    def __init__(self, folder, base):
        self.folder, self.home = folder, seeded(folder / ".fkd", base, mlflow=True)
        words = [word for change in SMALL for word in ("--set", change)]
        self.environment = {**clean_environment(self.home), **QUICK_SERVER}
        without = {k: v for k, v in self.environment.items() if k != "FKD_HOME"}
        with (folder / "terminal.txt").open("w") as terminal:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flows.cli", "schedule", "--every", "5", *words],
                cwd=folder,
                env=without,
                stderr=terminal,
                start_new_session=True,
            )
        self.line("is served by")
        self.api = api_of(self.home)
        self.deployment = deployment(self.api, "scheduled-experiment/small")["id"]

    def alive(self):
        return self.process.poll() is None

    def terminal(self):
        return (self.folder / "terminal.txt").read_text()

    def line(self, words):
        """The first whole line with these words, once it is there."""

        def found():
            lines = self.terminal().splitlines(keepends=True)
            return next((x for x in lines if words in x and x.endswith("\n")), None)

        return wait_until(found, self.alive)


@pytest.fixture(scope="module")
def schedule(tmp_path_factory):
    """A schedule whose server the other tests of this file use, too."""
    schedule = Schedule(tmp_path_factory.mktemp("schedule"), tmp_path_factory.getbasetemp())
    try:
        yield schedule
    finally:
        with suppress(ProcessLookupError):
            os.killpg(schedule.process.pid, signal.SIGKILL)
        schedule.process.wait()
        assert left_after(schedule.folder, PATIENCE) == []


@pytest.fixture(scope="module")
def finished(schedule):
    """The first run that came of the schedule, at its end; no other one begins."""

    def begun():
        runs = runs_of(schedule.api, schedule.deployment)
        return [run["id"] for run in runs if run["state_type"] in ("RUNNING", "COMPLETED")]

    (run,) = wait_until(begun, schedule.alive)
    ask(f"{schedule.api}/deployments/{schedule.deployment}/pause_deployment")
    return ended_run(schedule.api, run, schedule.alive)


@pytest.mark.timeout(900)  # a whole run on a schedule; a busy machine takes minutes
def test_a_scheduled_run_completes_with_its_report_and_its_mlflow_run(schedule, finished):
    assert finished["state_type"] == "COMPLETED"
    assert (schedule.home / "experiments" / "small" / "report.html").exists()
    with closing(sqlite3.connect(schedule.home / "mlflow" / "mlflow.db")) as database:
        assert ("FINISHED",) in database.execute("select status from runs").fetchall()
    assert listening(schedule.folder) == {"127.0.0.1"}


def test_a_scheduled_run_is_one_line_with_times_outcome_and_report(schedule, finished):
    report = schedule.home / "experiments" / "small" / "report.html"
    line = schedule.line("run small ")
    assert re.search(
        r"run small \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d to "
        rf"\d\d:\d\d:\d\d UTC, completed after \d+ s; report: {re.escape(str(report))}\n$",
        line,
    )


def test_a_scheduled_run_has_a_telling_name_and_tags(finished):
    assert re.fullmatch(r"small \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", finished["name"])
    config = load_config("default", SMALL)
    ours = {"experiment:small", "problem:crimes", f"config:{config.digest[:8]}"}
    assert set(finished["tags"]) == {*ours, f"fkd:{__version__}", "fkd", "auto-scheduled"}


def test_our_lines_stand_in_prefects_log_and_once_on_the_terminal(schedule, finished):
    for words in ("1993 rows read", "to compute", "new trial runs of", "champion: KRR-FKD"):
        assert len(lines_with(schedule.api, finished["id"], words, schedule.alive)) == 1
        assert schedule.terminal().count(words) == 1
    assert "Finished in state" not in schedule.terminal()


def test_the_run_shows_its_progress_and_its_result(schedule, finished):
    found = artifacts_of(schedule.api, finished["id"])
    progress, result = found["progress-fits"], found["result-small"]
    assert (progress["type"], progress["data"]) == ("progress", 100)
    assert progress["description"] == "4 of 4 fits"
    assert result["type"] == "markdown"
    assert (schedule.home / "experiments" / "small" / "report.html").as_uri() in result["data"]
    assert "KRR-FKD ← champion" in result["data"]


@pytest.mark.timeout(900)
def test_a_scheduled_run_that_breaks_its_gate_fails_by_its_sentence(schedule, finished):
    words = {"source": "default", "overrides": [*SMALL, "gate={gdp: 0.000001}"]}
    run = start_run(schedule.api, schedule.deployment, parameters=words)
    told = ended_run(schedule.api, run, schedule.alive)
    assert told["state_type"] == "FAILED"
    line = schedule.line(f"run {told['name']}")
    assert re.search(r"UTC, failed after \d+ s; The champion breaks the gate: gdp on race", line)
    assert "Traceback" not in schedule.terminal()
    result = artifacts_of(schedule.api, run)["result-small"]
    assert "## Broken limits\n\n- gdp on racepctblack is " in result["data"]


@pytest.fixture(scope="module")
def worker(schedule, finished, tmp_path_factory):
    """A worker by the words of deploy/prefect.yaml to the letter; where its results shall lie."""
    text = (ROOT / "deploy" / "prefect.yaml").read_text()
    export, *commands, start = [x.removeprefix("#   ") for x in text.splitlines() if "#   " in x]
    assert export == "export FKD_HOME=/srv/fkd"
    folder = tmp_path_factory.mktemp("worker")
    home = seeded(folder / "home", tmp_path_factory.getbasetemp(), mlflow=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**clean_environment(home), "PATH": programs, **server_variables(schedule.home)}
    environment |= {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    for command in commands:
        done = subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with (folder / "worker.txt").open("w") as terminal:
        process = subprocess.Popen(
            shlex.split(start),
            cwd=folder,
            # As on another machine: only the deployment names the home.
            env={k: v for k, v in environment.items() if k != "FKD_HOME"},
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, home
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        assert left_after(folder, PATIENCE) == []


def test_the_deployment_is_what_its_file_says(schedule, worker):
    found = deployment(schedule.api, "scheduled-experiment/default")
    assert found["entrypoint"] == "flows.schedule.scheduled_experiment"
    assert found["parameters"] == {"source": "default", "overrides": []}
    assert [item["schedule"]["cron"] for item in found["schedules"]] == ["0 3 * * 1"]
    assert found["job_variables"]["env"]["FKD_HOME"] == str(worker[1])
    watch = deployment(schedule.api, "scheduled-watch/watch")
    assert watch["entrypoint"] == "flows.schedule.scheduled_watch"
    # It names no rows yet: nothing runs until somebody has said which.
    assert [item["active"] for item in watch["schedules"]] == [False]


@pytest.mark.timeout(900)
def test_the_results_of_a_deployed_worker_lie_in_the_named_home(schedule, worker):
    process, home = worker
    run = start_run(
        schedule.api,
        deployment(schedule.api, "scheduled-experiment/default")["id"],
        parameters={"source": "default", "overrides": [*SMALL, "name=deployed"]},
    )
    told = ended_run(schedule.api, run, lambda: process.poll() is None)
    assert told["state_type"] == "COMPLETED"
    assert told["name"].startswith("deployed ")
    assert {"fkd", "experiment:deployed"} <= set(told["tags"])
    report = home / "experiments" / "deployed" / "report.html"
    assert report.exists()
    assert report.as_uri() in artifacts_of(schedule.api, run)["result-deployed"]["data"]


@pytest.mark.timeout(900)
def test_a_deployed_worker_refuses_to_start_without_a_home(schedule, worker):
    process, _ = worker
    run = start_run(
        schedule.api,
        deployment(schedule.api, "scheduled-experiment/default")["id"],
        job_variables={"env": {"FKD_HOME": ""}},
    )
    told = ended_run(schedule.api, run, lambda: process.poll() is None)
    assert told["state_type"] == "FAILED"
    assert (
        "FKD_HOME must be the absolute path of a folder that outlives" in told["state"]["message"]
    )


@pytest.mark.timeout(900)
def test_ctrl_c_in_the_middle_of_a_run_cancels_it_quietly(schedule, finished):
    words = {"source": "default", "overrides": ["name=long"]}
    run = start_run(schedule.api, schedule.deployment, parameters=words)
    schedule.line("216 in ")
    # As a terminal does it: to the whole group, runs included.
    os.killpg(schedule.process.pid, signal.SIGINT)
    assert schedule.process.wait(PATIENCE) == 0
    assert left_after(schedule.folder, 0) == []
    assert read_record(schedule.home / "prefect") == {}
    assert re.search(r"run long .* UTC, cancel.* after \d+ s", schedule.terminal())
    assert "Traceback" not in schedule.terminal()
    assert "no longer served" in schedule.terminal()
    with closing(sqlite3.connect(schedule.home / "prefect" / "prefect.db")) as database:
        rows = database.execute("select state_type from flow_run where id = ?", (run,))
        assert rows.fetchall() == [("CANCELLED",)]


@pytest.fixture
def sleeping(tmp_path, tmp_path_factory):
    """A process that serves a long flow, just when the flow runs."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    home = seeded(tmp_path / "home", tmp_path_factory.getbasetemp())
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE],
        env={**clean_environment(home), **QUICK_SERVER, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: (tmp_path / "asleep").exists(), lambda: process.poll() is None)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_killed_schedule_takes_its_run_along(sleeping, tmp_path):
    sleeping.kill()
    assert left_after(tmp_path, PATIENCE) == []


@pytest.mark.parametrize("named", ["", "relative/home", "{{ $FKD_HOME }}"])
def test_a_home_that_would_not_outlive_the_run_is_refused(settings, monkeypatch, named):
    monkeypatch.setenv("FKD_HOME", named)
    with pytest.raises(UserError, match=f"outlives a scheduled run, got {re.escape(repr(named))}"):
        check_home()


def test_a_home_by_its_absolute_path_is_accepted(settings, monkeypatch):
    check_home()
    monkeypatch.setenv("FKD_HOME", "~/fkd")
    check_home()


@pytest.mark.parametrize(
    ("cron", "every", "match"),
    [
        ("every monday", None, r"cron expression, got 'every monday'.*0 3 \* \* 1"),
        ("61 3 * * 1", None, "cron expression"),
        ("", None, "cron expression"),
        (None, None, "either --cron or --every"),
        ("0 3 * * 1", 60.0, "either --cron or --every"),
        (None, 0.0, "at least 1 second, got 0"),
        (None, -5.0, "at least 1 second, got -5"),
        (None, float("nan"), "at least 1 second, got nan"),
    ],
)
def test_a_wrong_rhythm_is_told_with_an_example(settings, cron, every, match):
    with client_environment(settings), pytest.raises(UserError, match=match):
        make_schedule(cron, every)


def test_a_cron_expression_is_read_in_utc(settings):
    with client_environment(settings):
        schedule = make_schedule("0 3 * * 1", None)
    assert (schedule.cron, schedule.timezone) == ("0 3 * * 1", "UTC")


def test_a_wrong_configuration_is_told_before_anything_is_started(settings):
    with pytest.raises(UserError, match="no_such"):
        serve_schedule("no_such.yaml", (), cron="0 3 * * 1", every=None)
    assert not settings.prefect.exists()
