"""Files are written atomically; arrays are stored without pickle."""

import io
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tasks.storage import files
from tasks.storage.files import (
    pack_arrays,
    pack_npz,
    unpack_arrays,
    unpack_npz,
    write_atomic,
    write_new,
)

PACKED = [(pack_arrays, lambda data: unpack_arrays(io.BytesIO(data))), (pack_npz, unpack_npz)]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "a", "no bytes")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_existing_file_is_kept(tmp_path):
    assert write_new(tmp_path / "a", b"old")
    assert not write_new(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_without_hard_links_a_file_is_written(tmp_path, monkeypatch):
    def link(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    assert write_new(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"


@pytest.mark.parametrize("write", [write_atomic, write_new])
def test_content_then_name_then_folders_are_synced(tmp_path, monkeypatch, write):
    """After a power loss a file is complete or absent, and not absent once the call returned."""
    path, synced = tmp_path / "new" / "folder" / "a", []

    def fsync(number):
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        name = str(Path(f"/proc/self/fd/{number}").readlink()) if is_folder else "content"
        synced.append((name, path.exists()))

    monkeypatch.setattr(files.os, "fsync", fsync)
    write(path, b"content")
    assert synced == [
        ("content", False),
        (str(path.parent), True),
        (str(path.parent.parent), True),
        (str(tmp_path), True),
    ]


@pytest.mark.parametrize(("pack", "unpack"), PACKED)
def test_arrays_survive_packing(rng, pack, unpack):
    arrays = {
        "a": rng.normal(size=(3, 2)),
        "columns": np.asfortranarray(rng.normal(size=(5, 4)), dtype=np.float32),
        "name": np.array("text"),
        "names": np.array(["a", "longer", ""]),
        "none": np.empty((0, 3), dtype=np.int32),
        "bits": np.array([True, False]),
        "other end": np.arange(3, dtype=">i8"),
    }
    data = pack(arrays)
    for _ in range(2):
        back = unpack(data)
        assert list(back) == list(arrays)
        for name, array in arrays.items():
            assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
            assert back[name].tolist() == array.tolist()
            assert back[name].flags.f_contiguous == array.flags.f_contiguous
            if array.dtype.kind == "f":
                back[name][...] = 0  # the arrays are no views of the bytes


@pytest.mark.parametrize(("pack", "unpack"), PACKED)
def test_python_objects_are_neither_packed_nor_unpacked(pack, unpack, tmp_path):
    objects = {"thing": np.array([{"a": 1}], dtype=object)}
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(objects)
    with (tmp_path / "evil").open("wb") as file:
        if pack is pack_npz:
            np.savez(file, **objects)
        else:
            np.save(file, np.array(["thing"]))
            np.save(file, objects["thing"], allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack((tmp_path / "evil").read_bytes())


@pytest.mark.parametrize("changed", ["a", "b"])
def test_an_array_with_a_wrong_header_is_refused(changed):
    arrays = {"a": np.arange(4.0), "b": np.arange(9.0)}
    data = pack_arrays(arrays)
    size = len(arrays[changed])
    for claimed in (8, 1):
        wrong = data.replace(f"'shape': ({size},)".encode(), f"'shape': ({claimed},)".encode(), 1)
        assert wrong != data
        with pytest.raises((ValueError, EOFError), match=r"."):
            unpack_arrays(io.BytesIO(wrong))
