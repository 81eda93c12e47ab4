"""A real MLflow server on loopback that a test may kill, stop and start again."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg2
import pytest
from mlflow.tracking import MlflowClient

from tasks.servers.shared_server import answers, free_port
from tasks.storage.settings import Settings
from tasks.track.client import tracking_uri
from tasks.track.runs import Tracking

_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
_PATIENCE = 180.0  # seconds; a busy machine needs many


class MlflowServer:
    """An `mlflow server` process group on a port of its own; its state outlives it."""

    def __init__(self, database: str, folder: Path, *options: str, **variables: str) -> None:
        self._variables = variables
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        self._command += ["--port", str(self.port), "--workers", "1"]
        self._command += ["--backend-store-uri", database]
        self._command += ["--artifacts-destination", str(folder / "artifacts"), *options]

    def start(self) -> None:
        """Return once it answers."""
        environment = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            # MLflow calls uvicorn by its bare name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **self._variables,
        }
        self.process = subprocess.Popen(
            self._command, env=environment, start_new_session=True, **_QUIET
        )
        deadline = time.monotonic() + _PATIENCE
        while not answers(f"{self.uri}/health"):
            assert self.process.poll() is None, "the MLflow server ended by itself"
            assert time.monotonic() < deadline, "the MLflow server did not come up"
            time.sleep(0.1)

    def signal(self, number: int) -> None:
        """Send a signal to the server with all its children."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """End it as no process can prepare for."""
        if self.process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def mlflow_server(
    database: str, folder: Path, *options: str, **variables: str
) -> Iterator[MlflowServer]:
    """A server that is not started yet; it is gone afterwards."""
    server = MlflowServer(database, folder, *options, **variables)
    try:
        yield server
    finally:
        server.kill()


@cache
def _warm_database(base: Path) -> bytes:
    """The bytes of a created sqlite database: its schema takes many seconds to make."""
    settings = Settings(base / "warm-mlflow" / "home", None, None, None)
    Tracking(settings, "warm")
    return (settings.mlflow / "mlflow.db").read_bytes()


def warm_mlflow(folder: Path, base: Path) -> Path:
    """A folder with a created MLflow database; `base` is the session's own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mlflow.db").write_bytes(_warm_database(base))
    return folder / "mlflow.db"


def recorded_trials(settings: Settings, experiment: str) -> list[str]:
    """The key of every run of a trial in an experiment: twice where it was recorded twice."""
    client = MlflowClient(tracking_uri(settings))
    place = client.get_experiment_by_name(experiment)
    runs = client.search_runs([place.experiment_id], max_results=10_000)
    trials = [run for run in runs if "fkd.trial" in run.data.tags]
    assert {run.info.status for run in trials} == {"FINISHED"}
    return [run.data.tags["fkd.trial"] for run in trials]


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL database of the test's own, gone afterwards."""
    programs = postgres_programs()
    # Beside the temporary folder of the tests, which only their user may enter.
    folder = Path(tempfile.mkdtemp(prefix="fkd-postgres-"))
    user = unprivileged(folder)
    port = free_port()
    try:
        make = [programs / "initdb", "-D", folder / "db", "-A", "trust", "-U", "fkd", "--no-sync"]
        subprocess.run([*user, *make], check=True, cwd=folder, **_QUIET)
        serve = [programs / "postgres", "-D", folder / "db", "-k", folder, "-F"]
        server = subprocess.Popen(
            [*user, *serve, "-h", "127.0.0.1", "-p", str(port)], cwd=folder, **_QUIET
        )
        try:
            address = f"postgresql://fkd@127.0.0.1:{port}/postgres"
            _wait_for_database(address, server)
            yield address
        finally:
            server.send_signal(signal.SIGINT)  # postgres: end now, open connections or not
            server.wait(60)
    finally:
        shutil.rmtree(folder)


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs; the test is skipped where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and (anywhere := shutil.which("initdb")):
        found = [Path(anywhere)]
    if not found:
        pytest.skip("needs PostgreSQL: `make system` installs Debian's package")
    return found[-1].parent


def unprivileged(folder: Path) -> list[str]:
    """The prefix of a command as a user whom PostgreSQL accepts: never root."""
    if os.getuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv (util-linux): PostgreSQL refuses to run as root")
    try:
        shutil.chown(folder, user="postgres")
    except LookupError:
        pytest.skip("needs the user postgres: PostgreSQL refuses to run as root")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def _wait_for_database(address: str, server: subprocess.Popen[bytes]) -> None:
    """Return once the database takes connections."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            psycopg2.connect(address).close()
        except psycopg2.OperationalError:
            assert server.poll() is None, "PostgreSQL ended by itself"
            assert time.monotonic() < deadline, "PostgreSQL did not come up"
            time.sleep(0.1)
        else:
            return
