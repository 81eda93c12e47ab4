"""Jobs on real workers: processes that die, hang, eat memory or raise."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from job_sample import touch

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.cluster import connect, run_jobs, worker_memory


def _run(config, settings, jobs, **options):
    finished = []
    with connect(config, settings) as client:
        given = {"retries": 2, "time_limit": 600.0, **options}
        failed = run_jobs(client, touch, jobs, done=finished.append, **given)
    return finished, failed


def _tries(folder, name):
    return len((folder / name).read_text())


def _jobs(folder, behaviours):
    folder.mkdir(exist_ok=True)
    return [(str(folder), f"{i}", behaviour) for i, behaviour in enumerate(behaviours)]


@pytest.mark.parametrize("kind", ["local", "threads"])
def test_every_job_is_done_once(kind, settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["fine"] * 6)
    finished, failed = _run(ClusterConfig(kind=kind, workers=2), settings, jobs)
    assert sorted(finished) == sorted(jobs)
    assert not failed
    assert {_tries(tmp_path / "marks", name) for _, name, _ in jobs} == {1}


@pytest.mark.slow  # four restarts in a row; test_failing_trials has the quick ones
def test_dying_hanging_stopped_and_faulty_jobs_leave_the_others_alone(settings, tmp_path):
    behaviours = ["die once", "always die", "hang", "stop", "wrong input", "passing fault"]
    jobs = _jobs(tmp_path / "marks", behaviours + ["fine"] * 6)
    config = ClusterConfig(workers=2, retries=2)
    finished, failed = _run(config, settings, jobs, time_limit=8.0)
    causes = {failure.job[2]: failure.cause for failure in failed}
    assert set(causes) == {"always die", "hang", "stop", "wrong input"}
    assert "died each time" in causes["always die"]
    assert "time_limit (8 s)" in causes["hang"]
    assert "time_limit (8 s)" in causes["stop"]
    assert causes["wrong input"] == "ValueError: gamma must be above 0, got -1"
    assert len(finished) == len(jobs) - 4
    # What raises on wrong input would raise again: it is not repeated.
    assert _tries(tmp_path / "marks", "4") == 1
    assert _tries(tmp_path / "marks", "5") == 2


def test_a_job_that_eats_memory_fails_alone(settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["eat memory", "fine", "fine"])
    config = ClusterConfig(workers=2, memory_limit="600MB")
    finished, failed = _run(config, settings, jobs, retries=1)
    assert [failure.job[2] for failure in failed] == ["eat memory"]
    assert "out of memory" in failed[0].cause
    assert len(finished) == 2


def test_the_limit_of_a_workers_memory_is_known(settings):
    with connect(ClusterConfig(workers=1, memory_limit="1GiB"), settings) as client:
        assert worker_memory(client) == 2**30


def test_an_existing_scheduler_is_used_and_left_running(settings, tmp_path, free_port):
    address = f"tcp://127.0.0.1:{free_port}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(free_port), "--no-dashboard"],
        **quiet,
    )
    worker = subprocess.Popen([*dask, "worker", address, "--no-dashboard"], **quiet)
    try:
        jobs = _jobs(tmp_path / "marks", ["fine", "die once", "fine"])
        config = ClusterConfig(address=address, kind="address")
        for _ in range(100):  # the scheduler needs a moment to listen
            try:
                finished, failed = _run(config, settings, jobs)
                break
            except UserError:
                time.sleep(0.2)
        assert len(finished) == 3
        assert not failed
        assert scheduler.poll() is None
    finally:
        worker.terminate()
        scheduler.terminate()
        worker.wait(30)
        scheduler.wait(30)


def test_an_unreachable_scheduler_is_named(settings, free_port):
    config = ClusterConfig(address=f"tcp://127.0.0.1:{free_port}", kind="address")
    with (
        pytest.raises(UserError, match=rf"{free_port}.*dask scheduler"),
        connect(config, settings),
    ):
        pass


def test_only_loopback_listens(settings):
    with connect(ClusterConfig(workers=1), settings):
        ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [
            c.laddr.ip for p in ours for c in p.net_connections("inet") if c.status == "LISTEN"
        ]
    assert listening
    assert set(listening) == {"127.0.0.1"}
