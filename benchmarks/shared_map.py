"""Processor time of all splits under a shared Nystroem map against maps of each split's own."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from configs.load import load_config
from tasks.fit.job import fitted_models, training_for
from tasks.select.study import Study, open_study
from tasks.storage.environment import blas_threads
from tasks.storage.settings import Settings

PERSONS = (2_000, 10_000, 50_000, 150_000)  # of the synthetic census; about half are working adults
LANDMARKS = 1000
ITERATIONS, ALPHAS = (0, 15, 20, 30), (0.05, 0.25, 1.0)


def run() -> Record:
    """Return processor seconds of the fits of five outer, four inner folds, by number of rows."""
    with tempfile.TemporaryDirectory() as folder, blas_threads(1):
        rows = [_compared(Path(folder), persons) for persons in PERSONS]
    return Record(
        rows=rows,
        goals=[Goal("own / shared at the most rows", rows[-1]["ratio"], 3.0, at_least=True)],
        remarks=[
            f"KRR-FKD, q = {LANDMARKS}, {len(ITERATIONS) * len(ALPHAS)} settings on 9 splits, "
            "prediction with its measures, the same for both, left out",
            "processor seconds of one process with one BLAS thread; SYNTHETIC census rows",
            "a fifth of the rows is reserved in both",
        ],
    )


def _compared(folder: Path, persons: int) -> dict[str, Any]:
    """Return the seconds of both ways on one table."""
    seconds = {}
    for name, shared in (("own", False), ("shared", True)):
        study = _study(Settings(folder / f"{persons}-{name}", None, None, None), persons, shared)
        between()
        start = time.process_time()
        for fold in study.inputs.splits.all(study.loaded.table).values():
            training, _ = training_for(study.trials, study.loaded.table, fold, study.inputs)
            list(fitted_models(training, "krr_fkd", study.trials))
        seconds[name] = time.process_time() - start
    return {
        "rows": study.loaded.table.n,
        "own": seconds["own"],
        "shared": seconds["shared"],
        "ratio": seconds["own"] / seconds["shared"],
    }


def _study(settings: Settings, persons: int, shared: bool) -> Study:
    """Return the study of one way."""
    entry = {
        "name": "krr_fkd",
        "approximation": {"kind": "nystroem", "landmarks": LANDMARKS, "shared": shared},
        "grid": {"iterations": ITERATIONS, "alpha": ALPHAS},
    }
    overrides = [
        "data.source=synthetic",
        f"data.synthetic={{rows: {persons}}}",
        "folds.reserve=0.2",
        f"methods={json.dumps([entry])}",
    ]
    return open_study(load_config("acs_income", overrides), settings)
