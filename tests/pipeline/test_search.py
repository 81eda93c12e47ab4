import numpy as np
import pytest
from dask_process import threads
from stored_files import record_file
from sweep_sample import sweep_config

from configs.errors import UserError
from flows.fitting import fit_all
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study

SEARCH = (
    "methods=[{name: krr_fkd, search: {gamma: [0.001, 0.05], alpha: [0.1, 10.0]}, "
    "grid: {iterations: [0, 2, 4]}, approximation: {kind: nystroem, landmarks: 40}}]"
)


@pytest.fixture
def config():
    return sweep_config(
        SEARCH,
        threads(1),
    )


def _settings(study):
    return {(p["gamma"], p["alpha"], p["iterations"]) for p in (t.parameters for t in study.trials)}


def _inner_error(study, trial):
    folds = study.inputs.splits.inner(study.loaded.table).values()
    keys = [record_key(trial, fold, study.inputs) for fold in folds]
    return np.mean([study.store.read(key).measures["racepctblack"]["mae"] for key in keys])


def test_the_unfair_model_is_searched_first(config, settings):
    study = open_study(config, settings)
    searched = {(g, a, 0) for g in (0.001, 0.05) for a in (0.1, 10.0)}
    assert _settings(study) == searched


def test_the_grid_is_computed_with_the_winner_of_the_inner_folds(config, settings, capsys):
    searched = open_study(config, settings).trials
    assert fit_all([open_study(config, settings)]).failed == 0
    study = open_study(config, settings)
    best = min(searched, key=lambda trial: _inner_error(study, trial)).parameters
    fair = {s for s in _settings(study) if s[2] > 0}
    assert fair == {(best["gamma"], best["alpha"], m) for m in (2, 4)}
    assert len({_inner_error(study, trial) for trial in searched}) == 4  # the choice is a choice
    assert study.missing() == []
    capsys.readouterr()
    assert fit_all([open_study(config, settings)]).failed == 0
    assert "nothing to compute" in capsys.readouterr().err


def test_an_interrupted_search_goes_on_where_it_stopped(config, settings):
    jobs = open_study(config, settings).missing()
    for job in jobs[: len(jobs) // 2]:
        run_job(job)
    left = open_study(config, settings)
    assert len(left.trials) == 4  # no winner yet
    for job in left.missing():
        run_job(job)
    assert len(open_study(config, settings).trials) == 6


def test_what_a_search_has_won_is_known(config, settings):
    study = open_study(config, settings)
    assert study.searched == frozenset()
    for job in study.missing():
        run_job(job)
    study = open_study(config, settings)
    fair = {trial.key for trial in study.trials if trial.strength > 0}
    assert fair
    assert fair <= study.searched < {trial.key for trial in study.trials}


def test_a_setting_that_fails_cannot_win(config, settings):
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    best = min(study.trials, key=lambda trial: _inner_error(study, trial))
    fold = study.inputs.splits.inner(study.loaded.table)["0.0"]
    key = record_key(best, fold, study.inputs)
    record_file(study.store, key).unlink()
    study.store.write_failure(key, "ValueError: no")
    fair = {s for s in _settings(open_study(config, settings)) if s[2] > 0}
    assert len(fair) == 2
    assert (best.parameters["gamma"], best.parameters["alpha"]) not in {s[:2] for s in fair}


@pytest.mark.parametrize("axis", ["iterations: [0, 1]", "ridge: [0.1]", "gamma: [0.1]"])
def test_a_search_over_what_is_decided_is_refused(axis):
    entry = f"{{name: krr_fkd, gamma: 0.1, search: {{{axis}}}, grid: {{ridge: [0.2]}}}}"
    with pytest.raises(UserError, match="search of krr_fkd"):
        sweep_config(f"methods=[{entry}]")


def test_all_that_a_search_chose_is_marked_as_such(config, settings):
    fit_all([open_study(config, settings)])
    study = open_study(config, settings)
    (gamma, alpha) = next(
        (t.parameters["gamma"], t.parameters["alpha"]) for t in study.trials if t.strength > 0
    )
    chosen = {
        t.key
        for t in study.trials
        if (t.parameters["gamma"], t.parameters["alpha"]) == (gamma, alpha)
    }
    assert study.searched == chosen
    assert len(chosen) == 3


def test_a_winner_without_a_grid_of_its_own_is_marked_too(settings):
    fair_only = SEARCH.replace("[0, 2, 4]", "[2]")
    config = sweep_config(
        fair_only,
        threads(1),
    )
    fit_all([open_study(config, settings)])
    study = open_study(config, settings)
    marked = [t for t in study.trials if t.key in study.searched]
    assert sorted(t.strength for t in marked) == [0, 2]
