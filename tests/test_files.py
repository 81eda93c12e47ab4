import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tasks.adapters.files import (
    DamagedFileError,
    pack_arrays,
    read_arrays,
    read_sealed,
    unpack_arrays,
    view_arrays,
    write_arrays,
    write_atomic,
    write_sealed,
)


def test_a_sealed_file_returns_its_bytes(tmp_path):
    write_sealed(tmp_path / "a", b"content")
    assert read_sealed(tmp_path / "a") == b"content"


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(tmp_path, place, bit):
    path = tmp_path / "sealed"
    write_sealed(path, b"some content")
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(DamagedFileError):
        read_sealed(path)


@pytest.mark.parametrize("length", [0, 10, 64, 65, 70])
def test_a_truncated_file_is_noticed(tmp_path, length):
    path = tmp_path / "sealed"
    write_sealed(path, b"some content")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedFileError):
        read_sealed(path)


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "a", "no bytes")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_writer_killed_at_any_moment_leaves_whole_files_only(tmp_path):
    script = (
        "import itertools, sys, pathlib\n"
        "from tasks.adapters.files import write_sealed\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "for i in itertools.count():\n"
        "    write_sealed(folder / f'{i % 7}.bin', bytes([i % 256]) * 300_000)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with writer:
        writer.stdout.readline()
        while len(list(tmp_path.glob("*.bin"))) < 7:
            pass
        writer.send_signal(signal.SIGKILL)
    entries = list(tmp_path.glob("*.bin"))
    assert len(entries) == 7
    assert all(len(set(read_sealed(entry))) == 1 for entry in entries)


def test_arrays_survive_packing(rng):
    arrays = {"a": rng.normal(size=(3, 2)), "name": np.array("text")}
    back = unpack_arrays(pack_arrays(arrays))
    assert back["a"].tolist() == arrays["a"].tolist()
    assert str(back["name"]) == "text"


@pytest.mark.parametrize("compress", [True, False])
def test_an_absent_or_damaged_file_of_arrays_is_as_good_as_none(tmp_path, compress):
    path = tmp_path / "arrays.npz"
    assert read_arrays(path) is None
    write_arrays(path, {"a": np.arange(3.0)}, compress=compress)
    assert read_arrays(path)["a"].tolist() == [0.0, 1.0, 2.0]
    path.write_bytes(path.read_bytes()[:-1])
    assert read_arrays(path) is None


def test_objects_are_never_packed():
    with pytest.raises(TypeError, match="thing"):
        pack_arrays({"thing": np.array([object()])})


def test_a_pickle_inside_an_archive_is_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", thing=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack_arrays((tmp_path / "evil.npz").read_bytes())


def every_kind(rng):
    return {
        "numbers": rng.normal(size=(5000, 7)),
        "columns": np.asfortranarray(rng.normal(size=(300, 5))),
        "codes": rng.integers(-1, 9, size=(11, 3)).astype(np.int32),
        "nothing": np.empty((4, 0)),
        "text": np.array("a table's ünusual names"),
        "one": np.array(3.5),
    }


def test_views_are_the_arrays_that_were_written(tmp_path, rng):
    arrays = every_kind(rng)
    write_arrays(tmp_path / "some.npz", arrays, compress=False)
    found = view_arrays(tmp_path / "some.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert type(found[name]) is np.ndarray
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match="read-only"):
        found["numbers"][0, 0] = 1.0


def test_views_outlive_the_file(tmp_path, rng):
    arrays = every_kind(rng)
    write_arrays(tmp_path / "some.npz", arrays, compress=False)
    found = view_arrays(tmp_path / "some.npz")
    write_arrays(tmp_path / "some.npz", {"numbers": np.zeros(3)}, compress=False)
    np.testing.assert_array_equal(found["numbers"], arrays["numbers"])
    (tmp_path / "some.npz").unlink()
    np.testing.assert_array_equal(found["columns"], arrays["columns"])


def test_views_of_a_file_under_another_name_are_refused(tmp_path, rng):
    write_arrays(tmp_path / "some.npz", every_kind(rng), compress=False)
    (tmp_path / "some.npz").rename(tmp_path / "other.npz")
    with pytest.raises(DamagedFileError, match=r"written as some\.npz"):
        view_arrays(tmp_path / "other.npz")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.99, 0.9999])
def test_views_of_a_file_that_ends_early_are_refused(tmp_path, rng, share):
    path = tmp_path / "some.npz"
    write_arrays(path, every_kind(rng), compress=False)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedFileError, match=r"some\.npz is not whole"):
        view_arrays(path)


def test_views_of_a_file_without_its_beginning_are_refused(tmp_path, rng):
    path = tmp_path / "some.npz"
    write_arrays(path, every_kind(rng), compress=False)
    path.write_bytes(path.read_bytes()[100_000:])
    with pytest.raises(DamagedFileError, match=r"some\.npz is not whole"):
        view_arrays(path)


def test_views_of_packed_arrays_are_refused(tmp_path, rng):
    write_arrays(tmp_path / "some.npz", every_kind(rng), compress=True)
    with pytest.raises(DamagedFileError, match=r"some\.npz is not whole"):
        view_arrays(tmp_path / "some.npz")


def test_a_changed_list_of_contents_gives_the_arrays_or_an_error(tmp_path, rng):
    """The seal is not looked at; still what says where arrays lie is not read as another place."""
    path = tmp_path / "some.npz"
    arrays = every_kind(rng)
    write_arrays(path, arrays, compress=False)
    content = path.read_bytes()
    start = content.index(b"PK\x01\x02")
    for place in range(start, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        try:
            found = view_arrays(path)
        except DamagedFileError:
            continue
        for name in arrays.keys() & found.keys():
            np.testing.assert_array_equal(found[name], arrays[name])
