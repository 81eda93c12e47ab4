import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from server_process import RUN, Holder, clean_environment, left_after, listening, read, seeded

from configs.errors import UserError
from flows.schedule import make_schedule, serve_schedule
from tasks.adapters.servers.prefect_environment import client_environment
from tasks.adapters.servers.shared_server import read_record

SERVE = """
import sys
from flows.schedule import make_schedule, serve_flow
from tasks.adapters.servers.prefect_environment import client_environment, quiet_children
from tasks.adapters.servers.prefect_server import prefect_server
from tasks.adapters.settings import read_settings

settings = read_settings()
with client_environment(settings), prefect_server(settings) as url, quiet_children():
    from sleeper import sleeper

    schedule = make_schedule(None, 2.0)
    serve_flow(sleeper, name="naps", schedule=schedule, parameters={}, address=url)
"""

SLEEPER = """
import time
from prefect import flow
from tasks.adapters.servers.lifeline import end_with_parent

@flow
def sleeper():
    end_with_parent()
    time.sleep(120)
"""

SMALL = ("name=small", "folds.k=2", "methods=[dummy]", "cluster.workers=1")


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """The address of a running Prefect server, as a user would name it."""
    home = seeded(tmp_path_factory.mktemp("api") / "home", tmp_path_factory.getbasetemp())
    with Holder(RUN, home=home) as run:
        yield run.url()
        run.leave()


@pytest.fixture
def sleeping(api, tmp_path):
    """A process that serves a long flow, just when the flow runs."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    environment = clean_environment(tmp_path / "home")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE],
        env={**environment, "PREFECT_API_URL": api, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _wait_for(api, "RUNNING", process)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert left_after(tmp_path, 30) == []


def _post(url, **body):
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def _states(api):
    runs = _post(f"{api}/flow_runs/filter", deployments={"name": {"like_": "s"}})
    return [run["state_type"] for run in runs]


def _wait_for(api, state, process, seconds=600):
    deadline = time.monotonic() + seconds
    while state not in (found := _states(api)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.timeout(900)  # a whole run on a schedule; a busy machine takes minutes
def test_a_scheduled_run_completes_with_its_mlflow_run(tmp_path, tmp_path_factory):
    home = seeded(tmp_path / "home", tmp_path_factory.getbasetemp())
    words = [word for change in SMALL for word in ("--set", change)]
    with subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "schedule", "--every", "5", *words],
        env={**clean_environment(home), "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        first = process.stderr.readline()
        _wait_for(read_record(home / "prefect")["url"] + "/api", "COMPLETED", process)
        interfaces = listening(home)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    assert read_record(home / "prefect") == {}
    assert "scheduled-experiment/small is served by http://127.0.0.1:" in first
    assert "Traceback" not in rest
    assert interfaces == {"127.0.0.1"}
    assert left_after(home, 0) == []
    with sqlite3.connect(home / "mlflow" / "mlflow.db") as database:
        assert ("FINISHED",) in database.execute("select status from runs").fetchall()
    database.close()


def test_ctrl_c_in_the_middle_of_a_run_cancels_it_quietly(api, sleeping, tmp_path):
    # As a terminal does it: to the whole group, runs included.
    os.killpg(sleeping.pid, signal.SIGINT)
    _, noise = sleeping.communicate(timeout=60)
    assert sleeping.returncode == 0
    assert "Traceback" not in noise
    assert "no longer served" in noise
    assert "CANCELLED" in _states(api)
    assert left_after(tmp_path, 0) == []


@pytest.mark.slow
def test_a_killed_schedule_takes_its_run_along(sleeping, tmp_path):
    sleeping.kill()
    assert left_after(tmp_path, 30) == []


def test_the_deployment_is_accepted_by_a_real_server(api, tmp_path):
    _post(f"{api}/work_pools/", name="fkd", type="process")
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("prefect"), "--no-prompt", "deploy"),
            *("--prefect-file", "deploy/prefect.yaml", "--all"),
        ],
        cwd=Path(__file__).parent.parent,
        env={
            **clean_environment(tmp_path / "home"),
            "PREFECT_API_URL": api,
            "PREFECT_HOME": str(tmp_path),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(read(f"{api}/deployments/name/scheduled-experiment/default"))
    assert found["entrypoint"] == "flows.scheduled.scheduled_experiment"
    assert found["parameters"] == {"source": "default", "overrides": []}
    assert [item["schedule"]["cron"] for item in found["schedules"]] == ["0 3 * * 1"]


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
