"""The store: blobs are complete or absent, on each backend; locks of a store."""

import io
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from object_stores import BUCKET, moto_server, variables
from stored_files import folder_store

from configs.errors import UserError
from tasks.storage import store as locks
from tasks.storage.settings import Settings, read_settings
from tasks.storage.store import (
    BlobStore,
    DamagedBlobError,
    add_checksum,
    open_store,
    store_id,
    store_lock,
    verify_checksum,
)


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_is_detected(position, bit):
    content = bytearray(add_checksum("ab/one", b"some content"))
    content[position % len(content)] ^= 1 << bit
    with pytest.raises(DamagedBlobError):
        verify_checksum("ab/one", bytes(content))


@pytest.mark.parametrize("length", [0, 10, 64, 65, 72, 76])
def test_a_truncated_blob_is_detected(length):
    with pytest.raises(DamagedBlobError):
        verify_checksum("ab/one", add_checksum("ab/one", b"some content")[:length])


def test_a_blob_is_read_until_it_is_removed(shared):
    assert shared.read("ab/one") is None
    assert not shared.has("ab/one")
    shared.write("ab/one", b"content")
    assert shared.read("ab/one") == b"content"
    assert shared.has("ab/one")
    assert shared.remove("ab/one")
    assert not shared.remove("ab/one")
    assert shared.read("ab/one") is None


def test_absence_is_not_cached(shared, store_settings):
    other = BlobStore(type(shared.backend)(*_where(shared)), store_settings.home)
    for i in range(3):
        assert shared.read(f"{i}") is None
        assert not list(shared.entries(f"{i}"))
        other.write(f"{i}", b"late")
        assert shared.has(f"{i}")
        assert shared.read(f"{i}") == b"late"


def _where(shared):
    """Return the backend of a store."""
    backend = shared.backend
    return (backend.folder,) if hasattr(backend, "folder") else (backend.address,)


@pytest.mark.parametrize("damage", ["flipped", "short", "another's"])
def test_a_damaged_blob_counts_as_absent_and_is_removed(shared, damage):
    shared.write("ab/one", b"content")
    content = shared.backend.get("ab/one")
    if damage == "flipped":
        content = content[:-1] + bytes([content[-1] ^ 1])
    elif damage == "short":
        content = content[:-1]
    else:
        content = add_checksum("ab/two", b"content")
    shared.backend.put("ab/one", content)
    assert shared.read("ab/one") is None
    assert not shared.has("ab/one")


def test_several_blobs_are_read_at_once(shared):
    for i in range(20):
        shared.write(f"ab/{i}", bytes([i]))
    shared.backend.put("ab/3", b"damaged")
    found = shared.read_many([f"ab/{i}" for i in range(25)])
    assert found == {f"ab/{i}": bytes([i]) for i in range(20) if i != 3}


def test_a_listing_has_names_sizes_and_times(shared):
    shared.write("ab/one", b"x" * 1000)
    shared.write("cd/ef/two", b"")
    found = {entry.name: entry for entry in shared.entries()}
    assert found.keys() == {"ab/one", "cd/ef/two"}
    assert 1000 < found["ab/one"].size < 1200
    assert 1.7e9 < found["ab/one"].changed < 5e9
    assert [entry.name for entry in shared.entries("cd")] == ["cd/ef/two"]
    assert not list(shared.entries("nothing"))


def test_the_first_of_two_conditional_writes_is_kept(shared):
    assert shared.write_absent("ab/one", b"first")
    assert not shared.write_absent("ab/one", b"second")
    assert shared.read("ab/one") == b"first"


# rclone's server takes a write whose condition fails.
@pytest.mark.parametrize("store_settings", ["folder", "moto"], indirect=True)
def test_one_of_many_conditional_writers_wins(shared, store_settings):
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
    assert [entry.name for entry in shared.backend.entries()] == ["one"]
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
        cwd=Path(__file__).parents[1],
    )
    with writer:
        writer.stdout.readline()
        while len(list(tmp_path.glob("*.bin"))) < 7:
            assert writer.poll() is None
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


def test_arrays_are_read_or_absent(shared, rng):
    arrays = every_kind(rng)
    assert shared.read_arrays("ab/some.arrays") is None
    shared.write_arrays("ab/some.arrays", arrays)
    for cache in (False, True):
        found = shared.read_arrays("ab/some.arrays", cache=cache)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
    shared.backend.put("ab/some.arrays", shared.backend.get("ab/some.arrays")[:-1])
    assert shared.read_arrays("ab/some.arrays") is None


def test_mapped_arrays_are_the_written_arrays(shared, rng):
    arrays = every_kind(rng)
    assert shared.mapped_arrays("ab/some.arrays") is None
    shared.write_arrays("ab/some.arrays", arrays)
    found = shared.mapped_arrays("ab/some.arrays")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert type(found[name]) is np.ndarray
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match="read-only"):
        found["numbers"][0, 0] = 1.0


