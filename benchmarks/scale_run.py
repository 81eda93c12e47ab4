"""A whole `fkd run scale` against its arithmetic: the pass, predictions, measures.

`FKD_BENCH_ROWS=100000` takes fewer rows, `FKD_BENCH_HOME` a folder that keeps the table.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from benchmarks.streaming import forget_sums, map_leaves, timed_cells
from benchmarks.sweep import run_times
from configs.load import load_config
from configs.run import RunConfig
from fkd.problems.table import Table
from tasks.fit.job import (
    CountedEnds,
    RowScores,
    fitted_models,
    is_counted,
    predict_rows,
    training_for,
)
from tasks.kernels.shared_map import store_map
from tasks.kernels.shared_training import shared_sums
from tasks.kernels.streaming import sum_leaf
from tasks.plan.trials import Inputs, Job
from tasks.select.study import Study, open_study
from tasks.storage.environment import blas_threads
from tasks.storage.settings import Settings

MOST = int(os.environ.get("FKD_BENCH_ROWS", 1_664_500))


def run() -> Record:
    """Return the seconds of the run with one worker and two, of its arithmetic, of a second run."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepared = _prepared(home)
        before = arithmetic(prepared)
        one = scale_times(prepared, home / "1", 1)
        after = arithmetic(prepared)
        with peak_memory() as peak:
            two = scale_times(prepared, home / "2", 2)
    # On either side of the run: a machine that slows down meanwhile slows both alike.
    parts = {name: (before[name] + after[name]) / 2 for name in before}
    # What the goal names, nothing else: models and intervals are told beside it.
    whole = parts["pass"] + parts["predictions"] + parts["measures"]
    return Record(
        rows=[
            *({"what": f"arithmetic: {name}", "seconds": s} for name, s in parts.items()),
            *({"what": f"one worker: {name}", "seconds": s} for name, s in one.items()),
            *({"what": f"two workers: {name}", "seconds": s} for name, s in two.items()),
        ],
        goals=[
            Goal("cold run with one worker / its arithmetic", one["cold"] / whole, 1.3),
            Goal("again from the store / cold", one["cached"] / one["cold"], 0.02),
            Goal("pass and fits: one worker / two", one["fit"] / two["fit"], 1.5, True),
            Goal("peak GiB of all processes, two workers", peak[0], 8.0),
        ],
        remarks=[
            f"configs/scale.yaml with {MOST} synthetic rows; one BLAS thread a process",
            "arithmetic: the pass; kernel blocks of all test rows times all models (predictions); "
            "measures; in this process, the last two on one outer and one inner split, scaled by "
            "rows to all, the mean of before and after the run with one worker; models (paths, "
            "coefficients) and the intervals that fits on outer folds store were timed too, but "
            "are no part of it, nor is the champion's judgement",
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
        leaves = map_leaves(stored, sums.precision)
        start = time.perf_counter()
        keys = [sum_leaf(leaf) for leaf in leaves]
        passed = time.perf_counter() - start + timed_cells(leaves, keys)
        fitted = _fitted(study, jobs)
    forget_sums(sums.shared)
    return {"pass": passed, **fitted}


def _fitted(study: Study, jobs: list[Job]) -> dict[str, float]:
    """Return the seconds of models, predictions, measures of all splits, judged by two of them."""
    table, inputs = study.loaded.table, study.inputs
    splits = inputs.splits.all(table)
    wanted = {job.split: job.trials for job in jobs}
    looked_at = [min(wanted), max(wanted, key=lambda split: (split.count("."), split))]
    outer = inputs.splits.outer(table)
    _compile(table, inputs)
    seconds = Counter[str]()
    for split in looked_at:
        test, trials = table.take(splits[split].test), wanted[split]
        # Each stands for the splits of its kind: fits on inner ones have no intervals.
        alike = [job for job in jobs if (job.split in outer) == (split in outer)]
        rows = sum(len(splits[job.split].test) * len(job.trials) for job in alike)
        clock = Laps(rows / (test.n * len(trials)))
        training, encoder = training_for(trials, table, splits[split], inputs)
        models = list(fitted_models(training, trials[0].method, trials))
        seconds["models"] += clock.lap()
        found = predict_rows(trials, models, encoder, test, inputs)
        seconds["predictions"] += clock.lap()
        scores = RowScores(test, inputs.measure_on)
        numbers = [scores.of(y_pred) for y_pred in found]
        seconds["measures"] += clock.lap()
        if split in outer and is_counted(test.n, None):
            ends = CountedEnds(test.y, scores.columns, inputs.seed)
            for y_pred, measured in zip(found, numbers, strict=True):
                ends.around(y_pred, measured)
        seconds["intervals"] += clock.lap()
        between()
    return dict(seconds)


class Laps:
    """A clock whose laps count several times."""

    def __init__(self, times: float) -> None:
        self.times, self.since = times, time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        before, self.since = self.since, time.perf_counter()
        return (self.since - before) * self.times


def _compile(table: Table, inputs: Inputs) -> None:
    """Measure once, so that no lap pays for compiling what every worker compiles once."""
    some = table.take(slice(0, 2**18))
    RowScores(some, inputs.measure_on).of(some.y)


def scale_times(prepared: Path, home: Path, workers: int) -> dict[str, float]:
    """Return the seconds of a run on a prepared table, in a home that has nothing else."""
    shutil.copytree(prepared / "store" / "prepared", home / "store" / "prepared")
    return run_times(scale_config(workers), home)
