"""Grids of strengths outside the paper's data: short, geometric, as long as removal goes on."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from own_sample import rents, write_rents

from configs.load import load_config, parse_config
from fkd.methods import method
from flows.fitting import fit_all
from tasks.fit.job import run_job
from tasks.select import grids
from tasks.select.results import TrialResult, collect
from tasks.select.study import open_study
from tasks.storage.records import PredictedRows


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
    assert fit_all([open_study(config, settings)]).failed == 0
    whole = open_study(config, settings)
    assert whole.missing() == []
    assert strengths(whole)[:7] == [0, 1, 2, 4, 8, 16, 32]
    assert len(whole.results()) == len(whole.trials)
    errors = [result.mean("mae", "Alter") for result in whole.results()]
    assert max(errors[:-1]) < 0.99 * dummy_error(whole) < errors[-1]
    capsys.readouterr()
    assert fit_all([open_study(config, settings)]).failed == 0
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
