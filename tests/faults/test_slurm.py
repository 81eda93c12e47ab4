"""A real SLURM of one node: sweeps in its queue, jobs that are cancelled, what it refuses."""

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from job_sample import allocator, touch
from slurm_site import missing_commands, slurm_site
from sweep_jobs import doom, notes
from sweep_process import Fkd, fkd, records, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed

from configs.errors import UserError
from configs.run import ClusterConfig
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(missing_commands()) or os.geteuid() != 0,
        reason="needs root with Debian's slurmctld, slurmd, slurm-client and munge "
        "(`bash .ci/system-packages slurm`)",
    ),
]

CLASS = "tasks.cluster.slurm.SlurmCluster"
KWARGS = {"queue": "sweep", "interface": "lo", "memory": "1GiB"}


def _here(*more, queue="sweep"):
    """The words of a command that computes in the queue."""
    given = json.dumps({**KWARGS, "queue": queue})
    changes = (f"cluster.cluster_class={CLASS}", f"cluster.cluster_kwargs={given}", *more)
    return [word for change in changes for word in ("--set", change)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with slurm_site(tmp_path_factory.mktemp("slurm")) as found:
        yield found
        # A job that is cancelled takes its time to end, but none stays.
        found.wait(lambda: not found.jobs("running,pending,completing"))


@pytest.fixture
def queue(site, settings, monkeypatch):
    """The site as this process sees it; jobs find the functions of these tests."""
    monkeypatch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return settings


def _config(kwargs=(), **options):
    found = {**KWARGS, **dict(kwargs)}
    given = {} if "adapt_kwargs" in options else {"workers": 1}
    return ClusterConfig(cluster_class=CLASS, cluster_kwargs=found, **{**given, **options})


def _jobs(folder, *behaviours):
    folder.mkdir()
    return [(str(folder), f"{i}", behaviour) for i, behaviour in enumerate(behaviours)]


def _job_of(pid):
    """The number of the SLURM job to which a process belongs."""
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return next(w.partition("=")[2] for w in words if w.startswith("SLURM_JOB_ID="))


def test_a_cancelled_job_changes_no_number(site, tmp_path, tmp_path_factory):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    config, before = sweep_config(), len(site.jobs())
    path = write_config(config, tmp_path / "configs")
    study = open_study(config, Settings(home, None, None, None))
    tasks = len(study.missing())
    doom(home, kills=1, every=3)
    words = _here("cluster.workers=1")
    run = Fkd(home, "run", path, *words, job="counted", **site.environment)
    run.wait_for(lambda: notes(home, "doomed"))
    (_, pid) = notes(home, "doomed")[0]
    site.ask("scancel", _job_of(pid))
    assert run.wait() == 0, run.said
    # Nobody else could compute: another job has taken its place.
    assert len(site.jobs()) == before + 2
    assert len(notes(home, "begin")) == tasks + 1
    assert set(Counter(key for key, _ in notes(home, "record")).values()) == {1}
    assert study.missing() == []
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))


@pytest.mark.timeout(1800)
def test_two_thousand_trials_and_killed_workers_give_the_local_numbers(
    site, tmp_path, tmp_path_factory
):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    config = sweep_config(gammas=10, alphas=20, lengths=10)
    path = write_config(config, tmp_path / "configs")
    study = open_study(config, Settings(home, None, None, None))
    assert len(study.trials) == 2000
    doom(home, kills=4, every=8)
    words = _here("cluster.workers=3")
    run = Fkd(home, "run", path, *words, job="counted", **site.environment)
    killed = set()
    while len(killed) < 4:
        run.wait_for(lambda: len(notes(home, "doomed")) > len(killed))
        for _, pid in notes(home, "doomed"):
            if pid not in killed:
                killed.add(pid)
                os.kill(int(pid), signal.SIGKILL)
    assert run.wait() == 0, run.said
    assert study.missing() == []
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))


