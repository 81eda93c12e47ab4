"""Versions of measures, encoder and records: in every key, compared on every worker."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from stored_files import folder_store

from configs.errors import UserError
from configs.load import load_config
from fkd import measures
from fkd.methods import methods
from fkd.problems import encoder
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.fit.job import RowScores, run_job
from tasks.kernels.shared_map import SharedMap, store_map
from tasks.kernels.shared_training import sums_of
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage import records as store
from tasks.storage.files import pack_arrays, sha256
from tasks.storage.settings import Settings

# What each version gives on the sample. Where a number changes, raise `VERSION` in
# fkd/measures/__init__.py or fkd/problems/encoder.py, then add the new numbers here.
MEASURED = {
    1: {
        "mae": 0.06771364913138513,
        "mse": 0.0065473340615780275,
        "hgr": 0.7950447060876923,
        "gdp": 0.05439464619950441,
        "pf": 0.3914110003733311,
    }
}
ENCODED = {
    1: {"minmax": -5.581412794876947, "none": 10.999951497940298, "zscore": -18.321365053510544}
}

VERSIONED = [(measures, "VERSION"), (encoder, "VERSION"), (store, "SCHEMA")]


@pytest.fixture(scope="module")
def sample():
    """Rows by plain arithmetic: numbers, labels with gaps, a column whose missing ones are 2."""
    index = np.arange(1, 301)
    U = (index[:, None] * np.sqrt([2, 3, 5, 7])) % 1.0
    numeric = np.column_stack([10 * U[:, 0], U[:, 1] ** 2, np.where(U[:, 2] < 0.1, 2.0, U[:, 2])])
    return Table(
        numeric_names=("a", "b", "c"),
        numeric=numeric,
        categorical_names=("kind",),
        codes=(index[:, None] % 5 - 1).astype(np.int32),
        levels=(("p", "q", "r", "s"),),
        target_name="y",
        target=U[:, 0] + 0.5 * U[:, 3],
        sensitive_names=("s",),
        sensitive=40 + 30 * (0.7 * U[:, 0] + 0.3 * U[:, 1])[:, None],
        target_range=(0.0, 1.5),
        sensitive_range=np.array([[40.0, 70.0]]),
        fills={"c": 2.0},
    )


def test_measured_numbers_are_those_of_the_declared_version(sample):
    y_pred = 0.8 * sample.y + 0.2 * sample.numeric[:, 1]
    found = RowScores(sample, ("s",)).of(y_pred)["s"]
    assert found == pytest.approx(MEASURED[measures.VERSION], rel=1e-9)


@pytest.mark.parametrize("scale", ["minmax", "none", "zscore"])
def test_encoded_rows_are_those_of_the_declared_version(sample, scale):
    X = Encoder.fit(sample.take(np.arange(200)), scale=scale).transform(sample)
    weights = np.cos(np.arange(X.size)).reshape(X.shape)
    assert_allclose((X * weights).sum(), ENCODED[encoder.VERSION][scale], rtol=1e-9)


def study_of(settings, *overrides):
    words = ("methods=[dummy, {name: krr_fkd, grid: {iterations: [0, 2]}}]", "folds.k=2")
    return open_study(load_config("default", [*words, "data.sample=120", *overrides]), settings)


SHARED = (
    "methods=[{name: krr_fkd, approximation: {kind: nystroem, landmarks: 20, shared: true}, "
    "grid: {iterations: [2]}}]",
    "folds.reserve=0.3",
)


def keys(study):
    folds = study.inputs.splits.outer(study.loaded.table).values()
    return {record_key(trial, fold, study.inputs) for trial in study.trials for fold in folds}


@pytest.mark.parametrize(("module", "name"), VERSIONED)
def test_a_raised_version_makes_every_stored_trial_stale(settings, monkeypatch, module, name):
    study = study_of(settings, "select=null")
    for job in study.missing():
        run_job(job)
    assert study.missing() == []
    monkeypatch.setattr(module, name, 9)
    again = study_of(settings, "select=null")
    assert not keys(study) & keys(again)
    assert not {t.key for t in study.trials} & {t.key for t in again.trials}
    assert sum(len(job.trials) for job in again.missing()) == study.size()
    assert again.results() == []


@pytest.mark.parametrize(("module", "name"), VERSIONED)
def test_a_worker_of_another_version_computes_nothing(settings, monkeypatch, module, name):
    study = study_of(settings, "select=null")
    jobs = study.missing()
    monkeypatch.setattr(module, name, 7)
    with pytest.raises(UserError, match=r"7 instead of \d; install the same fkd"):
        run_job(jobs[0])
    monkeypatch.undo()
    assert len(study.missing()) == len(jobs)


def test_a_worker_with_another_version_of_a_method_computes_nothing(settings, monkeypatch):
    study = study_of(settings, "select=null")
    jobs = study.missing()
    with monkeypatch.context() as patched:
        patched.setitem(methods(), "krr_fkd", replace(methods()["krr_fkd"], version=9))
        for job in jobs:
            if job.trials[0].method == "dummy":
                run_job(job)
                continue
            with pytest.raises(UserError, match="krr_fkd 9 instead of"):
                run_job(job)
    assert {job.trials[0].method for job in study.missing()} == {"krr_fkd"}


def test_a_map_is_not_made_by_another_encoder(settings, monkeypatch):
    study = study_of(settings, *SHARED)
    shared = sums_of(study.trials[0], study.inputs).shared
    monkeypatch.setattr(encoder, "VERSION", 2)
    with pytest.raises(UserError, match="encoder 2 instead of 1"):
        store_map(shared)
    assert replace(shared, inputs=study_of(settings, *SHARED).inputs).key != shared.key


def test_inner_folds_are_in_the_key_where_they_decide_the_order_of_sums(settings):
    policy = "select={{inner_folds: {}, subject_to: {{gdp: 1}}}}"
    few, many = (study_of(settings, *SHARED, policy.format(k)) for k in (2, 3))
    assert not keys(few) & keys(many)
    assert few.trials[0].key != many.trials[0].key
    # Elsewhere they decide nothing: a fit with a map of its own is the same fit.
    few, many = (study_of(settings, policy.format(k)) for k in (2, 3))
    assert keys(few) == keys(many)


def test_a_record_of_a_worker_that_compared_nothing_is_not_taken(settings):
    study = study_of(settings, "select=null")
    for job in study.missing():
        run_job(job)
    key = next(iter(keys(study)))
    record = study.store.read(key)
    study.store.write(replace(record, version=record.version + 1))
    assert study.store.read(key) is None
    assert key not in study.store
    assert sum(len(job.trials) for job in study.missing()) == 1


def test_tasks_carry_no_address(tmp_path):
    secret = "hunter2"
    addresses = {
        "mirror": f"https://me:{secret}@files/",
        "prefect_api_url": f"http://me:{secret}@prefect/api",
        "mlflow_tracking_uri": f"postgresql://me:{secret}@host/db",
    }
    study = study_of(Settings(tmp_path, **addresses), *SHARED)
    shared = sums_of(study.trials[0], study.inputs).shared
    assert isinstance(shared, SharedMap)
    for payload in (*study.missing(), shared):
        assert secret.encode() not in pickle.dumps(payload)


def test_arrays_that_lie_under_another_name_count_as_absent(tmp_path):
    store = folder_store(tmp_path)
    store.write_arrays("one.npz", {"x": np.arange(3)})
    assert set(store.read_arrays("one.npz")) == {"x"}
    (tmp_path / "one.npz").rename(tmp_path / "two.npz")
    assert store.read_arrays("two.npz") is None


def _old(path, arrays):
    """Write arrays as older versions did: without a name in their seal."""
    data = pack_arrays(arrays, compress=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sha256(data).encode() + b"\n" + data)


def test_arrays_of_version_0_1_which_hold_no_name_are_still_read(tmp_path):
    _old(tmp_path / "old.npz", {"x": np.arange(3)})
    for read in (folder_store(tmp_path).read_arrays, folder_store(tmp_path).view_arrays):
        assert_array_equal(read("old.npz")["x"], np.arange(3))


@pytest.mark.parametrize("way", ["read_arrays", "view_arrays"])
def test_older_arrays_say_their_name_themselves(tmp_path, way):
    _old(tmp_path / "ab" / "one.npz", {"x": np.arange(3), "written as": np.array("one.npz")})
    _old(tmp_path / "ab" / "two.npz", {"x": np.arange(3), "written as": np.array("one.npz")})
    store = folder_store(tmp_path)
    assert set(getattr(store, way)("ab/one.npz")) == {"x"}
    assert getattr(store, way)("ab/two.npz") is None
    assert not (tmp_path / "ab" / "two.npz").exists()
