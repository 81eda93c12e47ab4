"""A whole `fkd run scale` against its arithmetic: the pass, predictions, measures.

`FKD_BENCH_ROWS=100000` takes fewer rows, `FKD_BENCH_HOME` a folder that keeps the table.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from benchmarks.streaming import forget_sums, map_leaves, timed_cells
from benchmarks.sweep import run_times
from configs.load import load_config
from configs.schema import RunConfig
from fkd.core.predictors import KernelExpansion, Predictor
from tasks.adapters.blas import blas_threads
from tasks.adapters.settings import Settings
from tasks.blocks.leaves import sum_leaf
from tasks.blocks.shared_map import load_map, shared_encoder, store_map
from tasks.blocks.shared_training import shared_sums
from tasks.planned.trials import Job
from tasks.study.evaluate import judges_of, measure, predict_rows
from tasks.study.opening import Study, open_study

MOST = int(os.environ.get("FKD_BENCH_ROWS", 1_664_500))


def run() -> Record:
    """Return the seconds of the run with one worker and two, of its arithmetic, of a second run."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepared = _prepared(home)
        parts = arithmetic(prepared)
        one = scale_times(prepared, home / "1", 1)
        with peak_memory() as peak:
            two = scale_times(prepared, home / "2", 2)
    whole = sum(parts.values())
    return Record(
        rows=[
            *({"what": f"arithmetic: {name}", "seconds": s} for name, s in parts.items()),
            *({"what": f"one worker: {name}", "seconds": s} for name, s in one.items()),
            *({"what": f"two workers: {name}", "seconds": s} for name, s in two.items()),
        ],
        goals=[
            Goal("cold run with one worker / its arithmetic", one["cold"] / whole, 1.3),
            Goal("again from the store / cold", one["cached"] / one["cold"], 0.02),
            Goal("pass with fits, one worker / two", one["fit"] / two["fit"], 1.5, True),
            Goal("peak GiB of all processes, two workers", peak[0], 8.0),
        ],
        remarks=[
            f"configs/scale.yaml with {MOST} synthetic rows; one BLAS thread a process",
            "arithmetic: the pass; kernel blocks of all test rows times all models; measures; in "
            "this process, the last two on two splits, scaled by rows to all",
            "cold, cached: all stages; start-up and making the table stand apart",
        ],
    )


def scale_config(workers: int) -> RunConfig:
    """Return the configuration with so many rows, workers."""
    return load_config("scale", [f"data.sample={MOST}", f"cluster.workers={workers}"])


def _prepared(home: Path) -> Path:
    """Return a folder whose table is prepared, which is no part of what is timed."""
    kept = Path(os.environ.get("FKD_BENCH_HOME") or home / "kept")
    open_study(scale_config(1), Settings(kept, None, None, None))
    return kept


def arithmetic(home: Path) -> dict[str, float]:
    """Return the seconds of what any such run has to compute, on one thread."""
    study = open_study(scale_config(1), Settings(home, None, None, None))
    jobs = study.missing(again=True)
    (sums,) = shared_sums(jobs)
    stored = store_map(sums.shared)
    forget_sums(sums.shared)
    with blas_threads(1):
        leaves = map_leaves(stored, sums.way)
        start = time.perf_counter()
        keys = [sum_leaf(leaf) for leaf in leaves]
        passed = time.perf_counter() - start + timed_cells(leaves, keys)
        predicted, measured = _tested(study, jobs)
    forget_sums(sums.shared)
    return {"pass": passed, "predictions": predicted, "measures": measured}


def _tested(study: Study, jobs: list[Job]) -> tuple[float, float]:
    """Return the seconds of predicting and of measuring all splits, judged by two of them."""
    table, inputs = study.loaded.table, study.inputs
    splits = inputs.splits.all(table)
    encoder = shared_encoder(inputs)
    wanted = {job.split: job.trials for job in jobs}
    looked_at = [min(wanted), max(wanted, key=lambda split: (split.count("."), split))]
    predicted, measured, rows = 0.0, 0.0, 0
    for split in looked_at:
        test, trials = table.take(splits[split].test), wanted[split]
        models = _models(study, len(trials))
        start = time.perf_counter()
        found = predict_rows(trials, models, encoder, test, inputs)
        between_them = time.perf_counter()
        judges = judges_of(test, inputs.measure_on)
        for y_pred in found:
            measure(y_pred, test.y, judges)
        predicted += between_them - start
        measured += time.perf_counter() - between_them
        rows += test.n * len(trials)
        between()
    share = sum(len(splits[job.split].test) * len(job.trials) for job in jobs) / rows
    return predicted * share, measured * share


def _models(study: Study, count: int) -> list[Predictor]:
    """Return expansions on the landmarks: what they predict decides no time."""
    (sums,) = shared_sums(study.missing(again=True))
    feature_map = load_map(store_map(sums.shared))
    rng = np.random.default_rng(0)
    models = [feature_map.expansion(rng.normal(size=feature_map.rank)) for _ in range(count)]
    assert all(isinstance(model, KernelExpansion) for model in models)
    return list(models)


def scale_times(prepared: Path, home: Path, workers: int) -> dict[str, float]:
    """Return the seconds of a run on a prepared table, in a home that has nothing else."""
    shutil.copytree(prepared / "store" / "prepared", home / "store" / "prepared")
    return run_times(scale_config(workers), home)
