"""Time with memory of the literal Nystroem inverse on a chunked kernel of thirty thousand rows."""

import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from configs.load import load_config
from configs.schema import ClusterConfig
from fkd.catalog.methods import method
from tasks.adapters.cluster import connect
from tasks.adapters.graphs import compute_array
from tasks.adapters.settings import Settings
from tasks.blocks.row_arrays import SplitRows, cluster_passes
from tasks.planned.rows import cached_table
from tasks.planned.training import make_training
from tasks.study.opening import open_study

MEMORY_GIB = 24.0
ROWS, ITERATIONS = 30_000, 10


def run() -> Record:
    """Return seconds and peak memory of the fits of `configs/chunked.yaml` on two workers."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder), None, None, None)
        config = load_config("chunked")
        inputs = open_study(config, settings).inputs
        table = cached_table(settings, inputs.table_digest)
        training, _ = make_training(table, inputs.splits.all(table)["0"], inputs)
        declared = method("krr_fkd_nystroem")
        wanted = config.methods[1].settings(config.data.problem)
        passes: list[Any] = []
        told: list[str] = []
        with connect(ClusterConfig(workers=2), settings) as client, peak_memory() as peak:
            compute = partial(_counted, client, passes)
            rows = SplitRows(inputs, "0")
            on_cluster = replace(
                training, passes=cluster_passes(client, rows, compute, told.append)
            )
            between()
            start = time.perf_counter()
            found = list(declared.fit(on_cluster, wanted))
            seconds = time.perf_counter() - start
    n, d = training.X.shape
    longest = max(p.iterations for p in wanted)
    return Record(
        rows=[
            {
                "rows": n,
                "inputs": d,
                "settings": len(found),
                "iterations": longest,
                "passes": len(passes),
                "seconds": seconds,
                "peak GiB": peak[0],
                "one n x n matrix, GiB": 8 * n**2 / 2**30,
            }
        ],
        goals=[
            Goal("rows", n, ROWS, at_least=True),
            Goal("iterations", longest, ITERATIONS, at_least=True),
            Goal("peak GiB of all processes", peak[0], MEMORY_GIB),
        ],
        remarks=[
            *told,
            "two worker processes, one BLAS thread each; without prediction and measures",
            "SYNTHETIC census rows; memory that processes share is counted in each",
        ],
    )


def _counted(client: Any, passes: list[Any], array: Any) -> Any:
    """Return the values of an array, noting that there was one more."""
    passes.append(array.shape)
    return compute_array(client, array, retries=3, time_limit=3600.0)


if __name__ == "__main__":
    from benchmarks.record import table as as_text

    result = run()
    print(as_text(result.rows))
