from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from dask_process import threads
from own_sample import rents, write_rents
from stored_files import record_file
from sweep_sample import sweep_config

from configs.errors import UserError
from configs.load import load_config, parse_config
from configs.methods import MethodConfig
from fkd.methods import method
from flows.fitting import fit_all
from tasks.fit.job import run_job
from tasks.plan.trials import make_trials, record_key
from tasks.select import study as grids
from tasks.select.results import TrialResult, collect, variant_names
from tasks.select.study import open_study
from tasks.storage.records import PredictedRows

SEARCH = (
    "methods=[{name: krr_fkd, search: {gamma: [0.001, 0.05], alpha: [0.1, 10.0]}, "
    "grid: {iterations: [0, 2, 4]}, approximation: {kind: nystroem, landmarks: 40}}]"
)


@pytest.fixture
def config():
    return sweep_config(SEARCH, threads(1))


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
    assert fit_all([open_study(config, settings)]) == 0
    study = open_study(config, settings)
    best = min(searched, key=lambda trial: _inner_error(study, trial)).parameters
    fair = {s for s in _settings(study) if s[2] > 0}
    assert fair == {(best["gamma"], best["alpha"], m) for m in (2, 4)}
    assert len({_inner_error(study, trial) for trial in searched}) == 4  # the choice is a choice
    assert study.missing() == []
    capsys.readouterr()
    assert fit_all([open_study(config, settings)]) == 0
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
    config = sweep_config(fair_only, threads(1))
    fit_all([open_study(config, settings)])
    study = open_study(config, settings)
    marked = [t for t in study.trials if t.key in study.searched]
    assert sorted(t.strength for t in marked) == [0, 2]


@pytest.fixture
def study_of(tmp_path, settings, rng):
    """Studies of a made-up table on which an input gives the sensitive column away."""
    s = rng.uniform(size=120)
    x, z = s + 0.2 * rng.normal(size=120), rng.normal(size=120)
    frame = pd.DataFrame({"s": s, "x": x, "z": z, "y": x + z + 0.1 * rng.normal(size=120)})
    frame.to_csv(tmp_path / "mine.csv", index=False)

    def make(entry):
        data = {
            "problem": "table",
            "path": str(tmp_path / "mine.csv"),
            "target": "y",
            "numeric": ["x", "z"],
            "sensitive": ["s"],
        }
        plain = {"data": data, "methods": [entry], "folds": {"k": 2}, "select": None}
        return open_study(parse_config(plain, "mine.yaml"), settings)

    return make


def grown(study_of, entry):
    """All strengths of an entry, after as many rounds as it takes."""
    for _ in range(12):
        study = study_of(entry)
        jobs = study.missing()
        if not jobs:
            return study
        for job in jobs:
            run_job(job)
    raise AssertionError("it grows for ever")


def dummy_error(study):
    """The error of the training mean, over the outer folds."""
    table, folds = study.loaded.table, study.inputs.splits.outer(study.loaded.table).values()
    return np.mean([np.abs(table.y[f.test] - table.y[f.train].mean()).mean() for f in folds])


def strengths(study):
    return [trial.strength for trial in study.trials]


def test_a_bare_name_begins_with_a_short_geometric_grid(study_of):
    assert strengths(study_of("krr_fkd")) == [0, 1, 2, 4, 8, 16]
    assert strengths(study_of("krr_fkl")) == [0, 0.01, 0.1, 1, 10]
    assert strengths(study_of("residual_y")) == [0, 0.25, 0.5, 0.75, 1]


def test_it_grows_until_the_error_is_that_of_a_constant(study_of):
    study = grown(study_of, {"name": "krr_fkl"})
    found = strengths(study)
    assert found == [0, 0.01, 0.1, 1, *(10.0**k for k in range(1, len(found) - 3))]
    assert len(found) > 5
    dummy = dummy_error(study)
    errors = [result.mean("mae", "s") for result in study.results()]
    assert (max(errors[:-1]) < 0.99 * dummy < errors[-1]) or found[-1] == 1e4


def test_it_ends_where_nothing_is_left_to_remove(study_of):
    # Two landmarks: two directions are all there is.
    approximation = {"kind": "nystroem", "landmarks": 2}
    study = grown(study_of, {"name": "krr_fkd", "approximation": approximation})
    assert strengths(study) == [0, 1, 2, 4, 8, 16]
    *_, before, last = study.results()
    for a, b in zip(before.records, last.records, strict=True):
        gaps = study.store.predictions(a.key) - study.store.predictions(b.key)
        assert np.abs(gaps).max() < 1e-6


def test_a_grid_that_is_given_stays_as_it_is(study_of):
    given = {"name": "krr_fkd", "grid": {"iterations": [0, 1]}}
    assert strengths(grown(study_of, given)) == [0, 1]
    fixed = {"name": "krr_fkd", "iterations": 1}
    assert strengths(grown(study_of, fixed)) == [1]


