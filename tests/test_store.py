"""Records and their predictions: two sealed blobs of one key, each read where it is wanted."""

import json
import os
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
from stored_files import folder_store, record_file

from fkd.methods import method
from tasks.storage.files import pack_arrays
from tasks.storage.records import (
    SCHEMA,
    PredictedRows,
    TrialRecord,
    TrialStore,
    digest,
    failure_name,
    predictions_name,
    record_name,
)

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
def reads(shared, monkeypatch):
    """The names of the blobs that are asked for, in order."""
    found, place = [], shared.place
    get, many = place.get, place.get_many
    monkeypatch.setattr(place, "get", lambda name: found.append(name) or get(name))
    monkeypatch.setattr(
        place, "get_many", lambda names: found.extend(names := list(names)) or many(names)
    )
    return found


def flip(shared, name):
    """Change one bit in the middle of a blob."""
    content = bytearray(shared.place.get(name))
    content[len(content) // 2] ^= 1
    shared.place.put(name, bytes(content))


def test_a_record_and_its_predictions_come_back_bit_for_bit(shared, record, y_pred):
    TrialStore(shared).write(record, y_pred)
    store = TrialStore(shared)
    assert store.read(record.key) == record
    assert store.predictions(record.key).tobytes() == y_pred.tobytes()


def test_a_record_that_travels_is_small_whatever_the_rows(shared, record, rng):
    y_pred = rng.normal(size=200_000)
    store = TrialStore(shared)
    store.write(replace(record, predicted=PredictedRows.of(y_pred)), y_pred)
    back = TrialStore(shared).read(record.key)
    assert pickle.loads(pickle.dumps(back)) == back
    assert len(pickle.dumps(back)) < 4000
    sizes = {entry.name: entry.size for entry in shared.entries()}
    assert sizes[record_name(record.key)] < 4000
    assert sizes[predictions_name(record.key)] > 8 * 200_000


def test_reading_a_record_opens_no_predictions(shared, record, y_pred, reads):
    TrialStore(shared).write(record, y_pred)
    assert TrialStore(shared).read(record.key) is not None
    assert reads == [record_name(record.key)]


def _full_for(shared, suffix, monkeypatch):
    """Let a store take no blob of a kind."""
    put = shared.place.put

    def full(name, data):
        if name.endswith(suffix):
            raise OSError(28, "No space left on device")
        put(name, data)

    monkeypatch.setattr(shared.place, "put", full)


def test_a_record_is_written_after_its_predictions(shared, record, y_pred, monkeypatch):
    with monkeypatch.context() as patch:
        _full_for(shared, ".record", patch)
        with pytest.raises(OSError, match="No space"):
            TrialStore(shared).write(record, y_pred)
    store = TrialStore(shared)
    assert record.key not in store
    assert store.has_predictions(record.key)  # they promise nothing: the record is absent


def test_a_failure_to_keep_predictions_leaves_no_record(shared, record, y_pred, monkeypatch):
    _full_for(shared, ".npz", monkeypatch)
    with pytest.raises(OSError, match="No space"):
        TrialStore(shared).write(record, y_pred)
    assert record.key not in TrialStore(shared)


def test_a_record_is_whole_without_predictions(shared, record):
    store = TrialStore(shared)
    store.write(record)
    assert store.read(record.key) == record
    assert not store.has_predictions(record.key)
    assert store.predictions(record.key) is None


def test_a_record_is_read_once_and_never_taken_for_absent_from_memory(shared, record, reads):
    mine, theirs = TrialStore(shared), TrialStore(shared)
    assert mine.read(record.key) is None
    theirs.write(record)
    reads.clear()
    assert [mine.read(record.key) for _ in range(5)] == [record] * 5
    assert len(reads) == 1


def test_a_file_that_was_written_again_is_read_again(tmp_path, record):
    mine, theirs = TrialStore(folder_store(tmp_path)), TrialStore(folder_store(tmp_path))
    theirs.write(record)
    assert mine.read(record.key) == record
    other = replace(record, seconds=2.5)  # of the same length
    theirs.write(other)
    assert mine.read(record.key) == other
    record_file(theirs, record.key).unlink()
    assert mine.read(record.key) is None


def test_a_file_that_changed_its_length_alone_is_read_again(tmp_path, record):
    store = TrialStore(folder_store(tmp_path))
    store.write(record)
    assert record.key in store
    path, before = record_file(store, record.key), record_file(store, record.key).stat()
    path.write_bytes(path.read_bytes()[:-1])  # the same inode, cut short
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert record.key not in store


def test_a_record_that_its_writer_sent_is_not_read(shared, record, reads):
    store = TrialStore(shared)
    store.hear([record])
    assert store.read_all([record.key, OTHER]) == {record.key: record}
    assert record_name(record.key) not in reads
    assert store.written(record.key) > 0


def test_many_records_are_asked_for_at_once(shared, record, reads):
    keys = [f"{i:02x}" + "0" * 62 for i in range(40)]
    for key in keys[::2]:
        TrialStore(shared).write(replace(record, key=key))
    store = TrialStore(shared)
    assert list(store.read_all(keys)) == keys[::2]
    store.read_all(keys)
    assert all(reads.count(record_name(key)) == 1 for key in keys[::2])
    assert store.written(keys[0]) > 0
    assert store.written(OTHER) == 0


def test_a_record_names_what_it_was_computed_with(shared, record):
    used = {"numpy": "2.4", "blas": [{"library": "openblas", "architecture": "Haswell"}]}
    store = TrialStore(shared)
    store.write(replace(record, environment=used))
    assert store.read(record.key).environment == used
    assert store.kernels == {"openblas Haswell"}


def test_an_absent_record_is_none(shared):
    assert TrialStore(shared).read("f" * 64) is None
    assert TrialStore(shared).predictions("f" * 64) is None


def test_a_damaged_record_counts_as_absent_and_is_removed(shared, record, y_pred):
    TrialStore(shared).write(record, y_pred)
    flip(shared, record_name(record.key))
    store = TrialStore(shared)
    assert store.read(record.key) is None
    assert record.key not in store
    assert not shared.has(record_name(record.key))
    assert store.predictions(record.key) is not None  # whole, and of that key


def test_a_file_that_is_damaged_after_it_was_read_counts_as_absent(tmp_path, record):
    store = TrialStore(folder_store(tmp_path))
    store.write(record)
    assert record.key in store
    flip(store.store, record_name(record.key))
    assert record.key not in store


def test_damaged_predictions_count_as_not_kept_and_are_removed(shared, record, y_pred):
    store = TrialStore(shared)
    store.write(record, y_pred)
    flip(shared, predictions_name(record.key))
    assert store.predictions(record.key) is None
    assert not store.has_predictions(record.key)
    assert store.read(record.key) == record  # its numbers are whole


def put(shared, key, plain):
    """Write a record under a key, with the fields that it is given."""
    shared.write(record_name(key), json.dumps(plain).encode())


@pytest.mark.parametrize("more", [{"schema": SCHEMA + 1}, {"schema": 1}, {"colour": "blue"}])
def test_a_record_that_another_version_wrote_counts_as_absent(shared, record, more):
    store = TrialStore(shared)
    put(shared, record.key, {**asdict(record), **more})
    assert store.read(record.key) is None
    assert record.key not in store
    assert shared.has(record_name(record.key))  # it is not ours to remove
    store.write(record)
    assert record.key in store


@pytest.mark.parametrize("field", ["measures", "predicted", "environment", "schema"])
def test_a_record_without_a_field_counts_as_absent(shared, record, field):
    store = TrialStore(shared)
    put(shared, record.key, {k: v for k, v in asdict(record).items() if k != field})
    assert store.read(record.key) is None


def swap(shared, here, there):
    """Let two blobs change places."""
    content = shared.place.get(here)
    shared.place.put(here, shared.place.get(there))
    shared.place.put(there, content)


def test_two_records_that_changed_places_are_both_absent(shared, record):
    store, other = TrialStore(shared), replace(record, key=OTHER, strength=4.0)
    store.write(record)
    store.write(other)
    swap(shared, record_name(record.key), record_name(other.key))
    assert store.read(record.key) is None
    assert store.read(other.key) is None


def test_predictions_that_changed_places_are_both_absent(shared, record, y_pred):
    store, other = TrialStore(shared), replace(record, key=OTHER)
    store.write(record, y_pred)
    store.write(other, y_pred + 1)
    swap(shared, predictions_name(record.key), predictions_name(other.key))
    assert store.predictions(record.key) is None
    assert store.predictions(other.key) is None
    assert store.read(record.key) is not None


def test_the_key_inside_each_blob_counts(shared, record, y_pred):
    store = TrialStore(shared)
    put(shared, OTHER, asdict(record))
    assert store.read(OTHER) is None
    assert not shared.has(record_name(OTHER))
    arrays = {"key": np.array(record.key), "y_pred": y_pred}
    shared.write(predictions_name(OTHER), pack_arrays(arrays))
    assert store.predictions(OTHER) is None
    shared.write(predictions_name(OTHER), pack_arrays({"y_pred": y_pred}))
    assert store.predictions(OTHER) is None


def test_a_record_is_plain_json_behind_its_seal(shared, record):
    TrialStore(shared).write(record)
    plain = json.loads(shared.read(record_name(record.key)))
    assert plain["measures"] == record.measures
    assert plain["predicted"]["rows"] == 7


def test_a_failure_that_belongs_to_another_key_is_none(shared):
    store, key = TrialStore(shared), "ab" + "0" * 62
    store.write_failure(key, "ValueError: no\nnever")
    assert store.read_failures([key, OTHER]) == {key: "ValueError: no\nnever"}
    shared.place.put(failure_name(OTHER), shared.place.get(failure_name(key)))
    assert store.read_failure(OTHER) is None
    shared.write(failure_name(OTHER), shared.read(failure_name(key)))
    assert store.read_failure(OTHER) is None
    assert store.forget_failures([key, "ef" + "0" * 62]) == {key}
    assert store.read_failure(key) is None


def test_a_nan_is_never_stored(shared, record, y_pred):
    record.measures["age"]["mae"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        TrialStore(shared).write(record, y_pred)
    assert not list(shared.entries())


def test_the_digest_sees_values_not_their_order():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
