"""Versions of methods, measures, encoder and records: what is computed again if one is raised."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from stored_files import predictions_file

from configs.errors import UserError
from configs.load import load_config
from fkd.measures import MEASURES, REPORTED, gdp
from fkd.methods import methods
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.fit import job as fit_job
from tasks.fit.job import RowScores, run_job
from tasks.kernels.shared_map import SharedMap, store_map
from tasks.kernels.shared_training import sums_of
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage import records as stored_records
from tasks.storage.settings import Settings

# Numbers of the sample by version. If a number changes, increase the version in the declaration
# of the measure (fkd/measures/registry.py) or in `Encoder`, then add the new number here.
MEASURED = {
    "hgr": {1: 0.7950447060876923},
    "gdp": {1: 0.05439464619950441},
    "pf": {1: 0.3914110003733311},
}
ERRORS = {"mae": 0.06771364913138513, "mse": 0.0065473340615780275}
ENCODED = {
    1: {"minmax": -5.581412794876947, "none": 10.999951497940298, "zscore": -18.321365053510544}
}


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
    expected = {name: MEASURED[name][measure.version] for name, measure in REPORTED.items()}
    assert found == pytest.approx({**ERRORS, **expected}, rel=1e-9)


@pytest.mark.parametrize("scale", ["minmax", "none", "zscore"])
def test_encoded_rows_are_those_of_the_declared_version(sample, scale):
    X = Encoder.fit(sample.take(np.arange(200)), scale=scale).transform(sample)
    weights = np.cos(np.arange(X.size)).reshape(X.shape)
    assert_allclose((X * weights).sum(), ENCODED[Encoder.version][scale], rtol=1e-9)


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


def computed(study):
    """The study with all its records computed."""
    for job in study.missing():
        run_job(job)
    return study


@pytest.fixture
def fits(monkeypatch):
    """The trials that are fitted from now on."""
    fitted, real = [], fit_job.fitted_models

    def noted(training, name, trials):
        fitted.extend(trials)
        return real(training, name, trials)

    monkeypatch.setattr(fit_job, "fitted_models", noted)
    return fitted


def raise_version(monkeypatch, name, version=9):
    """Let the code of this process have another version of a measure, the encoder or records."""
    if name == "encoder":
        monkeypatch.setattr(Encoder, "version", version)
    elif name == "record":
        monkeypatch.setattr(stored_records, "SCHEMA", version)
    else:
        monkeypatch.setitem(REPORTED, name, replace(REPORTED[name], version=version))


@pytest.mark.parametrize("name", ["encoder", "record"])
def test_a_raised_version_of_encoder_or_records_makes_every_record_stale(
    settings, monkeypatch, fits, name
):
    study = computed(study_of(settings, "select=null"))
    assert study.missing() == []
    raise_version(monkeypatch, name)
    again = study_of(settings, "select=null")
    assert not keys(study) & keys(again)
    assert not {t.key for t in study.trials} & {t.key for t in again.trials}
    assert again.results() == []
    assert sum(len(job.trials) for job in again.missing()) == study.size()
    fits.clear()
    computed(again)
    assert len(fits) == study.size()


def remeasured(settings, monkeypatch, *overrides):
    """A study, its results, and the study after a new version of a measure doubles its values."""
    study = computed(study_of(settings, "select=null", *overrides))
    before = study.results()
    new = replace(REPORTED["gdp"], version=2, function=lambda *a, **k: 2 * gdp(*a, **k))
    monkeypatch.setitem(REPORTED, "gdp", new)
    return study, before, study_of(settings, "select=null", *overrides)


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_raised_version_of_a_measure_needs_fits_only_without_predictions(
    settings, monkeypatch, fits, policy
):
    study, before, again = remeasured(settings, monkeypatch, f"predictions={policy}")
    assert again.results() == []
    assert not {t.key for t in study.trials} & {t.key for t in again.trials}
    fits.clear()
    computed(again)
    assert len(fits) == (0 if policy == "keep" else study.size())
    assert again.missing() == []
    for old, new in zip(before, again.results(), strict=True):
        for one, two in zip(old.records, new.records, strict=True):
            assert two.measure_versions == {**one.measure_versions, "gdp": 2}
            assert two.predicted == one.predicted
            if policy == "keep":
                assert (two.seconds, two.environment) == (one.seconds, one.environment)
            for column, values in one.measures.items():
                expected = {**values, "gdp": pytest.approx(2 * values["gdp"], rel=1e-12)}
                assert two.measures[column] == expected


def test_a_new_measure_is_taken_of_stored_predictions(settings, monkeypatch, fits):
    computed(study_of(settings, "select=null"))
    fits.clear()
    monkeypatch.setitem(REPORTED, "gdp_plugin", MEASURES["gdp_plugin"])
    again = computed(study_of(settings, "select=null"))
    assert fits == []
    assert all(result.is_defined("gdp_plugin", "racepctblack") for result in again.results())


def test_damaged_predictions_are_fitted_again(settings, monkeypatch, fits):
    study, _, again = remeasured(settings, monkeypatch)
    lost = predictions_file(study.store, next(iter(keys(study))))
    lost.write_bytes(lost.read_bytes()[:-1] + b"x")
    fits.clear()
    computed(again)
    assert len(fits) == 1
    assert again.missing() == []


@pytest.mark.parametrize("name", ["gdp", "encoder", "record"])
def test_a_worker_of_another_version_computes_nothing(settings, monkeypatch, name):
    study = study_of(settings, "select=null")
    jobs = study.missing()
    raise_version(monkeypatch, name, 7)
    with pytest.raises(UserError, match=rf"{name} 7 instead of \d\. Install the same fkd"):
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
    monkeypatch.setattr(Encoder, "version", 2)
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
    study = computed(study_of(settings, "select=null"))
    key, other, *_ = keys(study)
    record = study.store.read(key)
    study.store.write(replace(record, version=record.version + 1))
    assert study.store.read(key) is None
    record = study.store.read(other)
    study.store.write(replace(record, measure_versions={**record.measure_versions, "gdp": 9}))
    assert study.store.read(other) is None
    assert sum(len(job.trials) for job in study.missing()) == 2


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
