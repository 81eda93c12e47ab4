"""Time of forty penalties of the shrunk kernel in units of one kernel factorisation."""

import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each
from fkd.core.arrays import Array
from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.moments import basis_moments, training_moments
from fkd.core.removal import RemovalPath, ridge_mu, shrinkage
from fkd.core.ridge import ridge_coefficients
from fkd.core.sensitive_basis import BasisSettings, centred

ROWS, PENALTIES, ALPHA, REPEATS = 4400, 40, 0.25, 3
ONE, ALL = "one plain ridge", f"{PENALTIES} penalties, a ridge each"


def run() -> Record:
    """Return the times of all penalties beside that of one plain machine."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 100))
    s = X[:, :1] + 0.1 * rng.normal(size=(ROWS, 1))
    y = X[:, 1] + X[:, 0]
    with threadpool_limits(1):
        calls = {ONE: partial(plain, X, s, y), ALL: partial(shrunk, X, s, y)}
        seconds = best_of_each(REPEATS, calls, clock=time.process_time)
    return Record(
        rows=[{"what": what, "seconds": t} for what, t in seconds.items()],
        goals=[Goal("forty penalties / one plain machine", seconds[ALL] / seconds[ONE], 1.5)],
        remarks=[
            f"n = {ROWS}, RBF kernel of 100 uniform inputs, gamma .05, alpha {ALPHA}, basis rbf",
            "CPU seconds with one BLAS thread, as a worker has; kernel and factor included",
        ],
    )


def plain(X: Array, s: Array, y: Array) -> None:
    """Fit plain kernel ridge regression."""
    feature_map = ExactMap.from_rows(Kernel("rbf", 0.05), X)
    moments = training_moments(feature_map, X, s, y)
    nothing = RemovalPath.nothing(feature_map.rank)
    ridge_coefficients(moments, nothing, alpha=ALPHA, strengths=[0], fit_intercept=True)


def shrunk(X: Array, s: Array, y: Array) -> None:
    """Fit kernel ridge regression at every penalty."""
    feature_map = ExactMap.from_rows(Kernel("rbf", 0.05), X)
    moments = training_moments(feature_map, X, s, y)
    basis = centred(BasisSettings().fit(s), s)
    found = shrinkage(basis_moments(feature_map, X, basis(s)))
    mus = [ridge_mu(p, n=len(X), alpha=ALPHA) for p in np.geomspace(0.1, 1000, num=PENALTIES)]
    ridge_coefficients(moments, found, alpha=ALPHA, strengths=mus, fit_intercept=True)
