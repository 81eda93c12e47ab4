import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from fkd.catalog.methods import method
from tasks.adapters.files import pack_arrays, write_arrays, write_sealed
from tasks.adapters.store import SCHEMA, TrialRecord, TrialStore, digest


@pytest.fixture
def record(rng):
    return TrialRecord(
        key="ab" + "0" * 62,
        method="krr_fkd",
        version=method("krr_fkd").version,
        parameters={"iterations": 3, "approximation": {"kind": "exact"}},
        strength=3.0,
        split="0",
        measures={"age": {"mae": 0.1, "hgr": 0.2, "gdp": 0.3, "gdp_plugin": 0.3, "pf": 0.4}},
        seconds=1.5,
        y_pred=rng.normal(size=7),
    )


def test_a_record_comes_back_bit_for_bit(tmp_path, record):
    store = TrialStore(tmp_path)
    store.write(record)
    back = store.read(record.key)
    assert back.measures == record.measures
    assert back.parameters == record.parameters
    assert np.array_equal(back.y_pred, record.y_pred)


def test_a_record_names_what_it_was_computed_with(tmp_path, record):
    used = {"numpy": "2.4", "blas": [{"library": "openblas", "architecture": "Haswell"}]}
    store = TrialStore(tmp_path)
    store.write(replace(record, environment=used))
    assert store.read(record.key).environment == used
    assert store.kernels == {"openblas Haswell"}


def test_a_record_of_before_names_nothing(tmp_path, record):
    store = TrialStore(tmp_path)
    plain = asdict(record)
    y_pred = plain.pop("y_pred")
    del plain["environment"], plain["schema"]
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    write_sealed(store.path(record.key), pack_arrays({"record": text, "y_pred": y_pred}))
    back = store.read(record.key)
    assert back.measures == record.measures
    assert back.environment == {}


def test_an_absent_record_is_none(tmp_path):
    assert TrialStore(tmp_path).read("f" * 64) is None


def test_a_damaged_record_counts_as_absent_and_is_removed(tmp_path, record):
    store = TrialStore(tmp_path)
    store.write(record)
    path = store.path(record.key)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert store.read(record.key) is None
    assert record.key not in store


def put(store, key, record, **more):
    """Write a record under a key, with fields that it may not have."""
    plain = {**asdict(record), **more}
    y_pred = plain.pop("y_pred")
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    write_arrays(store.path(key), {"record": text, "y_pred": y_pred})


@pytest.mark.parametrize("more", [{"schema": SCHEMA + 1}, {"colour": "blue"}])
def test_a_record_that_another_version_wrote_counts_as_absent(tmp_path, record, more):
    store = TrialStore(tmp_path)
    put(store, record.key, record, **more)
    assert store.read(record.key) is None
    assert record.key not in store
    assert store.path(record.key).is_file()  # it is not ours to remove
    store.write(record)
    assert record.key in store


def test_a_record_without_a_field_counts_as_absent(tmp_path, record):
    store = TrialStore(tmp_path)
    plain = asdict(record)
    y_pred = plain.pop("y_pred")
    del plain["measures"]
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    write_arrays(store.path(record.key), {"record": text, "y_pred": y_pred})
    assert store.read(record.key) is None


def test_two_records_that_changed_places_are_both_absent(tmp_path, record):
    store, other = TrialStore(tmp_path), replace(record, key="cd" + "1" * 62, strength=4.0)
    store.write(record)
    store.write(other)
    here, there = store.path(record.key), store.path(other.key)
    aside = here.rename(tmp_path / "aside")
    there.rename(here)
    aside.rename(there)
    assert store.read(record.key) is None
    assert store.read(other.key) is None


def test_the_key_inside_a_record_counts(tmp_path, record):
    store = TrialStore(tmp_path)
    put(store, "cd" + "1" * 62, record)
    assert store.read("cd" + "1" * 62) is None


def test_a_failure_that_belongs_to_another_key_is_none(tmp_path):
    store = TrialStore(tmp_path)
    store.write_failure("ab" + "0" * 62, "ValueError: no\nnever")
    assert store.read_failure("ab" + "0" * 62) == "ValueError: no\nnever"
    (tmp_path / "cd").mkdir()
    (tmp_path / "ab" / f"{'ab' + '0' * 62}.failed").rename(
        tmp_path / "cd" / f"{'cd' + '1' * 62}.failed"
    )
    assert store.read_failure("cd" + "1" * 62) is None


def test_a_nan_is_never_stored(tmp_path, record):
    record.measures["age"]["mae"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        TrialStore(tmp_path).write(record)


def test_the_digest_sees_values_not_their_order():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
