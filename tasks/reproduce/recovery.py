"""Measure how well probe models predict the protected columns from the features of curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fkd.measures.registry import LEAKING
from fkd.methods import method
from tasks.fit.job import training_for
from tasks.plan.training import cached_table
from tasks.plan.trials import Job, check_versions
from tasks.reproduce.curves import Curve, Curves
from tasks.select.judgement import VERSION, recover
from tasks.select.results import TrialResult
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest
from tasks.storage.store import open_store


def strongest(curve: Curve) -> TrialResult | None:
    """Return the setting that removes most, None where the method has no features to look at."""
    if method(curve.method).represent is None:
        return None
    return max(curve.results, key=lambda result: result.trial.strength)


def recovery_jobs(curves: Curves) -> list[Job]:
    """Return what is not known yet: on each fold of the first seed, all curves that share data."""
    jobs: dict[tuple[str, str], Job] = {}
    for curve in curves.values():
        if (result := strongest(curve)) is None:
            continue
        inputs = curve.study.inputs
        splits = inputs.splits.outer(curve.study.loaded.table)
        for split, record in zip(splits, result.records, strict=True):
            if open_store(inputs.settings).read_arrays(recovered_name(record.key)) is not None:
                continue
            place = curve.study.config.name, split
            known = jobs.get(place, Job(inputs, split, (), ()))
            if record.key not in known.record_keys:
                trials = (*known.trials, result.trial)
                jobs[place] = Job(inputs, split, trials, (*known.record_keys, record.key))
    return list(jobs.values())


def recover_job(job: Job) -> None:
    """Let other models guess the measured columns of a fold's test rows from features of these."""
    inputs = job.inputs
    check_versions(job.trials, inputs)
    table = cached_table(inputs.settings, inputs.table_digest)
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
    """Return mean and deviation over folds of the R² of every probe, curve by curve."""
    return [
        row
        for curve in curves.values()
        if (result := strongest(curve)) is not None
        for row in _rows(run, curve, result)
    ]


def _rows(run: str, curve: Curve, result: TrialResult) -> list[dict[str, Any]]:
    """Return one row per measured column and probe, none where a fold's are not known."""
    inputs = curve.study.inputs
    store = open_store(inputs.settings)
    found = [store.read_arrays(recovered_name(record.key)) for record in result.records]
    whole = [arrays for arrays in found if arrays is not None]
    if len(whole) < len(found):
        return []
    setting = curve.words(curve.results.index(result))
    return [
        {
            "run": run,
            "curve": curve.label,
            "setting": setting,
            "column": column,
            LEAKING: result.mean(LEAKING, column),
            "probe": str(probe),
            **_numbers("before", [arrays["before"][i, j] for arrays in whole]),
            **_numbers("after", [arrays["after"][i, j] for arrays in whole]),
        }
        for j, column in enumerate(inputs.measure_on)
        for i, probe in enumerate(whole[0]["probes"])
    ]


def _numbers(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return mean and deviation of some numbers."""
    return {name: float(np.mean(values)), f"{name}_std": float(np.std(values))}


def recovered_name(record_key: str) -> str:
    """Return as what the numbers of one trial on one fold are kept."""
    key = digest(["recovered", record_key, VERSION])
    return f"recovered/{key[:2]}/{key}.arrays"
