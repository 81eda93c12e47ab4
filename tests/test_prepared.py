import io
import pickle
import zipfile

import numpy as np
import pytest

from configs.data import DataConfig
from tasks.data.load import load_table, prepared_name, read_prepared
from tasks.storage.files import pack_arrays
from tasks.storage.settings import Settings
from tasks.storage.store import open_store


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "home", None, None, None)


def test_a_table_that_was_never_prepared_is_none(settings):
    assert read_prepared(settings, "0" * 64) is None
    assert not list(open_store(settings).entries("prepared"))


def test_a_truncated_table_is_none(settings):
    loaded = load_table(DataConfig(), settings)
    store, name = open_store(settings), prepared_name(loaded.digest)
    assert [entry.name for entry in store.entries("prepared")] == [name]
    assert store.read(name) is not None
    path = settings.home / "store" / name
    path.write_bytes(path.read_bytes()[:-100])
    assert read_prepared(settings, loaded.digest) is None
    assert not path.exists()


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
    open_store(settings).write(prepared_name("a" * 64), buffer.getvalue())
    assert read_prepared(settings, "a" * 64) is None
    assert not open_store(settings).has(prepared_name("a" * 64))
