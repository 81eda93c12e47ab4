"""Peak memory of the exact path at twenty thousand rows."""

import resource
import subprocess
import sys
import time

from benchmarks.record import Goal, Record

ROWS, ITERATIONS = 20_000, 200


def run() -> Record:
    """Return the peak of a process of its own that fits kernel ridge regression at m = 200."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(ROWS)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    effective, peak = done.stdout.split()
    gib = int(peak) / 2**20
    matrix = 8 * ROWS**2 / 2**30
    return Record(
        timed=False,
        rows=[
            {
                "rows": ROWS,
                "effective iterations": int(effective),
                "peak GiB": gib,
                "one n x n matrix, GiB": matrix,
                "seconds": seconds,
            }
        ],
        goals=[Goal("P3: peak GiB", gib, 16.0)],
        remarks=["FairKernelRidge, exact map, kernel included, prediction of 1000 rows included"],
    )


def fit(n: int) -> tuple[int, int]:
    """Return the effective path length with the peak resident memory of this process in KiB."""
    import numpy as np

    from fkd import FairKernelRidge

    rng = np.random.default_rng(0)
    X = rng.random((n, 50))
    model = FairKernelRidge(gamma=0.05, alpha=0.25, iterations=ITERATIONS)
    model.fit(X, X[:, 1], sensitive_features=X[:, 0] + 0.1 * rng.normal(size=n))
    if not np.isfinite(model.predict(X[:1000])).all():
        raise ValueError("predictions must be finite")
    return model.effective_iterations_, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(*fit(int(sys.argv[1])))
