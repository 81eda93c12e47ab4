"""A store without free space: an error that names it, and no damaged blob."""

import errno
import re
from contextlib import contextmanager

import pytest
from object_stores import BUCKET, rclone_server, variables
from server_process import left_after
from small_disk import enlarge, fill, small_disk
from sweep_process import fkd, warm_home, write_config
from sweep_sample import finite, same_numbers, sweep_config, undisturbed

from configs.errors import UserError
from tasks.select.study import open_study
from tasks.storage.backends import ObjectStoreBackend, StoreUnreachableError
from tasks.storage.settings import Settings
from tasks.storage.store import open_store, verify_checksum

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
        assert "Free space there" in told
        assert str(home) not in told
        assert "Traceback" not in said
        assert left_after(home, 30) == []
        for entry in store.entries():
            verify_checksum(
                entry.name, store.backend.get(entry.name)
            )  # raises where it is not whole
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


def test_a_folder_that_is_full_is_named_as_the_store(tmp_path):
    with small_disk(tmp_path / "disk", size="512k") as disk:
        store = open_store(Settings(tmp_path / "home", shared=str(disk / "store")))
        store.write("ab/one", b"small")
        fill(disk)
        told = rf"the store {disk}/store is full \(No space left on device\). Free space there"
        for write in (store.write, store.write_absent):
            with pytest.raises(UserError, match=told):
                write("ab/two", bytes(2**16))
        assert [entry.name for entry in store.entries()] == ["ab/one"]
        assert [path.name for path in (disk / "store" / "ab").iterdir()] == ["one"]


class _Server:
    """What a place asks of its client; objects of more bytes than there is room for fail."""

    def __init__(self, room, status=500, *, recovers=False):
        self.room, self.status, self.recovers = room, status, recovers
        self.objects = {}

    def pipe_file(self, path, data, **_):
        if len(data) > self.room:
            self.room = 2**20 if self.recovers else self.room
            said = OSError(errno.EREMOTEIO, "Internal Error")
            said.__cause__ = Exception()
            said.__cause__.response = {"ResponseMetadata": {"HTTPStatusCode": self.status}}
            raise said
        self.objects[path] = data

    def rm_file(self, path):
        del self.objects[path]


@pytest.fixture
def place():
    """Return a place whose server is one of ours."""

    def make(*given, **options):
        made = ObjectStoreBackend("memory://somewhere")
        made._fs = _Server(*given, **options)
        return made

    return make


def test_a_server_that_fails_for_lack_of_room_is_full(place):
    """rclone's says no more than that it has failed, whatever its disk says."""
    full = place(room=10)
    told = "somewhere is full .*takes an empty object, but none of 11 bytes: .*Internal Error"
    with pytest.raises(UserError, match=told):
        full.put("ab/one", bytes(11))
    assert not full._fs.objects  # the empty one is gone


def test_an_object_that_was_taken_without_a_word_is_ours(place, monkeypatch):
    """A server that keeps the first of two, fails to say that it has, then finds it there."""
    ours, server = place(room=10), None

    def pipe_file(path, data, mode="overwrite"):
        if mode == "create" and path in server.objects:
            raise FileExistsError(path)
        if len(data) > server.room:
            server.objects[path] = data
        return _Server.pipe_file(server, path, data)

    server = ours._fs
    monkeypatch.setattr(server, "pipe_file", pipe_file)
    monkeypatch.setattr(ours, "has", lambda name: False)
    monkeypatch.setattr(ours, "get", lambda name: server.objects[ours._path(name)])
    assert ours.put_absent("ab/one", bytes(11))
    assert not ours.put_absent("ab/one", b"other than that")


def test_a_server_that_takes_nothing_at_all_may_come_back(place):
    with pytest.raises(StoreUnreachableError, match="does not answer"):
        place(room=-1).put("ab/one", bytes(11))


def test_a_busy_server_is_not_full(place):
    busy = place(room=10, status=503)
    with pytest.raises(StoreUnreachableError, match="does not answer"):
        busy.put("ab/one", bytes(11))


def test_a_server_that_fails_for_a_moment_is_not_full(place):
    well = place(room=10, recovers=True)
    well.put("ab/one", bytes(11))
    assert list(well._fs.objects.values()) == [bytes(11)]


def test_a_server_that_answers_that_it_lacks_room_is_full(place):
    """MinIO's answer has this status, in words that do not say so."""
    with pytest.raises(UserError, match="somewhere is full"):
        place(room=10, status=507).put("ab/one", bytes(11))
