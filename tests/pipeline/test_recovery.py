"""What can be guessed from the features of an experiment's curves."""

from dataclasses import replace

import numpy as np
import pytest

from configs.reproduction import parse_experiment
from configs.run import ClusterConfig
from tasks.fit.job import run_job, training_for
from tasks.reproduce.curves import seeded_curves
from tasks.reproduce.page import summary, write_page
from tasks.reproduce.recovery import recover_job, recovered_table, recovery_jobs, strongest
from tasks.reproduce.result import make_result, write_result
from tasks.select.judgement import recover
from tasks.select.study import open_study
from tasks.storage.settings import Settings

TREE = {
    "name": "T",
    "title": "Recovery",
    "question": "What is left?",
    "runs": {
        "crimes": {
            "title": "Crimes",
            "data": {"problem": "crimes", "sample": 300},
            "folds": {"k": 2},
            "recoverability": True,
            "curves": {
                "cut": {"name": "krr_fkd", "grid": {"iterations": [0, 20, 3]}},
                "cut again": {"name": "krr_fkd", "grid": {"iterations": [20]}},
                "priced": {"name": "krr_fkl", "grid": {"penalty": [0, 1]}},
                "Dummy": "dummy",
            },
        }
    },
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    settings = Settings(tmp_path_factory.mktemp("recovery"), None, None, None)
    experiment = parse_experiment(TREE)
    (config,) = experiment.run_configs("crimes", ClusterConfig()).values()
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    curves = seeded_curves({0: {"plain": study}}, experiment.runs["crimes"])
    jobs = recovery_jobs(curves)
    before = recovered_table("crimes", curves)
    for job in jobs:
        recover_job(job)
    return experiment, curves, jobs, before


def test_the_strongest_setting_of_curves_with_features_is_asked(found):
    _, curves, jobs, before = found
    assert strongest(curves["cut"]).trial.strength == 20
    assert strongest(curves["priced"]) is None
    assert [[t.strength for t in job.trials] for job in jobs] == [[20], [20]]  # one per fold
    assert before == []  # what is not known is not told
    assert recovery_jobs(curves) == []  # nor computed twice


def test_numbers_are_those_of_the_features_of_rows_that_no_model_saw(found):
    _, curves, _, _ = found
    curve = curves["cut"]
    study, trial = curve.study, strongest(curve).trial
    table, values = study.loaded.table, []
    for fold in study.inputs.splits.outer(table).values():
        training, encoder = training_for([trial], table, fold, study.inputs)
        test = table.take(fold.test)
        S = test.S(study.inputs.measure_on)
        values.append(
            [(p.before, p.after) for p in recover(trial, training, encoder.transform(test), S)]
        )
    mean, spread = np.mean(values, axis=0).squeeze(), np.std(values, axis=0).squeeze()
    rows = [row for row in recovered_table("crimes", curves) if row["curve"] == "cut"]
    assert [row["probe"] for row in rows] == ["boosted trees", "rbf ridge"]
    assert [[row["before"], row["after"]] for row in rows] == pytest.approx(mean)
    assert [[row["before_std"], row["after_std"]] for row in rows] == pytest.approx(spread)
    assert all(row["before"] > row["after"] for row in rows)  # something was there, less is left
    assert {row["setting"] for row in rows} == {"m=20"}


def test_page_and_summary_have_a_table_where_it_was_asked_for(found, tmp_path):
    experiment, curves, _, _ = found
    story = replace(make_result(experiment, {"crimes": curves}, {}, [], {}, draws=1), name="E2")
    write_result(story, experiment, {"crimes": curves}, tmp_path / "E2")
    assert "Recoverability: held-out R²" in write_page([story], tmp_path).read_text()
    assert "| R² before | R² after |" in summary([story])
    run = experiment.runs["crimes"].model_copy(update={"recoverability": False})
    quiet = experiment.model_copy(update={"runs": {"crimes": run}})
    told = make_result(quiet, {"crimes": curves}, {}, [], {}, draws=1)
    assert told.recovered == []
    assert "R²" not in summary([told])
