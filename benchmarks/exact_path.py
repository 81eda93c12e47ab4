"""Time of the exact removal path in units of one Cholesky factorisation."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from threadpoolctl import threadpool_limits

from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each
from fkd.core.arrays import Array
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse, downdate, gram, psd_factor
from fkd.core.moments import Moments
from fkd.core.removal import RemovalPath, block_lanczos, removal_path
from fkd.core.ridge import ridge_coefficients
from fkd.paper.algorithm1 import algorithm_1

ROWS, ITERATIONS, RIDGE, REPEATS = 4400, 200, 0.05, 5
UNIT, PATH = "one scipy cholesky", f"our path, m = {ITERATIONS}"
REFACTOR, VERBATIM = "refactoring, one step", "verbatim, one step"


def run() -> Record:
    """Return the times of the path, of its parts, of the ways it replaces."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 100))
    S = X[:, :1] + 0.1 * rng.normal(size=(ROWS, 1))
    K = Kernel("rbf", 0.05).gram(X)
    with threadpool_limits(1):
        seconds = best_of_each(REPEATS, rivals(K, S), clock=time.process_time)
        seconds |= best_of_each(1, {VERBATIM: partial(verbatim, K, S)}, clock=time.process_time)
        seconds |= best_of_each(REPEATS, parts(K, S, X[:, 1]), clock=time.process_time)
    wall = best_of_each(REPEATS, {f"{w}, all threads": c for w, c in rivals(K, S).items()})
    unit, path = seconds[UNIT], seconds[PATH]
    rows = [{"what": w, "seconds": t, "choleskys": t / unit} for w, t in seconds.items()]
    unit_wall = next(iter(wall.values()))
    rows += [{"what": w, "seconds": t, "choleskys": t / unit_wall} for w, t in wall.items()]
    return Record(
        rows=rows,
        goals=[
            Goal("P1: path / one cholesky", path / unit, 6.0),
            Goal(
                "P1: verbatim / path", ITERATIONS * seconds[VERBATIM] / path, 300.0, at_least=True
            ),
            Goal(
                "P1: refactoring / path", ITERATIONS * seconds[REFACTOR] / path, 20.0, at_least=True
            ),
        ],
        remarks=[
            f"n = {ROWS}, RBF kernel of 100 uniform inputs, gamma .05, ridge {RIDGE}",
            "CPU seconds with one BLAS thread, as a worker of a run has; goals are ratios of these",
            "rows that end in 'all threads' are wall times, to be believed on an idle machine only",
            f"verbatim, refactoring: one step timed, times {ITERATIONS} in the goals",
        ],
    )


def rivals(K: Array, S: Array) -> dict[str, Callable[[], object]]:
    """Return what is compared in turns."""
    return {
        UNIT: partial(cholesky, K, lower=True),
        PATH: partial(whole_path, K, S),
        REFACTOR: partial(refactor, K, S),
    }


def parts(K: Array, S: Array, y: Array) -> dict[str, Callable[[], object]]:
    """Return the parts of the path with what follows it."""
    G, _ = psd_factor(K)
    moments = Moments.from_rows(G, S, y)
    D = ShiftedInverse.from_matrix(moments.C, RIDGE)
    path = removal_path(moments, ridge=RIDGE, iterations=ITERATIONS)
    twice = np.r_[0 : ROWS - 200, 0:200]
    all_m = range(ITERATIONS + 1)
    return {
        "  factor of K": partial(psd_factor, K),
        "  factor of a singular K": partial(psd_factor, K[np.ix_(twice, twice)]),
        "  moments": partial(gram, G),
        "  factor of C + ridge": partial(ShiftedInverse.from_matrix, moments.C, RIDGE),
        "  Lanczos": partial(lanczos, D, moments.b),
        "fair kernel of one m": partial(downdate, K, G @ path.U),
        "ridge regression for all m": partial(
            ridge_coefficients, moments, path, alpha=0.25, strengths=all_m, fit_intercept=False
        ),
    }


def whole_path(K: Array, S: Array) -> Array:
    """Return the removed directions, from the kernel matrix on."""
    G, _ = psd_factor(K)
    return lanczos(ShiftedInverse.from_matrix(gram(G), RIDGE), G.T @ S).U


def lanczos(D: ShiftedInverse, b: Array) -> RemovalPath:
    """Return the path, as `removal_path` takes it where the ridge is light."""
    return block_lanczos(D @ b, D.__matmul__, iterations=ITERATIONS)


def verbatim(K: Array, S: Array) -> Array:
    """Return K after one step of the printed algorithm."""
    return algorithm_1(K, S, ridge=RIDGE, iterations=1)[0]


def refactor(K: Array, S: Array) -> Array:
    """Return K after one step of the rank-one update with a fresh factorisation."""
    A = K.copy()
    A.flat[:: len(A) + 1] += RIDGE
    b = cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), S)
    u = K @ b
    return downdate(K, u / np.sqrt(b.T @ u))
