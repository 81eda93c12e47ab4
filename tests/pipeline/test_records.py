"""Records, predictions and failures of fits in a store."""

import json
import os
import pickle
import threading
from dataclasses import asdict, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from stored_files import folder_store, record_file
from sweep_sample import sweep_config

from fkd.core.arrays import BLOCK_ROWS
from fkd.methods import method
from tasks.fit.job import RowScores, run_job
from tasks.select.study import open_study
from tasks.storage.records import (
    PredictedRows,
    RecordWriter,
    TrialRecord,
    TrialStore,
    _sketch_places,
    digest,
    failure_name,
    predictions_name,
    record_name,
)
from tasks.storage.store import open_store

KEY, OTHER = "ab" + "0" * 62 + "-1", "cd" + "1" * 62 + "-1"


@pytest.fixture
def y_pred(rng):
    return rng.normal(size=7)


@pytest.fixture
def record(y_pred):
    return TrialRecord(
        key=KEY,
        method="krr_fkd",
        version=method("krr_fkd").version,
        parameters={"iterations": 3, "approximation": {"kind": "exact"}},
        strength=3.0,
        split="0",
        measures={"age": {"mae": 0.1, "hgr": 0.2, "gdp": 0.3, "gdp_plugin": 0.3, "pf": 0.4}},
        seconds=1.5,
        predicted=PredictedRows.from_predictions(y_pred),
    )


@pytest.fixture
def reads(shared, monkeypatch):
    """Return the list of names that are read, in order."""
    found, place = [], shared.backend
    get, many = place.get, place.get_many
    monkeypatch.setattr(place, "get", lambda name: found.append(name) or get(name))
    monkeypatch.setattr(
        place, "get_many", lambda names: found.extend(names := list(names)) or many(names)
    )
    return found


