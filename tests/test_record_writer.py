"""Records written beside the next fits: in order, one at a time, none lost on the way."""

import threading

import pytest
from sweep_sample import sweep_config

from tasks.fit.job import RowScores, run_job
from tasks.select.study import open_study
from tasks.storage.records import RecordWriter, TrialStore
from tasks.storage.store import open_store

PATIENCE = 15.0


class SlowStore:
    """A store that takes a record only once it is let."""

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


def test_a_record_is_written_while_the_next_is_made(store):
    with RecordWriter(store) as writer:
        writer.write("first", [1.0])
        assert store.written == []  # and yet we are here
        store.let.set()
    assert store.written == [("first", [1.0])]


def test_one_record_at_most_is_on_its_way(store):
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


def test_a_store_without_room_is_told_by_the_next_record_and_by_leaving(store):
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


def test_a_fit_that_fails_takes_no_record_with_it(store):
    with pytest.raises(ValueError, match="no such fit"):
        _write_then_fail(store)
    assert [record for record, _ in store.written] == ["first"]


def _write_then(store, error):
    with RecordWriter(store) as writer:
        store.let.set()
        writer.write("too large", None)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2)])
def test_who_ends_the_process_is_heard_whatever_the_store_says(store, error):
    with pytest.raises(type(error)):
        _write_then(store, error)


def test_where_a_fit_and_the_store_fail_the_store_is_told(store):
    with pytest.raises(OSError, match="no room") as caught:
        _write_then(store, ValueError("no such fit"))
    assert str(caught.value.__context__) == "no such fit"


@pytest.fixture
def job(settings):
    """Six fits of one split, none of them stored."""
    return open_study(sweep_config(lengths=3), settings).missing()[0]


def test_a_job_measures_its_next_fit_while_a_record_is_on_its_way(job, monkeypatch):
    state, counts, waited = threading.Condition(), {"measured": 0, "written": 0}, []
    real_write, real_of = TrialStore.write, RowScores.of

    def write(self, record, y_pred=None):
        with state:
            counts["written"] += 1
            next_one = min(counts["written"] + 1, len(job.trials))
            # Who made the next fit wait for this record would now wait for nobody.
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


def test_a_job_returns_when_all_its_records_are_there(job, settings):
    store = open_study(sweep_config(lengths=3), settings).store
    for record in run_job(job):
        assert store.read(record.key) == record
        assert store.has_predictions(record.key)


def test_a_job_asks_once_for_records_that_are_not_there(job, monkeypatch):
    asked, read = [], TrialStore._read
    monkeypatch.setattr(
        TrialStore, "_read", lambda self, stamps: asked.extend(stamps) or read(self, stamps)
    )
    # As where only reading tells: a folder would not be asked for what it does not list.
    monkeypatch.setattr(open_store(job.inputs.settings), "stamp", lambda name: None)
    run_job(job)
    assert sorted(asked) == sorted(job.record_keys)
