import dataclasses
import shutil

import pytest
from dask_process import threads
from stored_files import predictions_file, record_file
from sweep_sample import sweep_config

from fkd.measures import REPORTED
from fkd.methods import methods
from fkd.problems.encoder import Encoder
from flows.fitting import SweepState, fit_all
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage.settings import Settings

THREADS = threads(1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home in which a sweep of 12 trials on 4 splits has finished."""
    settings = Settings(tmp_path_factory.mktemp("finished") / "home")
    assert fit_all([open_study(sweep_config(THREADS), settings)]) == 0
    return settings.home


@pytest.fixture
def home(finished, settings):
    """A copy of that home, for the test to spoil."""
    return shutil.copytree(finished, settings.home)


def _desk(settings, config):
    study = open_study(config, settings)
    return SweepState([study])


def test_a_first_run_needs_no_reason(settings):
    state = SweepState([open_study(sweep_config(THREADS), settings)])
    assert state.describe() == "12 trials: 0 fits stored, 48 in 8 tasks to compute"


@pytest.mark.parametrize(
    ("larger", "fits", "parameter"),
    [
        ({"lengths": 4}, 4 * 4, "iterations"),
        ({"alphas": 3}, 6 * 4, "alpha"),
        ({"gammas": 3}, 6 * 4, "gamma"),
    ],
)
def test_an_enlarged_grid_computes_only_what_is_new(home, settings, larger, fits, parameter):
    state = _desk(settings, sweep_config(THREADS, **larger))
    assert sum(len(job.trials) for job in state.jobs) == fits
    assert f"48 fits stored, {fits} in" in state.describe()
    assert f"({fits} with a new value of {parameter})" in state.describe()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("seed=1", "the seed changed"),
        (
            threads(1, blas_threads=2),
            "the BLAS threads changed",
        ),
        ("data.drop=[]", "the data changed"),
        ("select.inner_folds=3", "the inner folds changed"),
        ("folds.k=4", "the folds changed"),
    ],
)
def test_what_changed_is_named(home, settings, change, why):
    assert why in _desk(settings, sweep_config(THREADS, change)).describe()


def test_a_raised_version_is_named(home, settings, monkeypatch):
    declared = methods()["krr_fkd"]
    raised = dataclasses.replace(declared, version=declared.version + 1)
    monkeypatch.setitem(methods(), "krr_fkd", raised)
    told = f"48 krr_fkd is version {raised.version}, was {declared.version}"
    assert told in _desk(settings, sweep_config(THREADS)).describe()


def test_a_raised_version_of_a_measure_is_named(home, settings, monkeypatch):
    config = sweep_config(THREADS)
    study = open_study(config, settings)
    fold = study.inputs.splits.outer(study.loaded.table)["0"]
    predictions_file(study.store, record_key(study.trials[0], fold, study.inputs)).unlink()
    raised = dataclasses.replace(REPORTED["hgr"], version=2)
    monkeypatch.setitem(REPORTED, "hgr", raised)
    told = _desk(settings, config).describe()
    assert "47 measured again, because the measures changed" in told
    assert "1 fitted again, as predictions were not kept, because the measures changed" in told


def test_a_raised_version_of_the_encoder_is_named(home, settings, monkeypatch):
    monkeypatch.setattr(Encoder, "version", 2)
    assert "48 the encoder changed" in _desk(settings, sweep_config(THREADS)).describe()


def test_lost_and_failed_fits_are_told_apart(home, settings):
    config = sweep_config(THREADS)
    study = open_study(config, settings)
    fold = study.inputs.splits.outer(study.loaded.table)["0"]
    lost, failed, *_ = [record_key(trial, fold, study.inputs) for trial in study.trials]
    record_file(study.store, lost).write_bytes(b"damaged")
    record_file(study.store, failed).unlink()
    study.store.write_failure(failed, "ValueError: no")
    told = _desk(settings, config).describe()
    assert "46 fits stored, 2 in 1 tasks" in told
    assert "1 not finished before" in told
    assert "1 failed before" in told


def test_where_it_is_computed_is_no_reason(home, settings):
    elsewhere = sweep_config("cluster={workers: 2, retries: 9, time_limit: 5}")
    assert "nothing to compute" in _desk(settings, elsewhere).describe()


def test_nothing_is_told_of_another_runs_plan(home, settings):
    state = _desk(settings, sweep_config(THREADS, name="other", lengths=4))
    assert state.describe() == "16 trials: 48 fits stored, 16 in 8 tasks to compute"
