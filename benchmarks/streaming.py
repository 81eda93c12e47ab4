"""One pass over a million rows against the bare product that it rests on.

`FKD_BENCH_ROWS=100000` takes fewer, `FKD_BENCH_HOME` a folder that keeps the table for next time.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from configs.load import load_config
from fkd.core.feature_maps import SumPrecision
from fkd.core.moments import Moments
from fkd.core.removal import removal_path
from fkd.core.ridge import ridge_coefficients
from tasks.kernels.shared_map import SharedMap, StoredMap, store_map
from tasks.kernels.shared_training import shared_sums
from tasks.kernels.streaming import (
    TASK_ROWS,
    Leaf,
    Sums,
    Total,
    add_leaves,
    cell_leaves,
    missing_cells,
    moments_of,
    sum_leaf,
)
from tasks.select.study import Study, open_study
from tasks.storage.environment import blas_threads
from tasks.storage.settings import Settings

MOST = int(os.environ.get("FKD_BENCH_ROWS", 1_664_500))
# Persons of the synthetic census, of whom about half are working adults.
PERSONS = 3_200_000
SLOPE_ROWS = (10_000, 100_000, 1_000_000)
LANDMARKS = (1000, 2000)
LIMITS: dict[SumPrecision, float] = {"float32": 1.5, "float64": 2.2}
ITERATIONS, ALPHAS = range(201), np.geomspace(0.01, 10.0, num=20)
EVERY = 4  # leaves between two bare products
GIB = 8.0


def run() -> Record:
    """Return seconds of the pass, of the bare product, of all models, by landmarks and way."""
    with home() as settings, blas_threads(1), peak_memory() as peak:
        rows = [_measured(settings, MOST, q, precision) for q in LANDMARKS for precision in LIMITS]
        slopes = [_measured(settings, n, LANDMARKS[0], "float64") for n in SLOPE_ROWS if n <= MOST]
    goals = [
        Goal(
            f"P4': all / bare product, {row['landmarks']} landmarks, {row['values']}",
            row["ratio"],
            LIMITS[row["values"]],
        )
        for row in rows
    ]
    return Record(
        rows=[*rows, *slopes],
        goals=[*goals, Goal("P4': peak GiB", peak[0], GIB), *_slope(slopes)],
        remarks=[
            "one process with one BLAS thread on either side; SYNTHETIC census rows",
            "pass: rows read, encoded, summed, written; cells: their leaves added; models: moments "
            f"of five folds whitened, {len(ITERATIONS)} strengths x {len(ALPHAS)} alphas each",
            f"bare: float64 SYRK of as many rows, timed between the leaves, every {EVERY}th",
        ],
    )


@contextmanager
def home() -> Iterator[Settings]:
    """Yield where tables and sums are kept."""
    kept = os.environ.get("FKD_BENCH_HOME")
    with tempfile.TemporaryDirectory() as folder:
        yield Settings(Path(kept or folder), None, None, None)


def scale_study(settings: Settings, n: int, landmarks: int, precision: SumPrecision) -> Study:
    """Return the study of so many rows without a champion, hence without inner folds."""
    entry = {
        "name": "krr_fkd",
        "approximation": {
            "kind": "nystroem",
            "landmarks": landmarks,
            "shared": True,
            "sums": precision,
        },
        "ridges": "per_row",
        "grid": {"iterations": [0]},
    }
    # Some of few rows must be landmarks all the same.
    reserve = max(0.2, 2 * landmarks / n)
    overrides = [
        "select=null",
        f"data.synthetic={{rows: {min(PERSONS, 2 * n + 20_000)}}}",
        f"data.sample={n}",
        f"folds.reserve={reserve}",
        f"methods={json.dumps([entry])}",
    ]
    return open_study(load_config("scale", overrides), settings)


def _measured(
    settings: Settings, n: int, landmarks: int, precision: SumPrecision
) -> dict[str, Any]:
    """Return the seconds of one pass with all that follows from it."""
    study = scale_study(settings, n, landmarks, precision)
    (sums,) = shared_sums(study.missing(again=True))
    stored = store_map(sums.shared)
    forget_sums(sums.shared)
    leaves = map_leaves(stored, precision)
    sum_leaf(leaves[0])  # opens table, map, encoder
    forget_sums(sums.shared)
    keys, passed, bare = _pass(leaves, landmarks, min(n, TASK_ROWS))
    between()
    added = timed_cells(leaves, keys)
    start = time.perf_counter()
    folds = study.inputs.splits.outer(study.loaded.table).values()
    for fold in folds:
        _models(moments_of(Sums(stored, precision), fold.train))
    models = time.perf_counter() - start
    forget_sums(sums.shared)
    whole = bare / min(n, TASK_ROWS) * n
    return {
        "rows": n,
        "landmarks": landmarks,
        "values": precision,
        "bare": whole,
        "pass": passed,
        "cells": added,
        "models": models,
        "ratio": (passed + added + models) / whole,
    }


def map_leaves(stored: StoredMap, precision: SumPrecision) -> list[Leaf]:
    """Return the blocks of rows of every cell whose sums are missing."""
    sums = Sums(stored, precision)
    return [
        leaf
        for cell, functions in missing_cells(sums).items()
        for leaf in cell_leaves(sums, functions, cell)
    ]


def timed_cells(leaves: Sequence[Leaf], keys: Sequence[str]) -> float:
    """Return the seconds of adding blocks up to their cells."""
    start = time.perf_counter()
    for cell in sorted({leaf.cell for leaf in leaves}):
        members = tuple(k for leaf, k in zip(leaves, keys, strict=True) if leaf.cell == cell)
        add_leaves(Total(leaves[0].sums, (), cell, members))
    return time.perf_counter() - start


def _pass(leaves: Sequence[Leaf], q: int, rows: int) -> tuple[list[str], float, float]:
    """Return the keys of the leaves, their seconds, the mean seconds of a bare product."""
    K = np.random.default_rng(0).random((rows, q))
    keys, passed, bare = [], 0.0, []
    for i, leaf in enumerate(leaves):
        start = time.perf_counter()
        keys.append(sum_leaf(leaf))
        passed += time.perf_counter() - start
        if i % EVERY == 0:
            between()
            start = time.perf_counter()
            blas.dsyrk(1.0, K.T, lower=1)
            bare.append(time.perf_counter() - start)
    return keys, passed, float(np.mean(bare))


def _models(moments: Moments) -> None:
    """Compute the path with the coefficients of every strength and alpha."""
    ridge = 0.1 * moments.n / 4370
    path = removal_path(moments, ridge=ridge, iterations=max(ITERATIONS))
    for alpha in ALPHAS * moments.n / 4370:
        ridge_coefficients(moments, path, alpha=alpha, strengths=ITERATIONS, fit_intercept=False)


def forget_sums(shared: SharedMap) -> None:
    """Remove the sums, so that they are computed again."""
    folder = Path(shared.inputs.settings.store) / "moments"
    for path in folder.glob("*.arrays"):
        if not path.name.endswith((".map.arrays", ".cells.arrays")):
            path.unlink()


def _slope(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """Return how the time of the pass grows with rows, as an exponent between the ends."""
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    growth = np.log(last["pass"] / first["pass"]) / np.log(last["rows"] / first["rows"])
    return [Goal(f"exponent of the rows, {first['rows']} to {last['rows']}", float(growth), 1.1)]
