"""Records and their predictions: two sealed files of one key, each read where it is wanted."""

import json
import os
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest

from fkd.catalog.methods import method
from tasks.adapters import store as store_module
from tasks.adapters.files import pack_arrays, read_sealed, write_sealed
from tasks.adapters.predicted import PredictedRows
from tasks.adapters.store import SCHEMA, TrialRecord, TrialStore, digest

OTHER = "cd" + "1" * 62


@pytest.fixture
def y_pred(rng):
    return rng.normal(size=7)


@pytest.fixture
def record(y_pred):
    return TrialRecord(
        key="ab" + "0" * 62,
        method="krr_fkd",
        version=method("krr_fkd").version,
        parameters={"iterations": 3, "approximation": {"kind": "exact"}},
        strength=3.0,
        split="0",
        measures={"age": {"mae": 0.1, "hgr": 0.2, "gdp": 0.3, "gdp_plugin": 0.3, "pf": 0.4}},
        seconds=1.5,
        predicted=PredictedRows.of(y_pred),
    )


@pytest.fixture
def reads(monkeypatch):
    """The names of the sealed files that the store opens, in order."""
    found = []
    for name in ("read_sealed", "open_arrays"):
        real = getattr(store_module, name)

        def counted(path, real=real):
            found.append(path.name)
            return real(path)

        monkeypatch.setattr(store_module, name, counted)
    return found


def flip(path):
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_record_and_its_predictions_come_back_bit_for_bit(tmp_path, record, y_pred):
    TrialStore(tmp_path).write(record, y_pred)
    store = TrialStore(tmp_path)
    assert store.read(record.key) == record
    assert store.predictions(record.key).tobytes() == y_pred.tobytes()


def test_a_record_that_travels_is_small_whatever_the_rows(tmp_path, record, rng):
    y_pred = rng.normal(size=200_000)
    store = TrialStore(tmp_path)
    store.write(replace(record, predicted=PredictedRows.of(y_pred)), y_pred)
    back = TrialStore(tmp_path).read(record.key)
    assert pickle.loads(pickle.dumps(back)) == back
    assert len(pickle.dumps(back)) < 4000
    assert store.path(record.key).stat().st_size < 4000
    assert store.predictions_path(record.key).stat().st_size > 8 * 200_000


def test_reading_a_record_opens_no_predictions(tmp_path, record, y_pred, reads):
    TrialStore(tmp_path).write(record, y_pred)
    assert TrialStore(tmp_path).read(record.key) is not None
    assert reads == [f"{record.key}.record"]


def test_a_record_is_written_after_its_predictions(tmp_path, record, y_pred, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "write_sealed", full)
    with pytest.raises(OSError, match="No space"):
        TrialStore(tmp_path).write(record, y_pred)
    monkeypatch.undo()
    store = TrialStore(tmp_path)
    assert record.key not in store
    assert store.has_predictions(record.key)  # they promise nothing: the record is absent


def test_a_failure_to_keep_predictions_leaves_no_record(tmp_path, record, y_pred, monkeypatch):
    def full(path, arrays, compress):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "write_arrays", full)
    with pytest.raises(OSError, match="No space"):
        TrialStore(tmp_path).write(record, y_pred)
    assert record.key not in TrialStore(tmp_path)


def test_a_record_is_whole_without_predictions(tmp_path, record):
    store = TrialStore(tmp_path)
    store.write(record)
    assert store.read(record.key) == record
    assert not store.has_predictions(record.key)
    assert store.predictions(record.key) is None


def test_a_record_is_read_once_until_it_is_written_again(tmp_path, record, reads):
    mine, theirs = TrialStore(tmp_path), TrialStore(tmp_path)
    assert mine.read(record.key) is None  # that it was absent is not remembered
    theirs.write(record)
    assert [mine.read(record.key) for _ in range(5)] == [record] * 5
    assert len(reads) == 1
    other = replace(record, seconds=2.5)  # of the same length
    theirs.write(other)
    assert mine.read(record.key) == other
    assert len(reads) == 2
    theirs.path(record.key).unlink()
    assert mine.read(record.key) is None


def test_a_file_that_changed_its_length_alone_is_read_again(tmp_path, record):
    store = TrialStore(tmp_path)
    store.write(record)
    assert record.key in store
    path, before = store.path(record.key), store.path(record.key).stat()
    path.write_bytes(path.read_bytes()[:-1])  # the same inode, cut short
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert record.key not in store


def test_a_record_names_what_it_was_computed_with(tmp_path, record):
    used = {"numpy": "2.4", "blas": [{"library": "openblas", "architecture": "Haswell"}]}
    store = TrialStore(tmp_path)
    store.write(replace(record, environment=used))
    assert store.read(record.key).environment == used
    assert store.kernels == {"openblas Haswell"}