def flip(shared, name):
    """Change one bit in the middle of a blob."""
    content = bytearray(shared.backend.get(name))
    content[len(content) // 2] ^= 1
    shared.backend.put(name, bytes(content))


def test_a_record_and_its_predictions_are_read_unchanged(shared, record, y_pred):
    TrialStore(shared).write(record, y_pred)
    store = TrialStore(shared)
    assert store.read(record.key) == record
    assert store.predictions(record.key).tobytes() == y_pred.tobytes()


def test_the_size_of_a_record_does_not_depend_on_the_rows(shared, record, rng):
    y_pred = rng.normal(size=200_000)
    store = TrialStore(shared)
    store.write(replace(record, predicted=PredictedRows.from_predictions(y_pred)), y_pred)
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
    """Make a store refuse blobs of a kind."""
    put = shared.backend.put

    def full(name, data):
        if name.endswith(suffix):
            raise OSError(28, "No space left on device")
        put(name, data)

    monkeypatch.setattr(shared.backend, "put", full)


def test_a_record_is_written_after_its_predictions(shared, record, y_pred, monkeypatch):
    with monkeypatch.context() as patch:
        _full_for(shared, ".record", patch)
        with pytest.raises(OSError, match="No space"):
            TrialStore(shared).write(record, y_pred)
    store = TrialStore(shared)
    assert record.key not in store
    assert store.has_predictions(record.key)  # they promise nothing: the record is absent


def test_a_failed_write_of_predictions_leaves_no_record(shared, record, y_pred, monkeypatch):
    _full_for(shared, ".arrays", monkeypatch)
    with pytest.raises(OSError, match="No space"):
        TrialStore(shared).write(record, y_pred)
    assert record.key not in TrialStore(shared)


def test_a_record_is_complete_without_predictions(shared, record):
    store = TrialStore(shared)
    store.write(record)
    assert store.read(record.key) == record
    assert not store.has_predictions(record.key)
    assert store.predictions(record.key) is None


def test_a_record_is_read_once_and_absence_is_not_cached(shared, record, reads):
    mine, theirs = TrialStore(shared), TrialStore(shared)
    assert mine.read(record.key) is None
    theirs.write(record)
    reads.clear()
    assert [mine.read(record.key) for _ in range(5)] == [record] * 5
    assert len(reads) == 1


def test_a_changed_file_is_read_again(tmp_path, record):
    mine, theirs = TrialStore(folder_store(tmp_path)), TrialStore(folder_store(tmp_path))
    theirs.write(record)
    assert mine.read(record.key) == record
    other = replace(record, seconds=2.5)  # of the same length
    theirs.write(other)
    assert mine.read(record.key) == other
    record_file(theirs, record.key).unlink()
    assert mine.read(record.key) is None


def test_a_file_of_another_length_is_read_again(tmp_path, record):
    store = TrialStore(folder_store(tmp_path))
    store.write(record)
    assert record.key in store
    path, before = record_file(store, record.key), record_file(store, record.key).stat()
    path.write_bytes(path.read_bytes()[:-1])  # the same inode, cut short
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert record.key not in store


def test_a_remembered_record_is_not_read(shared, record, reads):
    store = TrialStore(shared)
    store.remember([record])
    assert store.read_all([record.key, OTHER]) == {record.key: record}
    assert record_name(record.key) not in reads
    assert store.written_at(record.key) > 0


def test_many_records_are_read_at_once(shared, record, reads):
    keys = [f"{i:02x}" + "0" * 62 for i in range(40)]
    for key in keys[::2]:
        TrialStore(shared).write(replace(record, key=key))
    store = TrialStore(shared)
    assert list(store.read_all(keys)) == keys[::2]
    store.read_all(keys)
    assert all(reads.count(record_name(key)) == 1 for key in keys[::2])
    assert store.written_at(keys[0]) > 0
    assert store.written_at(OTHER) == 0


def test_a_record_has_its_environment(shared, record):
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


def test_a_file_that_is_damaged_after_reading_counts_as_absent(tmp_path, record):
    store = TrialStore(folder_store(tmp_path))
    store.write(record)
    assert record.key in store
    flip(store.store, record_name(record.key))
    assert record.key not in store


def test_damaged_predictions_count_as_absent_and_are_removed(shared, record, y_pred):
    store = TrialStore(shared)
    store.write(record, y_pred)
    flip(shared, predictions_name(record.key))
    assert store.predictions(record.key) is None
    assert not store.has_predictions(record.key)
    assert store.read(record.key) == record  # its numbers are whole


def put(shared, key, plain):
    """Write the fields of a record."""
    shared.write(record_name(key), json.dumps(plain).encode())


@pytest.mark.parametrize(
    "more",
    [
        {"colour": "blue"},
        {"version": 99},
        {"measure_versions": {}},
        {"measure_versions": {"hgr": 99}},
    ],
    ids=str,
)
def test_a_record_of_another_version_counts_as_absent(shared, record, more):
    store = TrialStore(shared)
    put(shared, record.key, {**asdict(record), **more})
    assert store.read(record.key) is None
    assert record.key not in store
    store.write(record)
    assert record.key in store


@pytest.mark.parametrize("field", ["measures", "predicted", "environment", "measure_versions"])
def test_a_record_without_a_field_counts_as_absent(shared, record, field):
    store = TrialStore(shared)
    put(shared, record.key, {k: v for k, v in asdict(record).items() if k != field})
    assert store.read(record.key) is None


def test_records_of_one_fit_share_its_predictions(shared, record, y_pred):
    """Another measurement of the same predictions is another record, and no other fit."""
    store, other = TrialStore(shared), replace(record, key=KEY.replace("-1", "-2"), seconds=9.0)
    store.write(record, y_pred)
    store.write(other)
    assert store.read_all([record.key, other.key]) == {record.key: record, other.key: other}
    records, fits = store.read_with_fits([other.key])
    assert records == {other.key: other}
    assert fits[other.key].seconds == record.seconds
    assert fits[other.key].environment == record.environment
    assert_array_equal(fits[other.key].y_pred, y_pred)
    assert store.has_predictions(other.key)


def swap(shared, here, there):
    """Swap two blobs."""
    content = shared.backend.get(here)
    shared.backend.put(here, shared.backend.get(there))
    shared.backend.put(there, content)


def test_two_swapped_records_are_both_absent(shared, record):
    store, other = TrialStore(shared), replace(record, key=OTHER, strength=4.0)
    store.write(record)
    store.write(other)
    swap(shared, record_name(record.key), record_name(other.key))
    assert store.read(record.key) is None
    assert store.read(other.key) is None


def test_swapped_predictions_are_both_absent(shared, record, y_pred):
    store, other = TrialStore(shared), replace(record, key=OTHER)
    store.write(record, y_pred)
    store.write(other, y_pred + 1)
    swap(shared, predictions_name(record.key), predictions_name(other.key))
    assert store.predictions(record.key) is None
    assert store.predictions(other.key) is None
    assert store.read(record.key) is not None


def test_a_record_is_json_after_its_checksum(shared, record):
    TrialStore(shared).write(record)
    plain = json.loads(shared.read(record_name(record.key)))
    assert plain["measures"] == record.measures
    assert plain["predicted"]["rows"] == 7


def test_failures_are_read_and_forgotten(shared):
    store = TrialStore(shared)
    store.write_failure(KEY, "ValueError: no\nnever")
    assert store.read_failures([KEY, OTHER]) == {KEY: "ValueError: no\nnever"}
    shared.backend.put(failure_name(OTHER), shared.backend.get(failure_name(KEY)))
    assert store.read_failures([OTHER]) == {}  # written under another name
    assert store.forget_failures([KEY, OTHER]) == {KEY}
    assert store.read_failures([KEY]) == {}


def test_a_nan_is_never_stored(shared, record, y_pred):
    record.measures["age"]["mae"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        TrialStore(shared).write(record, y_pred)
    assert not list(shared.entries())


def test_the_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


PATIENCE = 15.0


class SlowStore:
    """A store whose writes wait for an event."""

    def __init__(self):
        self.let, self.begun, self.written = threading.Event(), [], []

    def write(self, record, y_pred):
        self.begun.append(record)
        assert self.let.wait(PATIENCE)
        if record == "too large":
            raise OSError("no room")
        self.written.append((record, y_pred))


@pytest.fixture
def store():
    return SlowStore()


def test_a_record_is_written_in_the_background(store):
    with RecordWriter(store) as writer:
        writer.write("first", [1.0])
        assert store.written == []  # and yet we are here
        store.let.set()
    assert store.written == [("first", [1.0])]


def test_at_most_one_record_is_being_written(store):
    with RecordWriter(store) as writer:
        writer.write("first", None)
        second = threading.Thread(target=writer.write, args=("second", None), daemon=True)
        second.start()
        second.join(0.3)
        assert second.is_alive()  # it waits for the first
        assert store.begun == ["first"]
        store.let.set()
        second.join(PATIENCE)
        writer.write("third", None)
    assert [record for record, _ in store.written] == ["first", "second", "third"]


def test_an_error_of_the_store_is_raised_by_the_next_write_and_at_the_end(store):
    store.let.set()
    with RecordWriter(store) as writer:
        writer.write("too large", None)
        with pytest.raises(OSError, match="no room"):
            writer.write("next", None)
    assert store.begun == ["too large"]
    with pytest.raises(OSError, match="no room"), RecordWriter(store) as writer:
        writer.write("too large", None)


def _write_then_fail(store):
    with RecordWriter(store) as writer:
        writer.write("first", None)
        store.let.set()
        raise ValueError("no such fit")


def test_a_failed_fit_loses_no_record(store):
    with pytest.raises(ValueError, match="no such fit"):
        _write_then_fail(store)
    assert [record for record, _ in store.written] == ["first"]


def _write_then(store, error):
    with RecordWriter(store) as writer:
        store.let.set()
        writer.write("too large", None)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2)])