def test_mapped_arrays_outlive_the_blob(shared, rng):
    arrays = every_kind(rng)
    shared.write_arrays("ab/some.arrays", arrays)
    found = shared.mapped_arrays("ab/some.arrays")
    shared.write_arrays("ab/some.arrays", {"numbers": np.zeros(3)})
    np.testing.assert_array_equal(found["numbers"], arrays["numbers"])
    shared.remove("ab/some.arrays")
    np.testing.assert_array_equal(found["columns"], arrays["columns"])


def test_a_copy_is_fetched_once_and_again_if_it_is_damaged(shared, store_settings, monkeypatch):
    shared.write_arrays("ab/some.arrays", {"x": np.arange(9.0)})
    if shared.backend.local("ab/some.arrays") is not None:
        assert shared.mapped_arrays("ab/some.arrays") is not None
        assert not (store_settings.home / "fetched").exists()  # a folder is its own copy
        return
    get, read = shared.backend.get, []
    monkeypatch.setattr(shared.backend, "get", lambda name: read.append(name) or get(name))
    for _ in range(3):
        assert shared.mapped_arrays("ab/some.arrays")["x"].tolist() == list(range(9))
    assert shared.read_arrays("ab/some.arrays", cache=True) is not None
    assert read == ["ab/some.arrays"]
    copy = store_settings.home / "fetched" / "ab" / "some.arrays"
    copy.write_bytes(copy.read_bytes()[:-3] + b"bad")
    assert shared.mapped_arrays("ab/some.arrays")["x"].tolist() == list(range(9))
    assert len(read) == 2


def test_a_damaged_remote_blob_is_not_copied(shared):
    shared.write_arrays("ab/some.arrays", {"x": np.arange(9.0)})
    content = bytearray(shared.backend.get("ab/some.arrays"))
    content[len(content) // 2] ^= 1
    shared.backend.put("ab/some.arrays", bytes(content))
    assert shared.read_arrays("ab/some.arrays", cache=True) is None
    assert shared.mapped_arrays("ab/some.arrays") is None
    assert not shared.has("ab/some.arrays")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("something was unpickled",))


@pytest.mark.parametrize("way", ["read_arrays", "mapped_arrays"])
def test_a_pickle_with_a_right_checksum_is_refused(shared, way):
    file = io.BytesIO()
    np.save(file, np.array(["x"]))
    np.lib.format.write_array_header_1_0(
        file, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    file.write(pickle.dumps(Bomb()))
    shared.write("ab/evil.arrays", file.getvalue())
    assert getattr(shared, way)("ab/evil.arrays") is None
    assert not shared.has("ab/evil.arrays")


@pytest.fixture
def written(tmp_path, rng):
    """A folder store and the file of its only blob, with arrays of every kind."""
    store = folder_store(tmp_path)
    store.write_arrays("some.arrays", every_kind(rng))
    return store, tmp_path / "some.arrays"


@pytest.mark.parametrize("way", ["read_arrays", "mapped_arrays"])
def test_a_file_under_another_name_counts_as_absent(written, way):
    store, path = written
    other = path.rename(path.with_name("other.arrays"))
    assert getattr(store, way)("other.arrays") is None
    assert not other.exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.99, 0.9999])
def test_a_map_of_a_truncated_file_counts_as_absent(written, share):
    store, path = written
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert store.mapped_arrays("some.arrays") is None
    assert not path.exists()


@pytest.mark.parametrize("damage", ["no beginning", "late arrays", "more at the end"])
def test_a_map_of_other_bytes_counts_as_absent(written, damage):
    store, path = written
    line, _, data = path.read_bytes().partition(b"\n")
    path.write_bytes(
        {
            "no beginning": path.read_bytes()[100_000:],
            "late arrays": line + b"\n" + bytes(100) + data,
            "more at the end": line + b"\n" + data + b"x",
        }[damage]
    )
    assert store.mapped_arrays("some.arrays") is None


def test_a_changed_header_gives_no_numbers_of_another_array(written):
    """A map does not verify the checksum. Headers that do not fit the file are still refused."""
    store, path = written
    content, arrays = path.read_bytes(), store.mapped_arrays("some.arrays")
    start = content.index(b"\x93NUMPY")
    for magic in re.finditer(rb"\x93NUMPY", content):
        for position in range(magic.start(), magic.start() + 128, 3):
            path.write_bytes(
                content[:position] + bytes([content[position] ^ 0x40]) + content[position + 1 :]
            )
            found = store.mapped_arrays("some.arrays") or {}
            for name in arrays.keys() & found.keys():
                if found[name].dtype == arrays[name].dtype:
                    assert found[name].shape == arrays[name].shape
    assert start > 0


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("s3://bucket/folder/", "s3://bucket/folder"),
        ("file:///some/folder", "/some/folder"),
        ("/some/folder", "/some/folder"),
    ],
)
def test_the_store_is_set_by_its_variable(settings, monkeypatch, named, found):
    monkeypatch.setenv("FKD_STORE", named)
    assert read_settings().store == found
    monkeypatch.delenv("FKD_STORE")
    assert read_settings().store == str(settings.home / "store")


