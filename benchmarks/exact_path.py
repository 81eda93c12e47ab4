"""Time of the exact removal path in units of one Cholesky factorisation."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky

from benchmarks.record import Goal, Record
from benchmarks.timing import best_of
from fkd.kernels import Kernel
from fkd.linalg import ShiftedInverse, downdate, gram, psd_factor
from fkd.literal import algorithm_1
from fkd.moments import Moments
from fkd.path import block_lanczos, removal_path
from fkd.ridge import ridge_coefficients

ROWS, ITERATIONS, RIDGE = 4400, 200, 0.05


def run() -> Record:
    """Return the times of the path, of its parts, of the ways it replaces."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 100))
    S = X[:, :1] + 0.1 * rng.normal(size=(ROWS, 1))
    y = X[:, 1]
    K = Kernel("rbf", 0.05).gram(X)
    unit = best_of(5, lambda: cholesky(K, lower=True))
    seconds = {
        f"our path, m = {ITERATIONS}": best_of(3, lambda: whole_path(K, S)),
        **parts(K, S, y),
        f"refactor each step, m = {ITERATIONS}": ITERATIONS * best_of(2, lambda: refactor(K, S)),
        f"verbatim, m = {ITERATIONS}": ITERATIONS
        * best_of(1, lambda: algorithm_1(K, S, ridge=RIDGE, iterations=1)),
    }
    ours, *_, refactoring, verbatim = seconds.values()
    return Record(
        rows=[
            {"what": what, "seconds": time, "choleskys": time / unit}
            for what, time in {"one scipy cholesky": unit, **seconds}.items()
        ],
        goals=[
            Goal("P1: path / one cholesky", ours / unit, 6.0),
            Goal("P1: verbatim / path", verbatim / ours, 300.0, at_least=True),
            Goal("P1: refactoring / path", refactoring / ours, 20.0, at_least=True),
        ],
        remarks=[
            f"n = {ROWS}, RBF kernel of 100 uniform inputs, gamma .05, ridge {RIDGE}",
            "the kernel itself is excluded everywhere",
            "verbatim: one iteration timed, refactoring: the better of two, times the iterations",
        ],
    )


def whole_path(K: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return the removed directions, from the kernel matrix on."""
    G, _ = psd_factor(K)
    return block_lanczos(ShiftedInverse.of(gram(G), RIDGE), G.T @ S, iterations=ITERATIONS).U


def parts(K: np.ndarray, S: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the seconds of each part, of what follows the path too."""
    G, _ = psd_factor(K)
    moments = Moments.of(G, S, y)
    D = ShiftedInverse.of(moments.C, RIDGE)
    path = removal_path(moments, ridge=RIDGE, iterations=ITERATIONS)
    F = G @ path.U
    twice = np.r_[0 : ROWS - 200, 0:200]
    singular = K[np.ix_(twice, twice)]
    return {
        "  factor": best_of(3, lambda: psd_factor(K)),
        "  factor of a singular matrix": best_of(2, lambda: psd_factor(singular)),
        "  moments": best_of(3, lambda: gram(G)),
        "  shifted inverse": best_of(3, lambda: ShiftedInverse.of(moments.C, RIDGE)),
        "  Lanczos": best_of(3, lambda: block_lanczos(D, moments.b, iterations=ITERATIONS)),
        "fair kernel of one m": best_of(3, lambda: downdate(K, F)),
        "ridge regression for all m": best_of(2, lambda: all_ridges(moments, path)),
    }


def all_ridges(moments: Moments, path: object) -> dict[int, np.ndarray]:
    """Return the weights of every length of the path."""
    return ridge_coefficients(
        moments, path, alpha=0.25, widths=range(ITERATIONS + 1), fit_intercept=False
    )


def refactor(K: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return K after one step of the rank-one update with a fresh factorisation."""
    A = K.copy()
    A.flat[:: len(A) + 1] += RIDGE
    b = cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), S)
    u = K @ b
    return downdate(K, u / np.sqrt(b.T @ u))
