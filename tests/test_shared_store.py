"""The one store: blobs are whole or absent, under their own name, wherever they lie."""

import pickle
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from stored_files import folder_store

from configs.errors import UserError
from tasks.storage.settings import Settings, read_settings
from tasks.storage.store import (
    DamagedFileError,
    SharedStore,
    machine_store,
    mapped_arrays,
    open_store,
    sealed,
    unsealed,
)


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(place, bit):
    content = bytearray(sealed("ab/one", b"some content"))
    content[place % len(content)] ^= 1 << bit
    with pytest.raises(DamagedFileError):
        unsealed("ab/one", bytes(content))


@pytest.mark.parametrize("length", [0, 10, 64, 65, 72, 76])
def test_a_blob_that_ends_early_is_noticed(length):
    with pytest.raises(DamagedFileError):
        unsealed("ab/one", sealed("ab/one", b"some content")[:length])


def test_a_blob_comes_back_until_it_is_removed(shared):
    assert shared.read("ab/one") is None
    assert not shared.has("ab/one")
    shared.write("ab/one", b"content")
    assert shared.read("ab/one") == b"content"
    assert shared.has("ab/one")
    assert shared.remove("ab/one")
    assert not shared.remove("ab/one")
    assert shared.read("ab/one") is None


def test_what_is_absent_is_asked_for_anew(shared, store_settings):
    other = SharedStore(type(shared.place)(*_where(shared)), store_settings.home)
    for i in range(3):
        assert shared.read(f"{i}") is None
        assert not list(shared.entries(f"{i}"))
        other.write(f"{i}", b"late")
        assert shared.has(f"{i}")
        assert shared.read(f"{i}") == b"late"


def _where(shared):
    """What a place is made of."""
    place = shared.place
    return (place.folder,) if hasattr(place, "folder") else (place.address,)


@pytest.mark.parametrize("damage", ["flipped", "short", "another's"])
def test_a_damaged_blob_counts_as_absent_and_is_removed(shared, damage):
    shared.write("ab/one", b"content")
    content = shared.place.get("ab/one")
    if damage == "flipped":
        content = content[:-1] + bytes([content[-1] ^ 1])
    elif damage == "short":
        content = content[:-1]
    else:
        content = sealed("ab/two", b"content")
    shared.place.put("ab/one", content)
    assert shared.read("ab/one") is None
    assert not shared.has("ab/one")


def test_several_blobs_are_read_at_once(shared):
    for i in range(20):
        shared.write(f"ab/{i}", bytes([i]))
    shared.place.put("ab/3", b"damaged")
    found = shared.read_many([f"ab/{i}" for i in range(25)])
    assert found == {f"ab/{i}": bytes([i]) for i in range(20) if i != 3}


def test_a_listing_tells_names_sizes_and_times(shared):
    shared.write("ab/one", b"x" * 1000)
    shared.write("cd/ef/two", b"")
    found = {entry.name: entry for entry in shared.entries()}
    assert found.keys() == {"ab/one", "cd/ef/two"}
    assert 1000 < found["ab/one"].size < 1200
    assert 1.7e9 < found["ab/one"].changed < 5e9
    assert [entry.name for entry in shared.entries("cd")] == ["cd/ef/two"]
    assert not list(shared.entries("nothing"))


def test_the_first_of_two_is_kept_where_the_place_can_tell(shared):
    assert shared.write_absent("ab/one", b"first")
    assert not shared.write_absent("ab/one", b"second")
    assert shared.read("ab/one") == b"first"


# rclone's server takes a write whose condition fails.
@pytest.mark.parametrize("store_settings", ["folder", "moto"], indirect=True)
def test_of_many_writers_at_once_one_wins_where_the_place_can_tell(shared, store_settings):
    won, lost = [], []
    begin = threading.Barrier(8)

    def race(i):
        begin.wait()
        (won if shared.write_absent("one", bytes([i]) * 10**5) else lost).append(i)

    threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert shared.read("one") == bytes(won) * 10**5
    assert [entry.name for entry in shared.place.entries()] == ["one"]
    files = [path.name for path in store_settings.home.rglob("*") if path.is_file()]
    assert set(files) <= {"one"}  # nothing half written


