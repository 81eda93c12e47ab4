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
