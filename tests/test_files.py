import numpy as np
import pytest

from tasks.storage import files
from tasks.storage.files import pack_arrays, unpack_arrays, write_atomic


@pytest.fixture(params=["nameless", "named"])
def _file_system(request, monkeypatch):
    """File systems with and without files that have no name until they are whole."""
    if request.param == "named":
        monkeypatch.setattr(files, "_nameless", lambda folder: None)


@pytest.mark.usefixtures("_file_system")
def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "a", "no bytes")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_survive_packing(rng, compress):
    arrays = {
        "a": rng.normal(size=(3, 2)),
        "columns": np.asfortranarray(rng.normal(size=(5, 4)), dtype=np.float32),
        "name": np.array("text"),
        "names": np.array(["a", "longer", ""]),
        "none": np.empty((0, 3), dtype=np.int32),
        "bits": np.array([True, False]),
        "other end": np.arange(3, dtype=">i8"),
    }
    back = unpack_arrays(pack_arrays(arrays, compress=compress))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tolist() == array.tolist()
        assert back[name].flags.writeable
        assert back[name].flags.f_contiguous == array.flags.f_contiguous


def test_what_was_unpacked_is_no_view_of_the_bytes():
    data = pack_arrays({"a": np.zeros(5)}, compress=False)
    unpack_arrays(data)["a"][:] = 1.0
    assert unpack_arrays(data)["a"].tolist() == [0.0] * 5


def test_objects_are_never_packed():
    with pytest.raises(TypeError, match="thing"):
        pack_arrays({"thing": np.array([object()])})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_pickle_inside_an_archive_is_refused(tmp_path, save):
    save(tmp_path / "evil.npz", thing=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"allow_pickle|addresses of objects"):
        unpack_arrays((tmp_path / "evil.npz").read_bytes())


def test_an_array_that_claims_its_neighbour_s_numbers_is_refused():
    arrays = {"a": np.arange(4.0), "b": np.arange(9.0)}
    data = pack_arrays(arrays, compress=False)
    for claimed in (b"'shape': (9,)", b"'shape': (1,)"):
        lying = data.replace(b"'shape': (4,)", claimed, 1)
        assert lying != data
        with pytest.raises(ValueError, match="as long as its header says"):
            unpack_arrays(lying)