def test_a_writer_killed_at_any_moment_leaves_whole_blobs_only(tmp_path):
    script = (
        "import itertools, sys, pathlib\n"
        "from stored_files import folder_store\n"
        "store = folder_store(pathlib.Path(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "for i in itertools.count():\n"
        "    store.write(f'{i % 7}.bin', bytes([i % 256]) * 300_000)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    with writer:
        writer.stdout.readline()
        while len(list(tmp_path.glob("*.bin"))) < 7:
            pass
        writer.send_signal(signal.SIGKILL)
    entries = list(folder_store(tmp_path).entries())
    assert len(entries) == 7
    assert all(len(set(folder_store(tmp_path).read(entry.name))) == 1 for entry in entries)


def every_kind(rng):
    return {
        "numbers": rng.normal(size=(5000, 7)),
        "columns": np.asfortranarray(rng.normal(size=(300, 5))),
        "codes": rng.integers(-1, 9, size=(11, 3)).astype(np.int32),
        "nothing": np.empty((4, 0)),
        "text": np.array("a table's ünusual names"),
        "one": np.array(3.5),
    }


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_come_back_or_are_absent(shared, rng, compress):
    arrays = every_kind(rng)
    assert shared.read_arrays("ab/some.npz") is None
    shared.write_arrays("ab/some.npz", arrays, compress=compress)
    for again in (False, True):
        found = shared.read_arrays("ab/some.npz", again=again)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
    shared.place.put("ab/some.npz", shared.place.get("ab/some.npz")[:-1])
    assert shared.read_arrays("ab/some.npz") is None


def test_views_are_the_arrays_that_were_written(shared, rng):
    arrays = every_kind(rng)
    assert shared.view_arrays("ab/some.npz") is None
    shared.write_arrays("ab/some.npz", arrays, compress=False)
    found = shared.view_arrays("ab/some.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert type(found[name]) is np.ndarray
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match="read-only"):
        found["numbers"][0, 0] = 1.0


def test_views_outlive_the_blob(shared, rng):
    arrays = every_kind(rng)
    shared.write_arrays("ab/some.npz", arrays, compress=False)
    found = shared.view_arrays("ab/some.npz")
    shared.write_arrays("ab/some.npz", {"numbers": np.zeros(3)}, compress=False)
    np.testing.assert_array_equal(found["numbers"], arrays["numbers"])
    shared.remove("ab/some.npz")
    np.testing.assert_array_equal(found["columns"], arrays["columns"])


def test_a_copy_is_fetched_once_and_again_where_it_is_damaged(shared, store_settings, monkeypatch):
    shared.write_arrays("ab/some.npz", {"x": np.arange(9.0)}, compress=False)
    if shared.place.local("ab/some.npz") is not None:
        assert shared.view_arrays("ab/some.npz") is not None
        assert not (store_settings.home / "fetched").exists()  # a folder is its own copy
        return
    get, asked = shared.place.get, []
    monkeypatch.setattr(shared.place, "get", lambda name: asked.append(name) or get(name))
    for _ in range(3):
        assert shared.view_arrays("ab/some.npz")["x"].tolist() == list(range(9))
    assert shared.read_arrays("ab/some.npz", again=True) is not None
    assert asked == ["ab/some.npz"]
    copy = store_settings.home / "fetched" / "ab" / "some.npz"
    copy.write_bytes(copy.read_bytes()[:-3] + b"bad")
    assert shared.view_arrays("ab/some.npz")["x"].tolist() == list(range(9))
    assert len(asked) == 2


def test_a_blob_that_is_damaged_elsewhere_is_never_copied(shared):
    shared.write_arrays("ab/some.npz", {"x": np.arange(9.0)}, compress=False)
    content = bytearray(shared.place.get("ab/some.npz"))
    content[len(content) // 2] ^= 1
    shared.place.put("ab/some.npz", bytes(content))
    assert shared.read_arrays("ab/some.npz", again=True) is None
    assert shared.view_arrays("ab/some.npz") is None
    assert not shared.has("ab/some.npz")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("something was unpickled",))


@pytest.mark.parametrize("way", ["read_arrays", "view_arrays"])
def test_a_pickle_behind_a_right_seal_is_refused(shared, tmp_path, way):
    path = tmp_path / "evil.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as member:
        header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(pickle.dumps(Bomb()))
    shared.write("ab/evil.npz", path.read_bytes())
    assert getattr(shared, way)("ab/evil.npz") is None
    assert not shared.has("ab/evil.npz")


def _file(tmp_path, rng, *, compress=False):
    """A file with arrays of every kind in a store that is a folder."""
    store = folder_store(tmp_path)
    store.write_arrays("some.npz", every_kind(rng), compress=compress)
    return store, tmp_path / "some.npz"


def test_views_of_a_file_under_another_name_are_refused(tmp_path, rng):
    store, path = _file(tmp_path, rng)
    other = path.rename(tmp_path / "other.npz")
    with pytest.raises(DamagedFileError, match=r"written as  ?some\.npz"):
        mapped_arrays(other, "other.npz")
    assert store.view_arrays("other.npz") is None
    assert not other.exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.99, 0.9999])