def test_interrupts_take_precedence_over_errors_of_the_store(store, error):
    with pytest.raises(type(error)):
        _write_then(store, error)


def test_an_error_of_the_store_replaces_an_error_of_the_fit(store):
    with pytest.raises(OSError, match="no room") as caught:
        _write_then(store, ValueError("no such fit"))
    assert str(caught.value.__context__) == "no such fit"


@pytest.fixture
def job(settings):
    """Six fits of one split, none of them stored."""
    return open_study(sweep_config(lengths=3), settings).missing()[0]


def test_a_job_measures_its_next_fit_during_a_write(job, monkeypatch):
    state, counts, waited = threading.Condition(), {"measured": 0, "written": 0}, []
    real_write, real_of = TrialStore.write, RowScores.of

    def write(self, record, y_pred=None):
        with state:
            counts["written"] += 1
            next_one = min(counts["written"] + 1, len(job.trials))
            # A fit that waited for this record would wait for ever.
            waited.append(state.wait_for(lambda: counts["measured"] >= next_one, timeout=5.0))
        real_write(self, record, y_pred)

    def measure(*arguments):
        with state:
            counts["measured"] += 1
            state.notify_all()
        return real_of(*arguments)

    monkeypatch.setattr(TrialStore, "write", write)
    monkeypatch.setattr(RowScores, "of", measure)
    records = run_job(job)
    assert waited == [True] * len(job.trials)
    assert [record.key for record in records] == list(job.record_keys)


