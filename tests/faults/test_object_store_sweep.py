"""A run whose state lies in an object store: the same bits, resumed, refused in one sentence."""

import os
import shutil
import subprocess
import sys
from dataclasses import asdict

import pytest
from deadlines import patient
from object_stores import BUCKET, rclone_server, variables
from pipeline_fixtures import QUICK
from small_disk import fill, small_disk

from configs.cluster import ClusterConfig
from configs.errors import UserError
from configs.load import load_config
from flows.errors import CrashError, as_user_error
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.fit.job import run_job
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.backends import ObjectStoreBackend, StoreUnreachableError
from tasks.storage.records import TrialStore, record_name
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

pytestmark = pytest.mark.stack


def numbers(study):
    """What decides a run: every number of its records, all but when and how long."""
    return {
        key: {k: v for k, v in asdict(record).items() if k not in ("seconds", "environment")}
        for result in [*study.results(), *study.results(inner=True)]
        for key, record in [(r.key, r) for r in result.records]
    }


def test_a_store_elsewhere_gives_the_same_bits_and_is_resumed_from_another_home(
    store_settings, computed_home, tmp_path
):
    config = load_config("default", QUICK)
    shutil.copytree(computed_home, tmp_path / "computed")
    local = open_study(config, Settings(tmp_path / "computed"))
    study = open_study(config, store_settings)
    jobs = study.missing()
    assert len(jobs) > 2
    with connect(ClusterConfig(workers=1), store_settings) as client:
        half = len(jobs) // 2
        assert not run_jobs(client, run_job, jobs[:half], retries=0, time_limit=600.0)
        # Who opens it anew sees what is done, from whatever machine.
        again = open_study(config, Settings(tmp_path / "other", shared=store_settings.store))
        left = {key for job in again.missing() for key in job.record_keys}
        assert left == {key for job in jobs[half:] for key in job.record_keys}
        assert not run_jobs(client, run_job, again.missing(), retries=0, time_limit=600.0)
    assert len(numbers(local)) == 3 * (3 + 2)
    assert numbers(study.again()) == numbers(local)
    mine, theirs = select_champion(study.again()), select_champion(local)
    assert mine.key == theirs.key
    assert mine.judgement == theirs.judgement
    for name, array in theirs.bundle.arrays().items():
        assert mine.bundle.arrays()[name].tobytes() == array.tobytes()


def test_a_damaged_object_is_computed_again(store_settings, quick_config):
    study = open_study(quick_config, store_settings)
    job, store = study.missing()[0], open_store(store_settings)
    records = run_job(job)
    name = record_name(job.record_keys[0])
    content = bytearray(store.backend.get(name))
    content[-10] ^= 1
    store.backend.put(name, bytes(content))
    again = open_study(quick_config, store_settings).missing()
    assert sum(job.record_keys[0] in other.record_keys for other in again) == 1
    assert run_job(job)[-1].measures == records[0].measures


def command(home, address, **more):
    """Run the command line against a store; return what it says and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "run", "--dry-run"],
        env={**os.environ, "FKD_HOME": str(home), "FKD_STORE": address, **more},
        capture_output=True,
        text=True,
        timeout=patient(300),
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("bucket", "must be in an existing bucket"),
        ("secret", "refuses this machine"),
        ("server", "does not answer"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(tmp_path, rclone_address, fault, words):
    told = variables(rclone_address, secret="hunter2" if fault == "secret" else "x")
    if fault != "secret":
        told = variables(rclone_address)
    if fault == "server":
        told["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
    bucket = "nobodys" if fault == "bucket" else BUCKET
    code, said = command(tmp_path / "home", f"s3://{bucket}/folder", **told)
    assert code == 2
    (line,) = said.splitlines()
    assert words in line
    assert f"s3://{bucket}/folder" in line
    assert "hunter2" not in line
    assert told["AWS_SECRET_ACCESS_KEY"] not in line


def test_a_store_that_fills_up_is_told_and_keeps_what_it_has(tmp_path, quick_config, monkeypatch):
    with small_disk(tmp_path / "disk") as disk, rclone_server(disk / "objects") as address:
        for name, value in variables(address).items():
            monkeypatch.setenv(name, value)
        settings = Settings(tmp_path / "home", shared=f"s3://{BUCKET}/full")
        study = open_study(quick_config, settings)
        jobs = study.missing()
        run_job(jobs[0])
        fill(disk)
        with pytest.raises((OSError, UserError)) as caught:
            list(map(run_job, jobs[1:]))
        told = as_user_error(caught.value)
        assert not isinstance(told, CrashError)
        assert settings.store in str(told)
        (disk / "filling").unlink()
        store = TrialStore(open_store(settings))
        assert store.read_all(jobs[0].record_keys).keys() == set(jobs[0].record_keys)
        assert all(run_job(job) for job in jobs[1:])


def test_a_store_that_comes_back_is_tried_again():
    """What may pass is an OSError without a number, which jobs are tried again for."""
    place = ObjectStoreBackend("memory://nowhere")
    with (
        pytest.raises(StoreUnreachableError, match="memory://nowhere does not answer") as caught,
        place._named_errors(),
    ):
        raise TimeoutError("no answer")
    assert caught.value.errno is None
    assert isinstance(caught.value, OSError)