def test_a_password_in_the_address_is_refused_and_not_repeated(settings, monkeypatch):
    monkeypatch.setenv("FKD_STORE", "s3://me:hunter2@bucket/folder")
    with pytest.raises(UserError, match="FKD_STORE must not contain credentials") as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)


def test_an_unknown_protocol_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"FKD_STORE must be .* got gopher://bucket"):
        open_store(Settings(tmp_path, shared="gopher://bucket"))


def test_pickled_settings_have_the_store_and_no_home(tmp_path, monkeypatch):
    here = Settings(tmp_path / "driver", mirror="x", shared="s3://bucket/folder").for_workers()
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "worker"))
    code = (
        "import pickle, sys\n"
        "found = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "print(found.store, found.home, found.home.is_dir())"
    )
    command = [sys.executable, "-c", code, pickle.dumps(here).hex()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert printed == ["s3://bucket/folder", str(tmp_path / "worker"), "False"]
    monkeypatch.delenv("FKD_HOME")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert printed[2] == "True"
    assert not Path(printed[1]).exists()  # a private folder, removed with its process
    # A store in the home keeps the home.
    inside = Settings(tmp_path / "driver")
    assert pickle.loads(pickle.dumps(inside)) == inside


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as found:
        yield found


@pytest.fixture(params=["folder", "s3"])
def homes(request, tmp_path, monkeypatch):
    """Two homes on one store."""
    address = str(tmp_path / "store")
    if request.param == "s3":
        for name, value in variables(request.getfixturevalue("endpoint")).items():
            monkeypatch.setenv(name, value)
        address = f"s3://{BUCKET}/{tmp_path.name}"
    return [Settings(tmp_path / name, shared=address) for name in ("one", "other")]


def _hold(settings):
    return store_lock(open_store(settings), "test", settings.home)


def test_one_process_holds_the_lock_at_a_time(homes):
    inside, most = [], []

    def work(settings):
        for _ in range(4):
            with _hold(settings):
                inside.append(settings)
                time.sleep(0.02)
                most.append(len(inside))
                inside.remove(settings)

    threads = [threading.Thread(target=work, args=(settings,)) for settings in homes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_a_folder_whose_first_object_appears_after_the_listing_is_empty(
    tmp_path, monkeypatch, endpoint
):
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    store = open_store(Settings(tmp_path, shared=f"s3://{BUCKET}/{tmp_path.name}"))
    store.write("locks/late/1", b"content")

    async def _listed_before(self, path, **options):
        return []

    with monkeypatch.context() as patch:
        patch.setattr("s3fs.S3FileSystem._lsdir", _listed_before)
        assert list(store.entries("locks/late/")) == []
    assert [entry.name for entry in store.entries("locks/late/")] == ["locks/late/1"]


def test_an_error_releases_the_lock(homes):
    with pytest.raises(ZeroDivisionError), _hold(homes[0]):
        raise ZeroDivisionError
    with _hold(homes[1]):
        pass


def test_homes_of_one_store_read_the_same_id(homes, tmp_path):
    assert store_id(homes[0]) == store_id(homes[1])
    assert store_id(Settings(tmp_path / "third")) != store_id(homes[0])


def test_the_lease_of_a_killed_process_expires(tmp_path, monkeypatch, endpoint):
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    settings = Settings(tmp_path / "home", shared=f"s3://{BUCKET}/{tmp_path.name}")
    monkeypatch.setattr(locks, "EXPIRE_SECONDS", 1.0)
    open_store(settings).write("locks/test/000000000007", b"of a process that was killed")
    start = time.monotonic()
    with _hold(settings):
        assert time.monotonic() - start >= 1.0


def test_a_renewed_lease_does_not_expire(tmp_path, monkeypatch, endpoint):
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(locks, "EXPIRE_SECONDS", 1.0)
    monkeypatch.setattr(locks, "RENEW_SECONDS", 0.2)
    address = f"s3://{BUCKET}/{tmp_path.name}"
    one, other = (Settings(tmp_path / name, shared=address) for name in ("one", "other"))
    taken = threading.Event()

    def take():
        with _hold(other):
            taken.set()

    thread = threading.Thread(target=take)
    with _hold(one):
        thread.start()
        assert not taken.wait(3.0)
    assert taken.wait(30.0)
    thread.join()
