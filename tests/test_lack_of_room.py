"""A store that takes no more is told apart from one that does not answer."""

import errno

import pytest
from small_disk import fill, small_disk

from configs.errors import UserError
from tasks.storage.backends import RemotePlace, StoreUnreachableError
from tasks.storage.settings import Settings
from tasks.storage.store import open_store


def test_a_folder_that_is_full_is_named_as_the_store(tmp_path):
    with small_disk(tmp_path / "disk", size="512k") as disk:
        store = open_store(Settings(tmp_path / "home", shared=str(disk / "store")))
        store.write("ab/one", b"small")
        fill(disk)
        told = rf"the store {disk}/store is full \(No space left on device\); free some space there"
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
        made = RemotePlace("memory://somewhere")
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
    with pytest.raises(StoreUnreachableError, match="does not answer as it should"):
        place(room=-1).put("ab/one", bytes(11))


def test_a_busy_server_is_not_full(place):
    busy = place(room=10, status=503)
    with pytest.raises(StoreUnreachableError, match="does not answer as it should"):
        busy.put("ab/one", bytes(11))


def test_a_server_that_fails_for_a_moment_is_not_full(place):
    well = place(room=10, recovers=True)
    well.put("ab/one", bytes(11))
    assert list(well._fs.objects.values()) == [bytes(11)]


def test_a_server_that_answers_that_it_lacks_room_is_full(place):
    """MinIO's answer has this status, in words that do not say so."""
    with pytest.raises(UserError, match="somewhere is full"):
        place(room=10, status=507).put("ab/one", bytes(11))
