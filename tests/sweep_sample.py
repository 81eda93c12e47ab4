"""Sweeps of many cheap trials, with what is left of them."""

import numpy as np

from configs.load import load_config
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage.settings import Settings


def sweep_config(*overrides, name="sweep", gammas=2, alphas=2, lengths=3, landmarks=60, k=2):
    """Embedded Crimes; every gamma on every split is a task of alphas times lengths trials."""
    grid = {
        "gamma": [round(0.02 + 0.01 * i, 3) for i in range(gammas)],
        "alpha": [round(0.1 + 0.1 * i, 3) for i in range(alphas)],
        "iterations": list(range(lengths)),
    }
    return load_config(
        "default",
        [
            f"name={name}",
            f"folds.k={k}",
            "select.inner_folds=2",
            "select.subject_to={}",
            f"methods=[{{name: krr_fkd, grid: {grid}, "
            f"approximation: {{kind: nystroem, landmarks: {landmarks}}}}}]",
            "cluster.workers=2",
            *overrides,
        ],
    )


def undisturbed(config, home):
    """The study of a configuration, computed in this process, one job after another."""
    study = open_study(config, Settings(home, None, None, None))
    for job in study.missing():
        run_job(job)
    return study


def numbers(study):
    """Every stored number of a study that must not depend on how it was computed."""
    table, inputs = study.loaded.table, study.inputs
    found = {}
    for label, fold in inputs.splits.all(table).items():
        for trial in study.trials:
            key = record_key(trial, fold, inputs)
            record = study.store.read(key)
            assert record is not None, (trial, label)
            found[trial.method, trial.parameters_json, label] = (
                record.measures,
                study.store.predictions(key).tobytes(),
            )
    return found


def same_numbers(one, other):
    """Whether two studies hold the same numbers, to the last bit."""
    return numbers(one) == numbers(other)


def finite(study):
    """Whether every stored prediction is a number: the comparison above would bite."""
    return all(np.isfinite(np.frombuffer(y)).all() and len(y) for _, y in numbers(study).values())
