"""Cost of TLS between the processes of a local cluster: its start, small jobs, large arrays."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from configs.run import ClusterConfig
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.servers.servers import set_variables
from tasks.storage.settings import Settings

REPEATS, JOBS, ROWS = 3, 400, 12_500_000  # an array of 100 MB
_OFF = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "False"}
SETTINGS: dict[str, dict[str, str]] = {"plain": _OFF, "TLS": {}}


def run() -> Record:
    """Return seconds of a start, jobs per second, seconds of a transfer, with and without TLS."""
    # Taken in turns, so that a busy minute of the machine hits both.
    turns: list[dict[str, dict[str, float]]] = []
    for _ in range(REPEATS):
        between()
        turns.append({name: _measure(told) for name, told in SETTINGS.items()})
    best = {
        name: {what: min(turn[name][what] for turn in turns) for what in turns[0][name]}
        for name in SETTINGS
    }
    plain, encrypted = best["plain"], best["TLS"]
    return Record(
        [
            {
                "what": name,
                "start, s": times["start"],
                "jobs per second": JOBS / times["jobs"],
                "100 MB from worker to worker, s": times["across"],
                "100 MB to the driver, s": times["back"],
            }
            for name, times in best.items()
        ],
        goals=[Goal("TLS - plain, seconds of a start", encrypted["start"] - plain["start"], 1.0)],
        remarks=[f"two workers on loopback, {JOBS} empty jobs; the best of {REPEATS}"],
    )


def _measure(told: dict[str, str]) -> dict[str, float]:
    """Return the seconds of each step on a cluster of its own."""
    with TemporaryDirectory() as home, set_variables(told):
        times = {"begin": time.perf_counter()}
        with connect(ClusterConfig(workers=2), Settings(Path(home))) as client:
            times["start"] = time.perf_counter()
            failed = run_jobs(client, _nothing, range(JOBS), retries=0, time_limit=600.0)
            times["jobs"] = time.perf_counter()
            here, there = client.scheduler_info()["workers"]
            future = client.submit(_array, workers=[here])
            client.submit(len, future, workers=[here]).result()
            times["made"] = time.perf_counter()
            # Of its own key: the same job again would be answered from the first one's result.
            client.submit(len, future, workers=[there], pure=False).result()
            times["across"] = time.perf_counter()
            future.result()
            times["back"] = time.perf_counter()
    if failed:
        raise RuntimeError(failed[0].cause)
    moments = list(times.values())
    return dict(zip(list(times)[1:], np.diff(moments).tolist(), strict=True))


def _nothing(job: Any) -> None:
    """Take a job, do nothing."""


def _array() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return an array of 100 MB that no compression makes smaller."""
    return np.random.default_rng(0).random(ROWS)
