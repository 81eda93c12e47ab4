"""Jobs on real workers: processes that die, hang, eat memory or raise."""

import psutil
import pytest
from dask_process import dask_process, dask_scheduler, in_threads
from job_sample import allocator, touch
from soak_figures import keep

from configs.cluster import ClusterConfig
from configs.errors import UserError
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.cluster.workers import worker_memory

pytestmark = pytest.mark.stack


def _run(config, settings, jobs, **options):
    finished = []
    with connect(config, settings) as client:
        given = {"retries": 2, "time_limit": 600.0, **options}
        failed = run_jobs(client, touch, jobs, on_done=finished.append, **given)
    return finished, failed


def _tries(folder, name):
    return len((folder / name).read_text())


def _jobs(folder, behaviours):
    folder.mkdir(exist_ok=True)
    return [(str(folder), f"{i}", behaviour) for i, behaviour in enumerate(behaviours)]


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterConfig(workers=2),
        in_threads(workers=2),
        ClusterConfig(
            cluster_class="dask.distributed.LocalCluster", cluster_kwargs={"n_workers": 2}
        ),
    ],
    ids=["local", "threads", "by path"],
)
def test_every_job_is_done_once(cluster, settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["fine"] * 6)
    finished, failed = _run(cluster, settings, jobs)
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
    keep("F9", "jobs that die, hang, stop, raise", finished=len(finished), causes=causes)


def test_a_local_scheduler_repeats_tasks_of_arrays_but_no_job(settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["always die", "fine"])
    with connect(ClusterConfig(workers=1, retries=4), settings) as client:
        told = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures)
        (failure,) = run_jobs(client, touch, jobs, retries=1, time_limit=600.0)
    assert told == 4
    assert failure.job[2] == "always die"
    assert _tries(tmp_path / "marks", "0") == 2


@pytest.fixture
def _look_often(monkeypatch):
    monkeypatch.setattr("tasks.cluster.retries._LOOK_SECONDS", 0.2)


@pytest.mark.usefixtures("_look_often")
def test_threads_that_are_all_held_fail_the_rest(settings, tmp_path):
    # A thread cannot be ended: what waits behind such jobs would wait for ever.
    jobs = _jobs(tmp_path / "marks", ["fine", "dawdle", "dawdle", "fine"])
    config = in_threads(workers=2)
    finished, failed = _run(config, settings, jobs, time_limit=1.0)
    assert finished == jobs[:1]
    assert [failure.job[2] for failure in failed] == ["dawdle", "dawdle", "fine"]
    assert "hold every thread" in failed[-1].cause


@pytest.mark.usefixtures("_look_often")
def test_workers_that_are_lost_for_good_are_replaced(settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["fine"] * 4)
    with connect(ClusterConfig(workers=2), settings) as client:
        for nanny in client.cluster.workers.values():
            client.cluster.sync(nanny.close)
        assert run_jobs(client, touch, jobs, retries=0, time_limit=60.0) == []
        assert len(client.scheduler_info()["workers"]) == 2


def test_a_job_that_eats_memory_fails_alone(settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["eat memory", "fine", "fine"])
    config = ClusterConfig(workers=2, cluster_kwargs={"memory_limit": "600MB"})
    finished, failed = _run(config, settings, jobs, retries=1)
    assert [failure.job[2] for failure in failed] == ["eat memory"]
    assert "out of memory" in failed[0].cause
    assert len(finished) == 2


def test_workers_keep_freed_memory_for_the_next_array(settings, monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "70000")  # the user's own word wins
    with connect(ClusterConfig(workers=1), settings) as client:
        (told,) = client.run(allocator).values()
    assert told == {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "70000"}


def test_the_limit_of_a_workers_memory_is_known(settings):
    with connect(
        ClusterConfig(workers=1, cluster_kwargs={"memory_limit": "1GiB"}), settings
    ) as client:
        assert worker_memory(client) == 2**30


@pytest.fixture
def scheduler(free_port):
    """A scheduler of its own with its address."""
    with dask_scheduler(free_port) as found:
        yield found


def test_an_existing_scheduler_is_used_and_left_running(scheduler, settings, tmp_path):
    process, address = scheduler
    jobs = _jobs(tmp_path / "marks", ["fine", "die once", "fine"])
    with dask_process("worker", address):
        finished, failed = _run(ClusterConfig(address=address), settings, jobs)
    assert len(finished) == 3
    assert not failed
    assert process.poll() is None


@pytest.mark.usefixtures("_look_often")
def test_a_run_ends_by_name_if_no_worker_comes(scheduler, settings, tmp_path):
    jobs = _jobs(tmp_path / "marks", ["fine"])
    with pytest.raises(UserError, match=r"No worker connected.*within 2 s .*`dask worker tcp:"):
        _run(ClusterConfig(address=scheduler[1], worker_timeout=2.0), settings, jobs)


def test_a_run_ends_by_name_if_its_scheduler_does(scheduler, settings, tmp_path):
    process, address = scheduler
    jobs = _jobs(tmp_path / "marks", ["fine", "dawdle"])

    def kill(job):
        process.kill()

    with (
        dask_process("worker", address),
        pytest.raises(UserError, match=r"scheduler has ended.*are kept"),
        connect(ClusterConfig(address=address), settings) as client,
    ):
        run_jobs(client, touch, jobs, on_done=kill, retries=2, time_limit=600.0)


def test_an_unreachable_scheduler_is_an_error(settings, free_port):
    config = ClusterConfig(address=f"tcp://127.0.0.1:{free_port}")
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
