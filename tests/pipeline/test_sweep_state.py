import pytest
from stored_files import predictions_file, record_file
from sweep_sample import sweep_config

from flows.fitting import SweepState
from tasks.cluster.retries import Failed
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage.records import failure_name, record_name
from tasks.track.run_index import read_status


@pytest.fixture
def two(settings):
    """Two studies that want some of the same trials."""
    configs = [sweep_config(name="one", lengths=2), sweep_config(name="other", lengths=3)]
    return [open_study(config, settings) for config in configs]


def _gamma(job):
    return job.trials[0].parameters["gamma"]


def test_what_two_runs_want_is_computed_once(two):
    state = SweepState(two)
    keys = [key for job in state.jobs for key in job.record_keys]
    assert len(keys) == len(set(keys)) == 12 * 4
    assert {job.split for job in state.jobs[:4]} == {"0"}  # first folds of both first


def test_a_run_asks_once_for_what_is_missing_and_only_of_that_whether_it_failed(two, monkeypatch):
    run_job(two[0].missing()[0])
    store, asked = two[0].store.store, []
    read_many = store.read_many
    monkeypatch.setattr(
        store, "read_many", lambda names: asked.extend(names := list(names)) or read_many(names)
    )
    # As where only reading tells.
    monkeypatch.setattr(store, "stamp", lambda name: None)
    first = SweepState(two[:1])
    missing = {key for job in first.jobs for key in job.record_keys}
    assert 0 < len(missing) < two[0].size()
    assert sorted(asked) == sorted(
        [record_name(key) for key in _keys(two[0])] + [failure_name(key) for key in missing]
    )
    assert first.computed == (True,)


def test_what_failed_is_tried_again_once_a_run(two, settings):
    state = SweepState(two[:1])
    failed = state.jobs[0]
    state.add_failures([Failed(failed, "ValueError: no such width")])
    state.refresh()
    assert not {*failed.record_keys} & {key for job in state.jobs for key in job.record_keys}
    again = SweepState([open_study(two[0].config, settings)])
    assert sum(len(job.trials) for job in again.jobs) == two[0].size()
    assert f"{len(failed.trials)} failed before" in again.describe()


def _keys(study):
    """The records of all fits of a study."""
    folds = study.inputs.splits.all(study.loaded.table).values()
    return [record_key(trial, fold, study.inputs) for trial in study.trials for fold in folds]


def test_a_finished_job_counts_for_every_run_that_waits_for_it(two, settings):
    state = SweepState(two)
    run_job(state.jobs[0])
    state.job_done(state.jobs[0])
    assert read_status(settings, "one").done == 4
    assert read_status(settings, "other").done == 4
    (rest,) = [
        j for j in state.jobs[1:] if j.split == "0" and j.trials[0].parameters["gamma"] == 0.02
    ]
    run_job(rest)
    state.job_done(rest)
    assert read_status(settings, "one").done == 4
    assert read_status(settings, "other").done == 6


def test_a_record_that_cannot_be_seen_is_a_failure_not_an_endless_round(two, settings):
    state = SweepState(two)
    state.job_done(state.jobs[0])  # the worker kept its records where we do not look
    status = read_status(settings, "one")
    assert (status.done, len(status.failures)) == (0, 4)
    assert "FKD_STORE" in status.failures[0]
    state.refresh()
    assert sum(len(job.trials) for job in state.jobs) == 12 * 4 - 4


def test_predictions_that_cannot_be_seen_are_a_failure_too(settings):
    study = open_study(sweep_config("predictions=keep", lengths=2), settings)
    state = SweepState([study])
    job = state.jobs[0]
    run_job(job)
    predictions_file(study.store, job.record_keys[0]).unlink()
    state.job_done(job)
    status = read_status(settings, "sweep")
    assert (status.done, len(status.failures)) == (len(job.trials) - 1, 1)
    state.refresh()
    assert job.record_keys[0] not in {key for job in state.jobs for key in job.record_keys}


def test_a_failed_job_keeps_what_it_had_finished(two, settings):
    state = SweepState(two)
    job = state.jobs[0]
    run_job(job)
    record_file(two[0].store, job.record_keys[-1]).unlink()
    state.add_failures([Failed(job, "TimeoutError: too long")])
    status = read_status(settings, "one")
    assert (status.done, status.failures) == (3, ("krr_fkd on fold 0: TimeoutError: too long",))
    assert state.close() == 2  # both runs miss that fit
    assert read_status(settings, "one").seen == "failed"
