"""A team's Prefect server: a worker that is killed in a sweep, a failure that is told."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from dask_process import threads
from prefect_api import (
    PATIENCE,
    artifacts_of,
    ask,
    deployment,
    ended_run,
    start_run,
    wait_until,
)
from server_process import clean_environment, left_after, seeded
from sweep_process import records

from tasks.servers.shared_server import free_port

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SMALL = [
    "folds.k=2",
    "data.sample=400",
    "methods=[dummy, {name: krr_fkd, grid: {iterations: [0, 2]}, "
    "approximation: {kind: nystroem, landmarks: 40}}]",
    "select={inner_folds: 2}",
    threads(1),
]


class Team:
    """A Prefect server with the deployments of deploy/prefect.yaml."""

    def __init__(self, folder, base):
        self.folder = folder
        self.home = seeded(folder / "home", base, mlflow=True)
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        self.environment = {
            **clean_environment(self.home),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": self.api,
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "PREFECT_WORKER_HEARTBEAT_SECONDS": "5",
        }
        self.server = self.start("prefect", "server", "start", "--port", str(port))
        wait_until(self._answers, lambda: self.server.poll() is None)
        # As deploy/README.md has them.
        text = (ROOT / "deploy" / "README.md").read_text()
        lines = [x for x in text.splitlines() if x.startswith("prefect ")]
        commands = [x for x in lines if "work-pool" in x or " deploy " in x]
        assert len(commands) == 2
        for words in commands:
            self.call(*shlex.split(words))

    def call(self, *words):
        """What a command of the team's prints."""
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _answers(self):
        try:
            return ask(f"{self.api}/health", "GET") is True
        except OSError:
            return False

    def start(self, *words):
        """A process of the team's, whose terminal is kept."""
        with (self.folder / f"{words[1]}.txt").open("a") as terminal:
            return subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.STDOUT,
            )

    def worker(self):
        return self.start("prefect", "worker", "start", "--pool", "fkd")

    def run(self, name, **parameters):
        found = deployment(self.api, name)["id"]
        return start_run(self.api, found, parameters=parameters)


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    found = Team(folder, tmp_path_factory.getbasetemp())
    try:
        yield found
    finally:
        found.server.terminate()
        found.server.wait(PATIENCE)
        assert left_after(folder, PATIENCE) == []


def test_every_deployment_of_the_file_is_there(team):
    told = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())["deployments"]
    found = {d["name"]: d for d in ask(f"{team.api}/deployments/filter")}
    assert set(found) == {entry["name"] for entry in told}
    assert set(found) == {"default", "refresh", "sweep", "reproduction", "watch"}
    for entry in told:
        ours = found[entry["name"]]
        assert ours["entrypoint"] == entry["entrypoint"]
        assert set(entry["tags"]) <= set(ours["tags"])
        assert "fkd" in ours["tags"]
        limit = ours.get("global_concurrency_limit") or {}
        assert limit.get("limit") == entry["concurrency_limit"]
        assert ours["parameters"] == entry["parameters"]


@pytest.mark.timeout(1500)
def test_a_killed_worker_costs_a_sweep_nothing_that_was_stored(team):
    words = {"source": "default", "overrides": [*SMALL, "name=seeds", "sweep={seed: [0, 1, 2]}"]}
    worker = team.worker()
    first = team.run("scheduled-experiment/sweep", **words)
    wait_until(lambda: records(team.home), lambda: worker.poll() is None)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    before = records(team.home)
    ask(f"{team.api}/flow_runs/{first}/set_state", state={"type": "CRASHED"}, force=True)
    worker = team.worker()
    try:
        again = team.run("scheduled-experiment/sweep", **words)
        told = ended_run(team.api, again, lambda: worker.poll() is None)
        assert told["state_type"] == "COMPLETED", told["state"]
        assert before.items() <= records(team.home).items()
        shown = artifacts_of(team.api, again)["sweep"]["data"]
        for seed in range(3):
            assert f"| seeds-{seed} | done |" in shown.replace("\\", "")
            assert (team.home / "experiments" / f"seeds-{seed}" / "report.html").exists()
    finally:
        worker.send_signal(signal.SIGINT)
        worker.wait(PATIENCE)


@pytest.mark.timeout(1500)
def test_a_refresh_and_a_reproduction_end_with_what_they_found(team):
    worker = team.worker()
    try:
        asked = {
            "scheduled-refresh/refresh": {"source": "default"},
            "scheduled-reproduction/reproduction": {"names": ["E0"], "quick": True},
        }
        runs = {name: team.run(name, **words) for name, words in asked.items()}
        for run in runs.values():
            told = ended_run(team.api, run, lambda: worker.poll() is None)
            assert told["state_type"] == "COMPLETED", told["state"]
        # Who looks at the server sees verdicts, not only that it ended.
        shown = artifacts_of(team.api, runs["scheduled-reproduction/reproduction"])
        assert "E0" in shown["result-paper"]["data"]
        assert (team.home / "experiments" / "paper-quick" / "report.html").exists()
    finally:
        worker.send_signal(signal.SIGINT)
        worker.wait(PATIENCE)


@contextmanager
def _listener():
    """An address on loopback, with what was posted to it."""
    found = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self):
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/secret-path", found
        server.shutdown()
        thread.join()


@pytest.mark.timeout(900)
def test_a_failed_run_calls_the_webhook_as_documented(team):
    with _listener() as (address, heard):
        team.environment["HOOK"] = address
        page = (ROOT / "docs" / "howto" / "schedule.md").read_text()
        code = re.search(r"python -c '(.*?)'", page)[1]
        text = re.search(r"```yaml\n(name: fkd-failure\n.*?)```", page, re.DOTALL)[1]
        block = team.call(sys.executable, "-c", code).strip()
        path = team.folder / "automation.yaml"
        path.write_text(re.sub(r"0+(-0+){4}", block, text))
        team.call("prefect", "automation", "create", "--from-file", str(path))
        worker = team.worker()
        try:
            run = team.run("scheduled-experiment/sweep", source="no-such-configuration")
            told = ended_run(team.api, run, lambda: worker.poll() is None)
            assert told["state_type"] == "FAILED"
            (message,) = wait_until(lambda: list(heard), lambda: team.server.poll() is None)
            assert message["flow"] == "scheduled-experiment"
            assert message["run"] == told["name"]
        finally:
            worker.send_signal(signal.SIGINT)
            worker.wait(PATIENCE)
