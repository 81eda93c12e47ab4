"""Schedulers and workers that others started: addresses, packages, how often a job is tried."""

import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from dask_process import dask_process, dask_scheduler
from deadlines import patient
from job_sample import touch

from configs.errors import UserError
from configs.run import ClusterConfig
from fkd import __version__
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.cluster.workers import WorkerMonitor
from tasks.servers.shared_server import free_port

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address():
    """A scheduler without workers, as `dask scheduler` starts it."""
    with dask_scheduler(free_port()) as (_, found):
        yield found


@pytest.fixture
def client(address, settings):
    with connect(ClusterConfig(address=address), settings) as found:
        yield found


def _jobs(folder, *behaviours):
    return [(str(folder), f"{i}", behaviour) for i, behaviour in enumerate(behaviours)]


def _tries(folder, name="0"):
    return len((folder / name).read_text())


def _allowed_failures(client, count=None):
    """How often this scheduler by itself tries a job again whose worker died; set where given."""

    def ask(dask_scheduler):
        if count is not None:
            dask_scheduler.allowed_failures = count
        return dask_scheduler.allowed_failures

    return client.run_on_scheduler(ask)


def _doubts(client, key):
    """How many deaths a scheduler holds against a job."""
    return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[key].suspicious)


def test_a_job_that_kills_its_worker_is_tried_no_more_often_than_told(address, client, tmp_path):
    assert _allowed_failures(client) == 3
    with dask_process("worker", address, "--nthreads", "1"):
        jobs = _jobs(tmp_path, "always die", "fine")
        (failure,) = run_jobs(client, touch, jobs, retries=1, time_limit=600.0)
        assert "died each time" in failure.cause
        assert _tries(tmp_path, "0") == 2
        assert _tries(tmp_path, "1") == 1  # though it waited on a worker that died
        # Other people's jobs are tried as often as the scheduler's own setting says.
        theirs = client.submit(touch, (str(tmp_path), "theirs", "fine"), key="theirs")
        assert theirs.result(timeout=patient(120)) == 1
        assert _doubts(client, "theirs") == 0


def test_repeats_of_the_scheduler_count_where_it_cannot_be_told(address, client, tmp_path):
    client.unregister_scheduler_plugin("fkd-return-lost-jobs")
    _allowed_failures(client, 1)
    with dask_process("worker", address, "--nthreads", "1"):
        jobs = _jobs(tmp_path, "always die")
        assert len(run_jobs(client, touch, jobs, retries=1, time_limit=600.0)) == 1
    _allowed_failures(client, 3)
    assert _tries(tmp_path) == 2


def test_what_is_waited_for_is_said(client, address, monkeypatch):
    monkeypatch.setattr("tasks.cluster.workers._LOG_SECONDS", 0.2)
    client.worker_timeout = 1.0
    said = []
    with pytest.raises(
        UserError, match=rf"No worker connected to {address}.*`dask worker {address} "
    ):
        WorkerMonitor(client, said.append).wait()
    assert said == [f"waiting for a Dask worker at {address} (none connected within 0.2 s)"]


def _without_package():
    """A Python that has Dask but not this package: no .pth file is read."""
    places = [path for path in sys.path if path.endswith("site-packages")]
    start = f"import sys; sys.path[:0] = {places}; from dask.__main__ import main; main()"
    return (sys.executable, "-S", "-c", start)


def _with_version(folder, version):
    """The path of a copy of the package that calls itself another version."""
    for name in ("fkd", "tasks", "configs", "flows"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    text = (folder / "fkd" / "__init__.py").read_text()
    (folder / "fkd" / "__init__.py").write_text(text.replace(__version__, version))
    return str(folder)


def test_workers_without_the_package_are_named_at_once(address, client, tmp_path):
    with (
        dask_process("worker", address, python=_without_package(), cwd=tmp_path, PYTHONPATH=""),
        pytest.raises(UserError, match=r"tcp://\S+ has none \(.*No module.*\. Install it"),
    ):
        run_jobs(client, touch, _jobs(tmp_path, "fine"), retries=0, time_limit=600.0)


def test_workers_of_another_version_are_named_at_once(address, client, tmp_path):
    folder = _with_version(tmp_path, "0.0.1")
    with (
        dask_process("worker", address, cwd=tmp_path, PYTHONPATH=folder),
        pytest.raises(UserError, match=r"tcp://127\S+ has fkd 0\.0\.1\."),
    ):
        WorkerMonitor(client, print).wait()


@contextmanager
def _server(answer):
    """A server that accepts, says its sentence, then nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve():
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                peer.sendall(answer)
                kept.append(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for peer in kept:
            peer.close()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "http"]
)
def test_an_address_of_something_else_is_named(answer, settings, monkeypatch):
    monkeypatch.setattr("tasks.cluster.cluster._CONNECT_SECONDS", 0.5)
    with (
        _server(answer) as address,
        pytest.raises(UserError, match=rf"{address} did not answer as one .*dask scheduler"),
        connect(ClusterConfig(address=address), settings),
    ):
        pass
