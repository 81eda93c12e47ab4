"""A machine that vanishes in the middle of a run whose state lies in an object store."""

import re
from uuid import uuid4

import pytest
from object_stores import BUCKET, variables
from server_process import left_after
from sweep_process import Fkd, fkd, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed

from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.storage.store import open_store
from tasks.track.run_index import identity_of

pytestmark = pytest.mark.stack


def _records(store):
    """The records of a store, byte by byte: one that is written again has another time in it."""
    names = [entry.name for entry in store.entries() if entry.name.endswith(".record")]
    return store.read_many(names)


@pytest.mark.timeout(1800)
def test_another_home_completes_exactly_what_a_killed_run_has_left(
    tmp_path, tmp_path_factory, rclone_address, monkeypatch
):
    base, there = tmp_path_factory.getbasetemp(), variables(rclone_address)
    there["FKD_STORE"] = f"s3://{BUCKET}/{uuid4().hex}"
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    config = sweep_config(gammas=3, alphas=2, lengths=3)
    path = write_config(config, tmp_path)
    first, other = (warm_home(tmp_path / name / "home", base) for name in ("one", "other"))
    settings = Settings(other, shared=there["FKD_STORE"])
    store = open_store(settings)

    run = Fkd(first, "run", path, **there)
    run.wait_for(lambda: sum(e.name.endswith(".record") for e in store.entries()) >= 10)
    run.kill()
    assert left_after(first, 30) == []
    kept = _records(store)

    code, said = fkd(other, "run", path, **there)
    assert code == 0, said
    study = open_study(config, settings)
    assert 10 <= len(kept) < study.size()
    computed = re.search(r"(\d+) in \d+ tasks to compute", said)
    assert computed, said
    assert int(computed[1]) == study.size() - len(kept)
    after = _records(store)
    assert len(after) == study.size()
    assert kept.items() <= after.items()
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    assert not list((first / "store").rglob("*.record"))
    assert store.has(f"runs/{identity_of(study)}/report.html")
    assert left_after(other, 30) == []