def test_views_of_a_file_that_ends_early_are_refused(tmp_path, rng, share):
    _, path = _file(tmp_path, rng)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedFileError, match=r"some\.npz"):
        mapped_arrays(path, "some.npz")


def test_views_of_a_file_without_its_beginning_are_refused(tmp_path, rng):
    _, path = _file(tmp_path, rng)
    path.write_bytes(path.read_bytes()[100_000:])
    with pytest.raises(DamagedFileError, match=r"some\.npz"):
        mapped_arrays(path, "some.npz")


def test_views_of_arrays_that_begin_late_are_refused(tmp_path, rng):
    _, path = _file(tmp_path, rng)
    line, _, data = path.read_bytes().partition(b"\n")
    path.write_bytes(line + b"\n" + bytes(100) + data)
    with pytest.raises(DamagedFileError, match=r"some\.npz is not whole"):
        mapped_arrays(path, "some.npz")


def test_views_of_packed_arrays_are_refused(tmp_path, rng):
    _, path = _file(tmp_path, rng, compress=True)
    with pytest.raises(DamagedFileError, match=r"some\.npz is not whole"):
        mapped_arrays(path, "some.npz")


def test_a_changed_list_of_contents_gives_the_arrays_or_an_error(tmp_path, rng):
    """The seal is not looked at; still what says where arrays lie is not read as another place."""
    _, path = _file(tmp_path, rng)
    arrays, content = mapped_arrays(path, "some.npz"), path.read_bytes()
    other = tmp_path / "changed.npz"
    start = content.index(b"PK\x01\x02")
    for place in range(start, len(content), 7):
        other.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        try:
            found = mapped_arrays(other, "some.npz")
        except DamagedFileError:
            continue
        for name in arrays.keys() & found.keys():
            np.testing.assert_array_equal(found[name], arrays[name])


def test_an_older_home_is_found_whole(tmp_path):
    home = tmp_path / "home"
    for name in ("prepared/a.npz", "moments/b.map.npz", "moments/c.features.npz", "store/ab/d"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(name.encode())
    store = open_store(Settings(home))
    for name in ("prepared/a.npz", "moments/b.map.npz"):
        assert store.place.get(name) == name.encode()
    assert store.place.get("ab/d") == b"store/ab/d"
    kept = machine_store(Settings(home)).place
    assert kept.get("c.features.npz") == b"moments/c.features.npz"
    assert sorted(path.name for path in home.iterdir()) == ["features", "store"]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("s3://bucket/folder/", "s3://bucket/folder"),
        ("file:///some/folder", "/some/folder"),
        ("/some/folder", "/some/folder"),
    ],
)
def test_a_store_is_named_by_its_variable(settings, monkeypatch, named, found):
    monkeypatch.setenv("FKD_STORE", named)
    assert read_settings().store == found
    monkeypatch.delenv("FKD_STORE")
    assert read_settings().store == str(settings.home / "store")


def test_a_password_in_the_address_is_refused_and_not_repeated(settings, monkeypatch):
    monkeypatch.setenv("FKD_STORE", "s3://me:hunter2@bucket/folder")
    with pytest.raises(UserError, match="neither name nor password") as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)


def test_an_address_that_nobody_knows_is_named(tmp_path):
    with pytest.raises(UserError, match=r"FKD_STORE must be .* got gopher://bucket"):
        open_store(Settings(tmp_path, shared="gopher://bucket"))


def test_tasks_carry_the_store_and_no_home_where_that_is_elsewhere(tmp_path, monkeypatch):
    here = Settings(tmp_path / "driver", mirror="x", shared="s3://bucket/folder").for_workers()
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "worker"))
    code = (
        "import pickle, sys\n"
        "found = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "print(found.store, found.home, found.home.is_dir())"
    )
    command = [sys.executable, "-c", code, pickle.dumps(here).hex()]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told == ["s3://bucket/folder", str(tmp_path / "worker"), "False"]
    monkeypatch.delenv("FKD_HOME")
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told[2] == "True"
    assert not Path(told[1]).exists()  # a private folder, gone with its process
    # In the home itself the store is seen by whoever sees the home.
    inside = Settings(tmp_path / "driver")
    assert pickle.loads(pickle.dumps(inside)) == inside
