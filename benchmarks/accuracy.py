"""Error of the fair kernel against arithmetic with hundreds of digits."""

import numpy as np

from benchmarks.record import Goal, Record
from fkd.core.kernels import Kernel
from fkd.core.linalg import downdate, psd_factor
from fkd.core.moments import Moments
from fkd.core.removal import removal_path
from fkd.paper.algorithm1 import algorithm_1, removed_columns

ROWS, LENGTHS, RIDGES, BITS = 250, (10, 50, 100, 150, 200), (0.01, 0.05, 0.1, 1.0), 400


def run() -> Record:
    """Return errors by ridge, by length of the path, of ours with the printed recursion beside."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 8))
    S = X[:, :1] + 0.3 * rng.normal(size=(ROWS, 1)) + 1.0
    K = Kernel("rbf", 0.05).gram(X)
    rows = [row for ridge in RIDGES for row in errors(K, S, ridge)]
    return Record(
        timed=False,
        rows=rows,
        goals=[
            Goal("P2: relative error of K_m", max(row["error"] for row in rows), 1e-8),
            Goal(
                "P2: smallest eigenvalue / (trace / n)",
                min(row["smallest eigenvalue"] for row in rows),
                -1e-10,
                at_least=True,
            ),
        ],
        remarks=[
            f"n = {ROWS}, RBF kernel, condition number {np.linalg.cond(K):.1e}",
            f"reference: the Krylov vectors in fixed-point arithmetic with {BITS} bits",
            "errors are relative to the Frobenius norm of K_m, eigenvalues to trace(K) / n",
        ],
    )


def errors(K: np.ndarray, S: np.ndarray, ridge: float) -> list[dict[str, float]]:
    """Return one row per length of the path."""
    exact = removed_columns(K, S, ridge=ridge, iterations=max(LENGTHS), bits=BITS)
    G, _ = psd_factor(K)
    moments = Moments.from_rows(G, S, np.zeros(len(K)))
    path = removal_path(moments, ridge=ridge, iterations=max(LENGTHS))
    rows = []
    for m in LENGTHS:
        K_m = downdate(K, exact[:, :m])
        ours = downdate(K, G @ path.at(m).V)
        verbatim, _ = algorithm_1(K, S, ridge=ridge, iterations=m)
        scale = np.linalg.norm(K_m)
        rows.append(
            {
                "ridge": ridge,
                "m": m,
                "error": float(np.linalg.norm(ours - K_m) / scale),
                "smallest eigenvalue": float(np.linalg.eigvalsh(ours)[0] * len(K) / np.trace(K)),
                "error, verbatim": float(np.linalg.norm(verbatim - K_m) / scale),
            }
        )
    return rows