def test_a_job_returns_after_its_last_record(job, settings):
    store = open_study(sweep_config(lengths=3), settings).store
    for record in run_job(job):
        assert store.read(record.key) == record
        assert store.has_predictions(record.key)


def test_a_job_reads_records_and_predictions_at_once(job, monkeypatch):
    reads, backend = [], open_store(job.inputs.settings).backend
    many = backend.get_many
    monkeypatch.setattr(
        backend, "get_many", lambda names: reads.append(sorted(names := list(names))) or many(names)
    )
    run_job(job)
    names = [name(key) for key in job.record_keys for name in (record_name, predictions_name)]
    assert reads == [sorted(names)]


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


@pytest.mark.parametrize("rows", [1, 7, 400, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5])
def test_equal_predictions_have_no_distance(rng, rows):
    f = rng.normal(size=rows)
    assert PredictedRows.from_predictions(f).distance(PredictedRows.from_predictions(f.copy())) == 0


@pytest.mark.parametrize("rows", [7, 400, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5])
def test_the_distance_by_one_row_is_exact(rng, rows):
    f = rng.normal(size=rows)
    summary = PredictedRows.from_predictions(f)
    for row in (0, rows // 2, rows - 1):
        g = f.copy()
        g[row] += 1e-3
        assert summary.distance(PredictedRows.from_predictions(g)) == pytest.approx(
            rms(f - g), rel=1e-9
        )


@pytest.mark.parametrize("shift", ["constant", "sloping", "random"])
def test_a_difference_of_many_rows_is_estimated_without_bias(rng, shift):
    """The mean of the squared ratio is one, its spread that of 32 sums: a quarter."""
    ratios = []
    for rows in range(BLOCK_ROWS - 100, BLOCK_ROWS + 100):
        f = rng.uniform(size=rows)
        gap = {
            "constant": np.full(rows, 1e-3),
            "sloping": np.linspace(-1e-3, 2e-3, rows),
            "random": 1e-3 * rng.normal(size=rows),
        }[shift]
        ratios.append(
            PredictedRows.from_predictions(f).distance(PredictedRows.from_predictions(f + gap))
            / rms(gap)
        )
    # Positions scatter alike whatever the rows, so that the first two gaps are one draw each.
    assert np.square(ratios).mean() == pytest.approx(1.0, abs=0.05 if shift == "random" else 0.75)
    assert min(ratios) > 0.5
    assert max(ratios) < 1.6


def test_rows_are_spread_evenly_by_integer_arithmetic():
    place, sign = _sketch_places(100_000)
    assert np.bincount(place).min() > 2800
    assert len(np.bincount(place)) == 32
    assert abs(sign.mean()) < 0.02
    assert set(sign) == {-1.0, 1.0}
    # Stored sketches are compared with those of every later version.
    assert place[:6].tolist() == [_splitmix(i) % 32 for i in range(1, 7)]
    assert sign[:6].tolist() == [1.0 if _splitmix(i) >> 63 else -1.0 for i in range(1, 7)]


def _splitmix(i):
    """The mixed bits of a position, in Python's own whole numbers."""
    mask = 2**64 - 1
    z = i * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def test_summaries_have_the_moments_of_the_rows_and_survive_json(rng):
    f = rng.normal(loc=0.4, scale=0.1, size=BLOCK_ROWS + 3)
    summary = PredictedRows.from_predictions(f)
    assert (summary.rows, summary.mean, summary.std) == (len(f), f.mean(), f.std())
    assert summary.size == pytest.approx(rms(f), rel=1e-12)
    assert PredictedRows.from_plain(json.loads(json.dumps(asdict(summary)))) == summary


def test_predictions_of_other_rows_are_not_compared(rng):
    one, other = (PredictedRows.from_predictions(rng.normal(size=n)) for n in (5, 6))
    with pytest.raises(ValueError, match="the same rows, got 5 and 6"):
        one.distance(other)
