"""Time with memory of the literal Nystroem inverse on a chunked kernel of thirty thousand rows."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from configs.load import load_config
from configs.schema import ClusterConfig
from tasks.adapters.cluster import connect
from tasks.adapters.jobs import run_jobs
from tasks.adapters.settings import Settings
from tasks.blocks.kernel_blocks import KernelSource, kernel_rows, literal_path
from tasks.study.opening import open_study

ITERATIONS, RIDGE, GAMMA = 10, 0.05, 0.05
LANDMARKS = 1500  # 5 % of the rows
# Of the synthetic census: more than half are working adults, four fifths of these train.
PERSONS = 69_000
MEMORY_GIB = 24.0


def run() -> Record:
    """Return seconds and peak memory of m = 10 iterations on two workers."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder), None, None, None)
        overrides = ["data.source=synthetic", f"data.twin={{rows: {PERSONS}}}"]
        inputs = open_study(load_config("acs_income", overrides), settings).inputs
        source = KernelSource(inputs, "0", GAMMA, LANDMARKS)
        data, _ = kernel_rows(source)
        n, d = data.X.shape
        with connect(ClusterConfig(workers=2), settings) as client, peak_memory() as peak:
            between()
            start = time.perf_counter()
            path = literal_path(_runner(client), source, ridge=RIDGE, iterations=ITERATIONS)
            seconds = time.perf_counter() - start
    return Record(
        rows=[
            {
                "rows": n,
                "inputs": d,
                "landmarks": LANDMARKS,
                "removed": path.A.shape[1],
                "seconds": seconds,
                "peak GiB": peak[0],
                "one n x n matrix, GiB": 8 * n**2 / 2**30,
            }
        ],
        goals=[
            Goal("rows", n, 30_000, at_least=True),
            Goal("iterations", path.A.shape[1], ITERATIONS, at_least=True),
            Goal("peak GiB of all processes", peak[0], MEMORY_GIB),
        ],
        remarks=[
            "two worker processes, one BLAS thread each; blocks recomputed, nothing on disk",
            "SYNTHETIC census rows; memory that processes share is counted in each",
        ],
    )


def _runner(client: Any) -> Callable[..., Sequence[Any]]:
    """Return how jobs are computed on this cluster."""

    def compute(function: Any, jobs: Sequence[Any], keep: Any) -> Sequence[Any]:
        return run_jobs(client, function, jobs, retries=3, time_limit=600.0, keep=keep)

    return compute


if __name__ == "__main__":
    from benchmarks.record import table

    found = run()
    print(table(found.rows))
