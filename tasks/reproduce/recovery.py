"""Measure how well probe models predict the protected columns from the features of curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fkd.measures.registry import LEAKING
from fkd.methods import method
from tasks.fit.job import training_for
from tasks.plan.trials import Job, check_versions
from tasks.reproduce.curves import Curve, Curves
from tasks.select.judgement import VERSION, recover
from tasks.select.results import TrialResult
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest
from tasks.storage.store import open_store


def strongest(curve: Curve) -> TrialResult | None:
    """Return the setting with the greatest strength, None if the method has no features."""
    if method(curve.method).represent is None:
        return None
    return max(curve.results, key=lambda result: result.trial.strength)


def recovery_jobs(curves: Curves) -> list[Job]:
    """Return the jobs whose results are not stored: one per fold of the first seed and study."""
    jobs: dict[tuple[str, str], Job] = {}
    for curve in curves.values():
        if (result := strongest(curve)) is None:
            continue
        inputs = curve.study.inputs
        store, splits = open_store(inputs.settings), inputs.splits.outer(curve.study.loaded.table)
        for split, record in zip(splits, result.records, strict=True):
            place = curve.study.config.name, split
            known = jobs.get(place, Job(inputs, split, (), ()))
            stored = store.read_arrays(recovered_name(record.key)) is not None
            if not stored and record.key not in known.record_keys:
                trials = (*known.trials, result.trial)
                jobs[place] = Job(inputs, split, trials, (*known.record_keys, record.key))
    return list(jobs.values())


def recover_job(job: Job) -> None:
    """Predict the measured columns of a fold's test rows from their features; store the R²."""
    inputs = job.inputs
    check_versions(job.trials, inputs)
    table = inputs.table
    fold = inputs.splits.outer(table)[job.split]
    test = table.take(fold.test)
    S = test.S(inputs.measure_on)
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for(job.trials, table, fold, inputs)
        X = encoder.transform(test)
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            found = recover(trial, training, X, S)
            open_store(inputs.settings).write_arrays(
                recovered_name(key),
                {
                    "probes": np.array([probe.model for probe in found]),
                    "before": np.array([np.atleast_1d(np.asarray(p.before)) for p in found]),
                    "after": np.array([np.atleast_1d(np.asarray(p.after)) for p in found]),
                },
            )


def recovered_table(run: str, curves: Curves) -> list[dict[str, Any]]:
    """Return mean and standard deviation over folds of the R² of every probe, curve by curve.

    Curves of which the result of a fold is not stored are left out.
    """
    rows = []
    for curve in curves.values():
        if (result := strongest(curve)) is None:
            continue
        store = open_store(curve.study.inputs.settings)
        found = [store.read_arrays(recovered_name(record.key)) for record in result.records]
        folds = [arrays for arrays in found if arrays is not None]
        if len(folds) < len(found):
            continue
        setting = curve.words(curve.results.index(result))
        rows += [
            {
                "run": run,
                "curve": curve.label,
                "setting": setting,
                "column": column,
                LEAKING: result.mean(LEAKING, column),
                "probe": str(probe),
                **_mean_and_std("before", [arrays["before"][i, j] for arrays in folds]),
                **_mean_and_std("after", [arrays["after"][i, j] for arrays in folds]),
            }
            for j, column in enumerate(curve.study.inputs.measure_on)
            for i, probe in enumerate(folds[0]["probes"])
        ]
    return rows


def _mean_and_std(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_std": float(np.std(values))}


def recovered_name(record_key: str) -> str:
    """Return the name in the store of the R² of one trial on one fold."""
    key = digest(["recovered", record_key, VERSION])
    return f"recovered/{key[:2]}/{key}.arrays"
