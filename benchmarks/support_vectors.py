"""Forty support vector regressions at a time on a million rows, against one by LIBLINEAR.

`FKD_BENCH_ROWS=50000` takes fewer, `FKD_BENCH_HOME` a folder that keeps the table for next time.
"""

import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.svm import LinearSVR

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from benchmarks.streaming import MOST, home, scale_study
from fkd.core.arrays import Array
from fkd.core.machines import Machine, RowBlock, Solution, Source, solve_machines
from fkd.core.machines.batched_solver import GAP
from fkd.core.moments import Moments
from fkd.core.removal_path import removal_path
from tasks.adapters.blas import blas_threads
from tasks.adapters.settings import Settings
from tasks.blocks.shared_map import StoredMap, store_map
from tasks.blocks.shared_training import shared_sums
from tasks.blocks.spilled_features import feature_source
from tasks.blocks.streaming import moments_of

RANK = 300
SIZES = (100_000, 400_000)  # rows of which some are tested on, as at the full size
STRENGTHS = tuple(range(0, 100, 5))
PENALTIES = (0.1, 0.5)
EPSILON = 0.005
# LIBLINEAR copies a dense value to an index and a number of 16 bytes, beside the 8 it came as.
LINEAR_BYTES = 24
LINEAR_ITERATIONS = (10, 30, 100, 300, 1000)
LINEAR_GIB = float(os.environ.get("FKD_BENCH_LINEAR_GIB", "8"))
# Once a fit took so long, more iterations are not tried: they could only take longer.
LINEAR_SECONDS = 60.0
GIB = 8.0


def run() -> Record:
    """Return seconds a model, gaps, memory of both solvers on 300 features."""
    return compared(RANK, SIZES)


def compared(r: int, sizes: Sequence[int]) -> Record:
    """Return the same on r features, with times of these smaller numbers of rows."""
    with home() as settings, blas_threads(1):
        with peak_memory() as peak:
            rows = [_batched(settings, n, r) for n in (*(n for n in sizes if n < MOST), MOST)]
        beside = _linear(settings, r)
    goals = [Goal("P5: rows of each machine", rows[-1]["rows"], 1e6, at_least=True)]
    goals += [Goal("P5: worst relative gap", max(row["gap"] for row in rows), GAP)]
    goals += [Goal("P5: peak GiB", peak[0], GIB)]
    goals += [Goal("P5: LinearSVR / batched a model", beside["ratio"], 3.0, at_least=True)]
    return Record(
        rows=[*rows, beside],
        goals=[*goals, *_slope(rows)],
        remarks=[
            "one process with one BLAS thread on either side; SYNTHETIC census rows",
            f"SVR-FKD, {len(STRENGTHS)} strengths x C in {PENALTIES}, epsilon {EPSILON}, on the "
            "training rows of one fold of five",
            "features: made and written to disk in single precision, once for all machines, their "
            "moments with them; solving: from them, certificates included",
            f"LinearSVR: nothing removed, the larger C, on as many rows as fit {LINEAR_GIB:g} GiB; "
            f"the first of {LINEAR_ITERATIONS} iterations after which its objective is within "
            f"1e-3 of the batched machine's certified bound, or that took {LINEAR_SECONDS:g} s",
        ],
    )


def _batched(settings: Settings, n: int, r: int) -> dict[str, Any]:
    """Return the seconds of all machines on the training rows of a fold."""
    stored, train = _rows(settings, n, r)
    between()
    start = time.perf_counter()
    source, moments = feature_source(stored, train), moments_of(stored, "float64", train)
    made = time.perf_counter() - start
    found, seconds = _solved(source, moments)
    return {
        "solver": "batched",
        "rows": len(train),
        "r": r,
        "models": len(found),
        "features": made,
        "seconds a model": seconds / len(found),
        "iterations": max(one.iterations for one in found),
        "gap": max(one.gap for one in found),
        "ratio": float("nan"),
    }


def _solved(source: Source, moments: Moments) -> tuple[list[Solution], float]:
    """Return all machines with the seconds that they took, path and factors included."""
    between()
    start = time.perf_counter()
    path = removal_path(moments, ridge=0.05 * moments.n / 4370, iterations=max(STRENGTHS))
    machines = [Machine(C, path.at(m), EPSILON) for C in PENALTIES for m in STRENGTHS]
    found = solve_machines(source, [moments], machines)
    return found, time.perf_counter() - start


def _linear(settings: Settings, r: int) -> dict[str, Any]:
    """Return the seconds of LinearSVR on as many rows as it has memory for, and ours on them."""
    stored, train = _rows(settings, MOST, r)
    n = min(len(train), int(LINEAR_GIB * 2**30 / (LINEAR_BYTES * r)))
    blocks = feature_source(stored, train)()
    G, y = _first(blocks, n, r)
    moments = Moments.of(G, np.zeros((n, 1)), y)
    found, batched = _solved(lambda: [RowBlock(G, y)], moments)
    best = found[len(STRENGTHS)]  # nothing removed, the larger C
    for most in LINEAR_ITERATIONS:
        linear, seconds, objective = _by_liblinear(G, y, most)
        gap = (objective - best.dual) / objective
        if gap <= GAP or seconds > LINEAR_SECONDS:
            break
    return {
        "solver": "LinearSVR",
        "rows": n,
        "r": r,
        "models": 1,
        "features": float("nan"),
        "seconds a model": seconds,
        "iterations": int(linear.n_iter_),
        "gap": gap,
        "ratio": seconds / (batched / len(found)),
    }


def _by_liblinear(G: Array, y: Array, most: int) -> tuple[LinearSVR, float, float]:
    """Return LIBLINEAR's machine after so many iterations, its seconds, its objective."""
    C = PENALTIES[-1]
    between()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stopped early is seen in its gap
        linear = LinearSVR(C=C, epsilon=EPSILON, max_iter=most, random_state=0).fit(G, y)
    seconds = time.perf_counter() - start
    error = np.maximum(np.abs(linear.predict(G) - y) - EPSILON, 0.0)
    objective = float(linear.coef_ @ linear.coef_) / 2 + C * float(error.sum(axis=0))
    return linear, seconds, objective


def _rows(settings: Settings, n: int, r: int) -> tuple[StoredMap, Any]:
    """Return the map of so many rows with the training rows of a fold."""
    study = scale_study(settings, n, r, "float64")
    (sums,) = shared_sums(study.missing(again=True))
    folds = study.inputs.splits.outer(study.loaded.table)
    return store_map(sums.shared), folds["0"].train


def _first(blocks: Any, n: int, r: int) -> tuple[Array, Array]:
    """Return the first n rows as LIBLINEAR takes them."""
    G, y, start = np.empty((n, r)), np.empty(n), 0
    for block in blocks:
        count = min(len(block.y), n - start)
        G[start : start + count], y[start : start + count] = block.G[:count], block.y[:count]
        start += count
        if start == n:
            break
    return G, y


def _slope(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """Return how the time of a model grows with rows, as an exponent between the ends."""
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    growth = np.log(last["seconds a model"] / first["seconds a model"])
    growth /= np.log(last["rows"] / first["rows"])
    name = f"P5: exponent of the rows, {first['rows']} to {last['rows']}"
    return [Goal(name, float(growth), 1.1)]