def test_an_absent_record_is_none(tmp_path):
    assert TrialStore(tmp_path).read("f" * 64) is None
    assert TrialStore(tmp_path).predictions("f" * 64) is None


@pytest.mark.parametrize("known", [True, False], ids=["known before", "not yet read"])
def test_a_damaged_record_counts_as_absent_and_is_removed(tmp_path, record, y_pred, known):
    store = TrialStore(tmp_path)
    store.write(record, y_pred)
    assert not known or record.key in store
    flip(store.path(record.key))
    assert store.read(record.key) is None
    assert record.key not in store
    assert not store.path(record.key).exists()
    assert store.predictions(record.key) is not None  # whole, and of that key


def test_damaged_predictions_count_as_not_kept_and_are_removed(tmp_path, record, y_pred):
    store = TrialStore(tmp_path)
    store.write(record, y_pred)
    flip(store.predictions_path(record.key))
    assert store.predictions(record.key) is None
    assert not store.has_predictions(record.key)
    assert store.read(record.key) == record  # its numbers are whole


def put(store, key, plain):
    """Write a record under a key, with the fields that it is given."""
    write_sealed(store.path(key), json.dumps(plain).encode())


@pytest.mark.parametrize("more", [{"schema": SCHEMA + 1}, {"schema": 1}, {"colour": "blue"}])
def test_a_record_that_another_version_wrote_counts_as_absent(tmp_path, record, more):
    store = TrialStore(tmp_path)
    put(store, record.key, {**asdict(record), **more})
    assert store.read(record.key) is None
    assert record.key not in store
    assert store.path(record.key).is_file()  # it is not ours to remove
    store.write(record)
    assert record.key in store


@pytest.mark.parametrize("field", ["measures", "predicted", "environment", "schema"])
def test_a_record_without_a_field_counts_as_absent(tmp_path, record, field):
    store = TrialStore(tmp_path)
    put(store, record.key, {k: v for k, v in asdict(record).items() if k != field})
    assert store.read(record.key) is None


def swap(here, there):
    """Let two files change places."""
    aside = here.rename(here.with_name("aside"))
    there.rename(here)
    aside.rename(there)


def test_two_records_that_changed_places_are_both_absent(tmp_path, record):
    store, other = TrialStore(tmp_path), replace(record, key=OTHER, strength=4.0)
    store.write(record)
    store.write(other)
    swap(store.path(record.key), store.path(other.key))
    assert store.read(record.key) is None
    assert store.read(other.key) is None


def test_predictions_that_changed_places_are_both_absent(tmp_path, record, y_pred):
    store, other = TrialStore(tmp_path), replace(record, key=OTHER)
    store.write(record, y_pred)
    store.write(other, y_pred + 1)
    swap(store.predictions_path(record.key), store.predictions_path(other.key))
    assert store.predictions(record.key) is None
    assert store.predictions(other.key) is None
    assert store.read(record.key) is not None


def test_the_key_inside_each_file_counts(tmp_path, record, y_pred):
    store = TrialStore(tmp_path)
    put(store, OTHER, asdict(record))
    assert store.read(OTHER) is None
    arrays = {"key": np.array(record.key), "y_pred": y_pred}
    write_sealed(store.predictions_path(OTHER), pack_arrays(arrays))  # that says no name
    assert store.predictions(OTHER) is None
    write_sealed(store.predictions_path(OTHER), pack_arrays({"y_pred": y_pred}))
    assert store.predictions(OTHER) is None


def test_a_record_is_plain_json_behind_its_seal(tmp_path, record):
    store = TrialStore(tmp_path)
    store.write(record)
    plain = json.loads(read_sealed(store.path(record.key)))
    assert plain["measures"] == record.measures
    assert plain["predicted"]["rows"] == 7


def test_a_failure_that_belongs_to_another_key_is_none(tmp_path):
    store = TrialStore(tmp_path)
    store.write_failure("ab" + "0" * 62, "ValueError: no\nnever")
    assert store.read_failure("ab" + "0" * 62) == "ValueError: no\nnever"
    (tmp_path / "cd").mkdir()
    (tmp_path / "ab" / f"{'ab' + '0' * 62}.failed").rename(tmp_path / "cd" / f"{OTHER}.failed")
    assert store.read_failure(OTHER) is None


def test_a_nan_is_never_stored(tmp_path, record, y_pred):
    record.measures["age"]["mae"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        TrialStore(tmp_path).write(record, y_pred)
    assert not list(tmp_path.rglob("*.*"))


def test_the_digest_sees_values_not_their_order():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
