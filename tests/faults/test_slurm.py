"""A real SLURM of one node: sweeps in its queue, jobs that are cancelled, what it refuses."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from job_sample import allocator, touch
from slurm_site import missing_commands, slurm_site
from sweep_jobs import doom, notes
from sweep_process import Fkd, fkd, records, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed

from configs.errors import UserError
from configs.run import AdaptConfig, ClusterConfig, SlurmConfig
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

HERE = ("cluster.kind=slurm", "cluster.slurm={partition: sweep, interface: lo, memory: 1GiB}")


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


def _config(partition="sweep", adapt=None, workers=1, **options):
    slurm = {"interface": "lo", "memory": "1GiB", **options.pop("slurm", {})}
    given = {"adapt": adapt} if adapt else {"workers": workers}
    asked = SlurmConfig(partition=partition, **slurm)
    return ClusterConfig(kind="slurm", slurm=asked, **given, **options)


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
    words = [word for change in (*HERE, "cluster.workers=1") for word in ("--set", change)]
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


def test_workers_come_with_the_work_and_go(site, queue, tmp_path):
    before = len(site.jobs())
    config = _config(adapt=AdaptConfig(minimum=1, maximum=3))
    jobs = _jobs(tmp_path / "marks", *["dawdle"] * 8)
    most = 0
    with connect(config, queue) as client:

        def count(job):
            nonlocal most
            most = max(most, len(site.jobs("running,pending")))

        assert run_jobs(client, touch, jobs, retries=0, time_limit=600.0, done=count) == []
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
    ("changes", "sentence"),
    [
        ({"partition": "nope"}, r"invalid partition specified: nope.*sinfo.*slurm\.partition=NAME"),
        ({"partition": None}, r"No partition specified or system default.*slurm\.partition=NAME"),
        ({"partition": "short"}, r"time limit is invalid.*slurm\.walltime"),
        ({"slurm": {"memory": "64GiB"}}, r"Memory specification.*slurm\.memory"),
    ],
    ids=["unknown", "none", "walltime", "memory"],
)
def test_what_the_queue_refuses_is_said_at_once(queue, changes, sentence):
    with (
        pytest.raises(UserError, match=rf"SLURM did not take .*{sentence}"),
        connect(_config(**changes), queue),
    ):
        pass


def test_an_interface_that_is_not_there_is_named(queue):
    with (
        pytest.raises(UserError, match=r"slurm\.interface .* got 'ib7'; it has .*\blo\b"),
        connect(_config(slurm={"interface": "ib7"}), queue),
    ):
        pass


def test_jobs_that_never_start_end_a_run_that_goes_on_later(site, tmp_path, tmp_path_factory):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    path = write_config(sweep_config(), tmp_path / "configs")
    closed = HERE[1].replace("sweep", "closed")
    words = [word for c in (HERE[0], closed, "cluster.worker_wait=3") for word in ("--set", c)]
    code, said = fkd(home, "run", path, *words, **site.environment)
    assert code == 2
    assert re.search(r"no Dask worker .* for 3 s .*job \d+ is PENDING \(PartitionDown\)", said)
    assert "what was computed is kept" in said
    assert not site.jobs("running,pending")
    code, said = fkd(home, "run", path, "--set", "cluster.workers=1")
    assert code == 0
    assert len(records(home)) == 48, said


def test_jobs_that_a_killed_driver_left_waiting_leave_with_the_next_run(
    site, tmp_path, tmp_path_factory
):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    path = write_config(sweep_config(), tmp_path / "configs")
    mine = {"output": "/dev/null", "job-name": "fkd-worker", "partition": "closed"}
    site.ask("sbatch", *(f"--{k}={v}" for k, v in mine.items()), "--wrap", "true")
    (other,) = site.jobs("pending")
    closed = HERE[1].replace("sweep", "closed")
    words = [word for c in (HERE[0], closed, "cluster.workers=2") for word in ("--set", c)]
    run = Fkd(home, "run", path, *words, **site.environment)
    run.wait_for(lambda: len(site.jobs("pending")) == 3)
    run.kill()
    assert len(site.jobs("pending")) == 3
    code, said = fkd(home, "run", path, "--set", "cluster.workers=1", **site.environment)
    assert code == 0, said
    assert site.jobs("running,pending") == [other]  # somebody else's, though it has such a name
    assert not list((home / "dask" / "queued").iterdir())
    site.ask("scancel", other)


def test_jobs_that_end_by_themselves_are_told(queue, tmp_path):
    config = _config(worker_wait=8.0, slurm={"python": "/nowhere/python"})
    with (
        pytest.raises(UserError, match=r"no longer in the queue.*dask/slurm"),
        connect(config, queue) as client,
    ):
        run_jobs(client, touch, _jobs(tmp_path / "marks", "fine"), retries=0, time_limit=60.0)
    (told,) = [p for p in (queue.home / "dask" / "slurm").glob("*.err") if p.stat().st_size]
    assert "/nowhere/python" in told.read_text()