def test_workers_come_with_the_work_and_go(site, queue, tmp_path):
    before = len(site.jobs())
    config = _config(adapt_kwargs={"minimum": 1, "maximum": 3})
    jobs = _jobs(tmp_path / "marks", *["dawdle"] * 8)
    most = 0
    with connect(config, queue) as client:

        def count(job):
            nonlocal most
            most = max(most, len(site.jobs("running,pending")))

        assert run_jobs(client, touch, jobs, retries=0, time_limit=600.0, on_done=count) == []
    assert most == 3
    assert len(site.jobs()) == before + 3


def test_tries_and_time_mean_what_they_mean_locally(queue, tmp_path):
    jobs = _jobs(tmp_path / "marks", "die once", "always die", "hang", *["fine"] * 7)
    with connect(_config(workers=2), queue) as client:
        failed = run_jobs(client, touch, jobs, retries=2, time_limit=15.0)
        (told, *_) = client.run(allocator).values()
    causes = {failure.job[2]: failure.cause for failure in failed}
    assert set(causes) == {"always die", "hang"}
    assert "died each time" in causes["always die"]
    assert "time_limit (15 s)" in causes["hang"]
    tried = [len((tmp_path / "marks" / name).read_text()) for name in "0123"]
    assert tried == [2, 3, 1, 1]
    assert told["MALLOC_TRIM_THRESHOLD_"] == "268435456"  # Dask's settings reach the nodes


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"queue": "nope"}, r"invalid partition specified: nope"),
        ({"queue": None}, r"No partition specified or system default"),
        ({"queue": "short"}, r"time limit is invalid"),
        ({"memory": "64GiB"}, r"Memory specification"),
    ],
    ids=["unknown", "none", "walltime", "memory"],
)
def test_a_job_that_the_queue_refuses_ends_the_run_at_once(queue, kwargs, sentence):
    with (
        pytest.raises(UserError, match=rf"SlurmCluster cannot start.*{sentence}.*cluster_kwargs"),
        connect(_config(kwargs), queue),
    ):
        pass


def test_a_missing_interface_is_named(queue):
    with (
        pytest.raises(UserError, match=r"did not accept cluster\.cluster_kwargs.*ib7"),
        connect(_config({"interface": "ib7"}), queue),
    ):
        pass


def test_jobs_that_never_start_end_a_run_that_goes_on_later(site, tmp_path, tmp_path_factory):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    path = write_config(sweep_config(), tmp_path / "configs")
    words = _here("cluster.worker_timeout=3", "cluster.workers=1", queue="closed")
    code, said = fkd(home, "run", path, *words, **site.environment)
    assert code == 2
    assert re.search(r"No worker .* within 3 s .*job \d+ is PENDING \(PartitionDown\)", said)
    assert "computed results are kept" in said
    assert not site.jobs("running,pending")
    code, said = fkd(home, "run", path, "--set", "cluster.workers=1")
    assert code == 0
    assert len(records(home)) == 48, said


def test_jobs_of_a_killed_driver_end_by_themselves(site, tmp_path, tmp_path_factory):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    path = write_config(sweep_config(), tmp_path / "configs")
    words = _here("cluster.workers=2", "cluster.cluster_kwargs.death_timeout=5")
    run = Fkd(home, "run", path, *words, **site.environment)
    run.wait_for(lambda: len(site.jobs("running")) == 2)
    run.wait_for(lambda: records(home))
    run.kill()
    site.wait(lambda: not site.jobs("running,pending"))
    code, said = fkd(home, "run", path, "--set", "cluster.workers=1")
    assert code == 0, said
    assert len(records(home)) == 48, said


def test_jobs_that_end_by_themselves_are_told(queue, tmp_path):
    config = _config({"python": "/nowhere/python"}, worker_timeout=8.0)
    with (
        pytest.raises(UserError, match=r"no longer in the queue.*dask/slurm"),
        connect(config, queue) as client,
    ):
        run_jobs(client, touch, _jobs(tmp_path / "marks", "fine"), retries=0, time_limit=60.0)
    (told,) = [p for p in (queue.home / "dask" / "slurm").glob("*.err") if p.stat().st_size]
    assert "/nowhere/python" in told.read_text()
