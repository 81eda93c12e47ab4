"""Forty support vector regressions at a time on a million rows, against one by LIBLINEAR.

`FKD_BENCH_ROWS=50000` takes fewer, `FKD_BENCH_HOME` a folder that keeps the table for next time.
"""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVR

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from benchmarks.streaming import MOST, home, scale_study
from fkd.core.arrays import Array, RowBlock, Source
from fkd.core.moments import Moments
from fkd.core.removal import removal_path
from fkd.core.svm import GAP, Machine, Solution, solve_machines
from fkd.methods.kernel_methods import REFERENCE_ROWS
from tasks.kernels.shared_map import StoredMap, store_map
from tasks.kernels.shared_training import feature_source, shared_sums
from tasks.kernels.streaming import Sums, moments_of
from tasks.storage.environment import blas_threads
from tasks.storage.settings import Settings

RANK = 300
SIZES = (100_000, 400_000)  # rows of which some are tested on, as at the full size
STRENGTHS = tuple(range(0, 100, 5))
PENALTIES = (0.1, 0.5)
EPSILON = 0.005
# Whether C weighs every row alike, however many there are, or falls as their number grows; the
# former regularises the less the more there are, so that its machines take more passes.
RULES = ("fixed", "per_row")
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
            wanted = (*(n for n in sizes if n < MOST), MOST)
            ours = [_batched(*_rows(settings, n, r), rule) for n in wanted for rule in RULES]
        rows = [batch.row() for batch in ours]
        beside = _linear(*_rows(settings, MOST, r), ours[-len(RULES)])
    goals = [Goal("P5: rows of each machine", rows[-1]["rows"], 1e6, at_least=True)]
    goals += [Goal("P5: worst relative gap", max(row["gap"] for row in rows), GAP)]
    goals += [Goal("P5: peak GiB", peak[0], GIB)]
    goals += [Goal("P5: LinearSVR / batched a model", beside["ratio"], 3.0, at_least=True)]
    return Record(
        rows=[*rows, beside],
        goals=[*goals, *_slopes(rows)],
        remarks=[
            "one process with one BLAS thread on either side; SYNTHETIC census rows",
            f"SVR-FKD, {len(STRENGTHS)} strengths x C in {PENALTIES}, epsilon {EPSILON}, on the "
            f"training rows of one fold of five; C per_row is what is written on {REFERENCE_ROWS} "
            "training rows, less on more",
            "features: made and written to disk in single precision, once for all machines, their "
            "moments with them; solving: from them, certificates included",
            f"LinearSVR: nothing removed, the larger C, on as many rows as fit {LINEAR_GIB:g} GiB; "
            f"the first of {LINEAR_ITERATIONS} iterations after which its objective is within "
            f"1e-3 of the batched machine's certified bound, or that took {LINEAR_SECONDS:g} s",
        ],
    )


@dataclass(frozen=True)
class Batch:
    """All machines on some rows with the seconds that they took."""

    n: int
    rule: str  # of C
    found: list[Solution]
    seconds: float  # path and factors included
    features: float = float("nan")  # seconds of making them

    def row(self) -> dict[str, Any]:
        """Return what is told of it."""
        return {
            "solver": "batched",
            "rows": self.n,
            "r": len(self.found[0].w),
            "models": len(self.found),
            "C": self.rule,
            "features": self.features,
            "seconds a model": self.seconds / len(self.found),
            "iterations": max(one.iterations for one in self.found),
            "gap": max(one.gap for one in self.found),
            "ratio": float("nan"),
        }


def _batched(stored: StoredMap, train: NDArray[np.int64], rule: str) -> Batch:
    """Return the machines on these training rows."""
    between()
    start = time.perf_counter()
    source, moments = feature_source(stored, train), moments_of(Sums(stored, "float64"), train)
    made = time.perf_counter() - start
    return replace(_solved(source, moments, moments, rule), features=made)


def _solved(source: Source, moments: Moments, removal: Moments, rule: str = "fixed") -> Batch:
    """Return all machines on some rows, of what the path of the same or more rows removes."""
    between()
    start = time.perf_counter()
    grown = removal.n / REFERENCE_ROWS
    path = removal_path(removal, ridge=0.05 * grown, iterations=max(STRENGTHS))
    unit = 1.0 if rule == "fixed" else 1 / grown
    machines = [Machine(C * unit, path.at(m), EPSILON) for C in PENALTIES for m in STRENGTHS]
    found = solve_machines(source, moments, machines)
    return Batch(round(moments.n), rule, found, time.perf_counter() - start)


def _linear(stored: StoredMap, train: NDArray[np.int64], full: Batch) -> dict[str, Any]:
    """Return the seconds of LinearSVR on as many rows as it has memory for, ours on them."""
    r = len(full.found[0].w)
    n = min(len(train), int(LINEAR_GIB * 2**30 / (LINEAR_BYTES * r)))
    source = partial(_first, feature_source(stored, train), n)
    G, y = _dense(source, n, r)
    ours = full
    if n < full.n:
        moments = Moments.from_rows(G, np.zeros((n, 1)), y)
        ours = _solved(source, moments, moments_of(Sums(stored, "float64"), train))
    best = ours.found[len(STRENGTHS)]  # nothing removed, the larger C
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
        "C": "fixed",
        "features": float("nan"),
        "seconds a model": seconds,
        "iterations": int(linear.n_iter_),
        "gap": gap,
        "ratio": seconds / (ours.seconds / len(ours.found)),
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


def _rows(settings: Settings, n: int, r: int) -> tuple[StoredMap, NDArray[np.int64]]:
    """Return the map of so many rows with the training rows of a fold."""
    study = scale_study(settings, n, r, "float64")
    (sums,) = shared_sums(study.missing(again=True))
    folds = study.inputs.splits.outer(study.loaded.table)
    return store_map(sums.shared), folds["0"].train


def _first(source: Source, n: int) -> Iterator[RowBlock]:
    """Yield the first n rows."""
    left = n
    for block in source():
        yield RowBlock(block.G[:left], block.y[:left])
        left -= min(left, len(block.y))
        if not left:
            break


def _dense(source: Source, n: int, r: int) -> tuple[Array, Array]:
    """Return n rows as LIBLINEAR takes them."""
    G, y, start = np.empty((n, r)), np.empty(n), 0
    for block in source():
        stop = start + len(block.y)
        G[start:stop], y[start:stop], start = block.G, block.y, stop
    return G, y


def _slopes(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """Return how the time of a model grows with rows, as an exponent between the ends."""
    goals = []
    for rule in RULES:
        first, *_, last = [row for row in rows if row["C"] == rule] * 2
        if first["rows"] == last["rows"]:
            continue
        growth = np.log(last["seconds a model"] / first["seconds a model"])
        growth /= np.log(last["rows"] / first["rows"])
        name = f"P5: exponent of the rows, C {rule}, {first['rows']} to {last['rows']}"
        goals.append(Goal(name, float(growth), 1.1))
    return goals
