import io
import pickle
import zipfile

import numpy as np
import pytest

from configs.data import DataConfig
from tasks.adapters.files import pack_arrays, write_sealed
from tasks.adapters.settings import Settings
from tasks.data.load import load_table
from tasks.data.prepared import is_whole, prepared_files, prepared_path, read_prepared


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "home", None, None, None)


def test_a_table_that_was_never_prepared_is_none(settings):
    assert read_prepared(settings, "0" * 64) is None
    assert prepared_files(settings) == []


def test_a_truncated_table_is_none(settings):
    loaded = load_table(DataConfig(), settings)
    path = prepared_path(settings, loaded.digest)
    assert prepared_files(settings) == [path]
    assert is_whole(path)
    path.write_bytes(path.read_bytes()[:-100])
    assert read_prepared(settings, loaded.digest) is None
    assert not is_whole(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("something was unpickled",))


def test_a_pickle_in_the_cache_is_refused_even_behind_a_right_seal(settings):
    arrays = load_table(DataConfig(), settings).table.arrays()
    buffer = io.BytesIO()
    buffer.write(pack_arrays({**arrays, "provenance": np.array("{}")}))
    with zipfile.ZipFile(buffer, "a") as archive:
        content = io.BytesIO()
        np.lib.format.write_array_header_2_0(
            content, {"descr": "|O", "fortran_order": False, "shape": ()}
        )
        archive.writestr("extra.evil.npy", content.getvalue() + pickle.dumps(Bomb()))
    write_sealed(prepared_path(settings, "a" * 64), buffer.getvalue())
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_prepared(settings, "a" * 64)
