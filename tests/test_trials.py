import dataclasses

import numpy as np
import pytest
from stored_files import record_file

from configs.load import load_config
from fkd.methods import methods
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study


def _keys(study):
    table = study.loaded.table
    return {
        record_key(trial, fold, study.inputs)
        for trial in study.trials
        for fold in study.inputs.splits.outer(table).values()
    }


def test_trials_that_share_a_factorisation_are_one_job(settings):
    study = open_study(load_config(), settings)
    assert len(study.trials) == 24
    jobs = study.missing()
    splits = 5 + 4  # outer with inner folds
    assert len(jobs) == 2 * splits  # the dummy by itself, all fair methods on one kernel
    assert sorted({len(job.trials) for job in jobs}) == [1, 23]


def test_nothing_is_missing_once_computed(quick_study):
    assert quick_study.missing() == []
    assert len(quick_study.results()) == len(quick_study.trials)


def test_a_larger_grid_asks_for_the_new_setting_only(quick_study, settings):
    larger = quick_study.config.model_dump(mode="json")
    larger["methods"][1]["grid"]["iterations"].append(6)
    study = open_study(type(quick_study.config).model_validate(larger), settings)
    assert {t.parameters["iterations"] for j in study.missing() for t in j.trials} == {6}


@pytest.mark.parametrize(
    "change",
    ["seed=1", "cluster.blas_threads=2", "methods.1.ridge=0.2", "data.drop=[]", "folds.k=4"],
)
def test_whatever_decides_the_numbers_is_in_the_key(settings, change):
    plain = open_study(load_config("default", ["methods=[dummy, krr_fkd]"]), settings)
    other = open_study(load_config("default", ["methods=[dummy, krr_fkd]", change]), settings)
    krr = _keys(plain) - _keys(other)
    assert krr


@pytest.mark.parametrize("change", ["cluster.workers=1", "cluster.kind=threads", "name=other"])
def test_where_a_run_is_computed_is_not_in_the_key(settings, change):
    assert _keys(open_study(load_config(), settings)) == _keys(
        open_study(load_config("default", [change]), settings)
    )


def test_a_raised_version_of_a_method_makes_its_trials_new(quick_study, monkeypatch):
    declared = methods()["krr_fkd"]
    raised = dataclasses.replace(declared, version=declared.version + 1)
    monkeypatch.setitem(methods(), "krr_fkd", raised)
    assert {t.method for job in quick_study.missing() for t in job.trials} == {"krr_fkd"}


def test_a_trials_numbers_do_not_depend_on_its_neighbours(settings):
    def computed(overrides):
        study = open_study(load_config("default", overrides), settings)
        (job, *_) = [j for j in study.missing() if j.split == "0"]
        run_job(job)
        wanted = study.trials[0]
        fold = study.inputs.splits.outer(study.loaded.table)["0"]
        key = record_key(wanted, fold, study.inputs)
        record_file(study.store, key).unlink()
        return study.store.predictions(key)

    alone = computed(["methods=[{name: svr_fkd, iterations: 5}]"])
    together = computed(["methods=[{name: svr_fkd, grid: {iterations: [5, 30, 0]}}, krr_fkd]"])
    assert np.array_equal(alone, together)