def test_ladders_end():
    assert method("krr_fkd").next_strength(16) == 32
    assert method("krr_fkd").next_strength(512) is None
    assert method("krr_fkl").next_strength(1.0) == 10.0
    assert method("krr_fkl").next_strength(1e4) is None
    assert method("residual_y").next_strength(1.0) is None
    assert method("krr").next_strength(0.0) is None


SHARED = {"kind": "nystroem", "landmarks": 80, "shared": True}


@pytest.mark.parametrize("approximation", [None, SHARED], ids=["exact", "shared"])
def test_a_run_grows_by_itself_resumes_and_then_computes_nothing(
    tmp_path, settings, capsys, approximation
):
    entry = {
        "name": "krr_fkd",
        "gamma": 1.0,
        **({"approximation": approximation} if approximation else {}),
    }
    folds = {"k": 2, "reserve": 0.3 if approximation else 0.0}
    config = load_config(write_rents(tmp_path, rows=rents(400), methods=[entry], folds=folds))
    first = open_study(config, settings)
    assert strengths(first) == [0, 1, 2, 4, 8, 16]
    if approximation is None:  # a run that was cut off
        run_job(first.missing()[0])
    assert fit_all([open_study(config, settings)]) == 0
    whole = open_study(config, settings)
    assert whole.missing() == []
    assert strengths(whole)[:7] == [0, 1, 2, 4, 8, 16, 32]
    assert len(whole.results()) == len(whole.trials)
    errors = [result.mean("mae", "Alter") for result in whole.results()]
    assert max(errors[:-1]) < 0.99 * dummy_error(whole) < errors[-1]
    capsys.readouterr()
    assert fit_all([open_study(config, settings)]) == 0
    assert "all stored, nothing to compute" in capsys.readouterr().err


def test_equal_predictions_end_a_grid_whose_error_is_small(study_of, monkeypatch):
    """Nothing is left to remove, though the model is far from a constant."""
    study = study_of("krr_fkd")
    for job in study.missing():
        run_job(job)
    *_, last = collect(study.trials, study.inputs, study.loaded.table, study.store)
    plain = collect(study.trials[:1], study.inputs, study.loaded.table, study.store)[0]
    assert plain.mean("mae", "s") < 0.5 * dummy_error(study)
    moved = [
        replace(
            record,
            predicted=PredictedRows.from_predictions(study.store.predictions(record.key) + 1e-3),
        )
        for record in plain.records
    ]
    others = (replace(plain, trial=last.trial), TrialResult(last.trial, tuple(moved)))
    found = []
    for other in others:
        monkeypatch.setattr(grids, "collect", lambda *_, other=other: [plain, other])
        asked = study.config.methods[0], "table", study.trials, study.inputs
        found.append(grids.next_strength(*asked, study.loaded.table, study.store))
    assert found == [None, 32]


def named(inputs, *entries):
    """The names of the trials of these method entries, in order."""
    trials = []
    for entry in entries:
        config = MethodConfig.model_validate(entry).on("crimes")
        trials += make_trials(config.name, config.settings("crimes"), inputs)
    names = variant_names(trials)
    return [names[trial.key] for trial in trials]


def entry(strengths, **parameters):
    return {"name": "krr_fkd", "grid": {"iterations": strengths}, **parameters}


def test_a_method_without_variants_keeps_its_title(quick_study):
    assert named(quick_study.inputs, entry([0, 5]), "dummy") == ["KRR-FKD", "KRR-FKD", "Dummy"]


def test_variants_are_told_apart_by_what_differs_only(quick_study):
    found = named(quick_study.inputs, entry([0, 5], gamma=0.5), entry([0], gamma=0.01))
    assert found == ["KRR-FKD (gamma 0.5)", "KRR-FKD (gamma 0.5)", "KRR-FKD (gamma 0.01)"]


def test_an_exact_kernel_is_told_from_an_approximation(quick_study):
    nystroem = {"kind": "nystroem", "landmarks": 50}
    found = named(quick_study.inputs, entry([0]), entry([0], approximation=nystroem))
    assert found == ["KRR-FKD (exact)", "KRR-FKD (nystroem)"]


def test_the_many_settings_of_a_search_share_a_name(quick_study):
    searched = [entry([0], gamma=round(0.01 * k, 2)) for k in range(1, 12)]
    found = named(quick_study.inputs, *searched, entry([0, 5], gamma=0.5))
    assert found[-1] == "KRR-FKD (gamma 0.5)"
    assert set(found[:-2]) == {"KRR-FKD (other settings)"}


def test_the_study_names_variants_in_titles(quick_study):
    assert quick_study.title(quick_study.trials[-1]) == "KRR-FKD iterations=4"
