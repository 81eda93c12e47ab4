"""Workers are asked before their first job whether they can do a run's work."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from dask_process import dask_process, dask_scheduler
from deadlines import patient
from job_sample import touch
from object_stores import BUCKET, variables

from configs.cluster import ClusterConfig
from configs.errors import UserError
from fkd.problems.encoder import Encoder
from tasks.cluster import workers
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.cluster.workers import WorkerMonitor
from tasks.servers.shared_server import free_port
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
PLAIN = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "false"}


@pytest.fixture(scope="module")
def address():
    with dask_scheduler(free_port()) as (_, found):
        yield found


@pytest.fixture
def client(address, settings, monkeypatch):
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    settings.home.mkdir()
    with connect(ClusterConfig(address=address), settings) as found:
        yield found


def blind_to(folder):
    """A Python for which a folder is another one, as on another machine."""
    words = ["unshare", "--mount", "sh", "-c"]
    hide = f"mount -t tmpfs none '{folder}'"
    try:
        subprocess.run([*words, hide], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no folder may be hidden here")
    return (*words, f'{hide} && exec "$0" "$@"', sys.executable, "-m", "dask")


def jobs_in(folder, count=4):
    return [(str(folder), f"{i}", "fine") for i in range(count)]


def test_a_worker_without_the_folder_is_named_before_the_first_job(
    address, client, settings, tmp_path
):
    work = tmp_path / "work"
    work.mkdir()
    with (
        dask_process("worker", address, "--nthreads", "1", python=blind_to(settings.home)),
        pytest.raises(UserError) as caught,
    ):
        run_jobs(client, touch, jobs_in(work), retries=2, time_limit=600.0)
    said = str(caught.value)
    assert f"the store of this run, {settings.home / 'store'}, but tcp://127.0.0.1:" in said
    assert "FKD_STORE" in said
    assert list(work.iterdir()) == []  # no job was tried
    assert not list(open_store(settings).entries("probes"))


def test_a_worker_that_comes_later_is_asked_too(address, client, settings, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.cluster.retries._LOOK_SECONDS", 0.2)
    hidden, told = blind_to(settings.home), queue.SimpleQueue()

    def run():
        jobs = [(str(tmp_path), "long", "hang")]
        try:
            told.put(run_jobs(client, touch, jobs, retries=0, time_limit=600.0))
        except UserError as error:
            told.put(str(error))

    with dask_process("worker", address, "--nthreads", "1"):
        WorkerMonitor(client, print).wait()
        runner = threading.Thread(target=run)
        runner.start()
        with dask_process("worker", address, "--nthreads", "1", python=hidden):
            assert "cannot read what the driver wrote" in told.get(timeout=patient(120))
        runner.join()


def test_workers_that_see_the_folder_are_asked_once_and_leave_nothing(
    address, client, settings, tmp_path
):
    with dask_process("worker", address, "--nthreads", "1"):
        assert run_jobs(client, touch, jobs_in(tmp_path), retries=0, time_limit=600.0) == []
        assert all((tmp_path / f"{i}").read_text() for i in range(4))
        assert not list(open_store(settings).entries("probes"))


@pytest.mark.parametrize("lacking", ["secret", "name"])
def test_a_worker_that_the_store_refuses_is_named(
    address, settings, monkeypatch, rclone_address, lacking
):
    for name, value in {**variables(rclone_address), **PLAIN}.items():
        monkeypatch.setenv(name, value)
    store = f"s3://{BUCKET}/refused-{lacking}"
    settings = Settings(settings.home, shared=store)
    theirs = {"AWS_SECRET_ACCESS_KEY": "another"} if lacking == "secret" else {}
    theirs |= {"AWS_ACCESS_KEY_ID": "nobody"} if lacking == "name" else {}
    with (
        connect(ClusterConfig(address=address), settings) as client,
        dask_process("worker", address, "--nthreads", "1", **theirs),
        pytest.raises(UserError) as caught,
    ):
        WorkerMonitor(client, print).wait()
    said = str(caught.value)
    assert f"read and write the store of this run, {store}, but tcp://127.0.0.1:" in said
    assert "refuses this machine" in said
    assert "another" not in said
    assert variables("")["AWS_SECRET_ACCESS_KEY"] not in said


def test_a_worker_with_another_version_of_a_method_is_named(address, client, tmp_path):
    for name in ("fkd", "tasks", "configs", "flows"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    path = tmp_path / "fkd" / "problems" / "encoder.py"
    now = f"version: ClassVar[int] = {Encoder.version}"
    assert now in path.read_text()
    path.write_text(path.read_text().replace(now, "version: ClassVar[int] = 99"))
    with (
        dask_process("worker", address, cwd=tmp_path, PYTHONPATH=str(tmp_path)),
        pytest.raises(UserError, match=r"tcp://127\S+ has encoder 99 instead of \d+\."),
    ):
        WorkerMonitor(client, print).wait()


def test_a_worker_that_dies_while_it_is_asked_does_not_end_the_run(address, client):
    with (
        dask_process("worker", address, "--nthreads", "1", "--no-nanny") as dying,
        dask_process("worker", address, "--nthreads", "1", "--no-nanny"),
    ):
        client.wait_for_workers(2, timeout=patient(60))
        dying.send_signal(signal.SIGSTOP)  # it is registered but does not answer
        killer = threading.Timer(2, dying.kill)
        killer.start()
        WorkerMonitor(client, print).wait()
        killer.join()
        (alive,) = client.checked
        assert client.run(os.getpid, workers=[alive]) != {alive: dying.pid}


def test_a_worker_that_writes_to_a_copy_of_the_store_is_named(
    address, client, settings, monkeypatch
):
    # On a copy of the folder a worker reads what was written before, but writes elsewhere.
    real = workers.answer_check

    def elsewhere(settings, nonce):
        return replace(real(settings, nonce), wrote="probes/elsewhere")

    monkeypatch.setattr(workers, "answer_check", elsewhere)
    with (
        dask_process("worker", address),
        pytest.raises(UserError, match="writes to another place"),
    ):
        WorkerMonitor(client, print).wait()


def test_a_worker_with_several_threads_is_refused(address, client):
    with (
        dask_process("worker", address, "--nthreads", "2"),
        pytest.raises(UserError, match=r"one thread.*has 2.*threads_per_worker: 1.*--nthreads 1"),
    ):
        WorkerMonitor(client, print).wait()
