import numpy as np
import pytest

from tasks.adapters.files import pack_arrays, unpack_arrays, write_atomic


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "a", "no bytes")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_arrays_survive_packing(rng):
    arrays = {"a": rng.normal(size=(3, 2)), "name": np.array("text")}
    back = unpack_arrays(pack_arrays(arrays))
    assert back["a"].tolist() == arrays["a"].tolist()
    assert str(back["name"]) == "text"


def test_objects_are_never_packed():
    with pytest.raises(TypeError, match="thing"):
        pack_arrays({"thing": np.array([object()])})


def test_a_pickle_inside_an_archive_is_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", thing=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        unpack_arrays((tmp_path / "evil.npz").read_bytes())
