"""A store that fills up while a run computes: one sentence, then exactly what is missing."""

import re
from contextlib import contextmanager

import pytest
from object_stores import BUCKET, rclone_server, variables
from server_process import left_after
from small_disk import enlarge, small_disk
from sweep_process import fkd, warm_home, write_config
from sweep_sample import finite, same_numbers, sweep_config, undisturbed

from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.storage.store import open_store, unsealed

pytestmark = pytest.mark.stack

_PAGE = 4096  # bytes; a file on such a disk takes whole ones


def _taken(folder):
    """The bytes that the files of a folder take on a disk."""
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


def _records(store):
    """The records of a store, byte by byte: one that is written again has another time in it."""
    names = [entry.name for entry in store.entries() if entry.name.endswith(".record")]
    return store.read_many(names)


@contextmanager
def _store_on(disk, kind):
    """The variables of a store whose bytes lie on a disk."""
    if kind == "folder":
        yield {"FKD_STORE": str(disk / "store")}
        return
    with rclone_server(disk / "objects") as address:
        yield {**variables(address), "FKD_STORE": f"s3://{BUCKET}/folder"}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["folder", "S3"])
def test_a_run_whose_store_fills_up_is_told_then_completed(
    kind, tmp_path, tmp_path_factory, monkeypatch
):
    config = sweep_config(gammas=3, alphas=2, lengths=3)
    reference = undisturbed(config, tmp_path / "reference")
    tables = _taken(tmp_path / "reference" / "store" / "prepared")
    size = (tables + _taken(tmp_path / "reference" / "store")) // 2  # of the fits one half
    home = warm_home(tmp_path / "one" / "home", tmp_path_factory.getbasetemp())
    path = write_config(config, tmp_path)
    with small_disk(tmp_path / "disk", size=str(size)) as disk, _store_on(disk, kind) as there:
        for name, value in there.items():
            monkeypatch.setenv(name, value)
        settings = Settings(home, shared=there["FKD_STORE"])
        store = open_store(settings)

        code, said = fkd(home, "run", path, **there)
        assert code == 2, said
        (told,) = [line for line in said.splitlines() if line.startswith("fkd: ")]
        assert told == said.splitlines()[-1]
        assert f"the store {there['FKD_STORE']} is full" in told
        assert "free some space there" in told
        assert str(home) not in told
        assert "Traceback" not in said
        assert left_after(home, 30) == []
        for entry in store.entries():
            unsealed(entry.name, store.place.get(entry.name))  # raises where it is not whole
        kept = _records(store)
        assert 0 < len(kept) < reference.size()

        enlarge(disk)
        code, said = fkd(home, "run", path, **there)
        assert code == 0, said
        computed = re.search(r"(\d+) in \d+ tasks to compute", said)
        assert computed, said
        assert int(computed[1]) == reference.size() - len(kept)
        after = _records(store)
        assert len(after) == reference.size()
        assert kept.items() <= after.items()
        study = open_study(config, settings)
        assert same_numbers(study, reference)
        assert finite(study)
