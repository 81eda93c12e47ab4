"""Time to record a trial in MLflow on sqlite, for few and many trials of one run."""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from tasks.storage.settings import Settings
from tasks.track.runs import RunDetails, Span, Tracking, TrialRun

COUNTS = tuple(int(count) for count in os.environ.get("BENCH_TRIALS", "200,5000").split(","))
_PARAMS, _METRICS = 9, 9  # as many as a trial of krr_fkd with one sensitive column has


def run() -> Record:
    """Return the milliseconds per trial, and those of a repeat that finds every trial."""
    rows = []
    for count in COUNTS:
        between()
        with TemporaryDirectory() as name:
            tracking = Tracking(Settings(Path(name)), "tracking")
            parent = tracking.parent_run("identity", "sweep", {}, RunDetails("A sweep."))
            trials = [_trial(i) for i in range(count)]
            first, again = (_milliseconds(tracking, parent, trials) for _ in range(2))
        rows.append({"trials": count, "ms per trial": first, "ms per trial, repeated": again})
    few, many = rows[0]["ms per trial"], rows[-1]["ms per trial"]
    return Record(
        rows=rows,
        goals=[
            Goal(f"ms per trial at {COUNTS[-1]}", many, 20.0),
            Goal(f"at {COUNTS[-1]} / at {COUNTS[0]} trials", many / few, 1.25),
        ],
        remarks=["one database per row of the table, created before the clock starts"],
    )


def _trial(i: int) -> TrialRun:
    """Return the run of a trial, with as many values as a real one."""
    params = {f"parameter_{j}": f"{i + j}" for j in range(_PARAMS)}
    metrics = {f"metric_{j}": i + j / 8 for j in range(_METRICS)}
    details = RunDetails("One trial.", params, metrics, span=Span(1_700_000_000_000 + i, 2.0))
    return TrialRun(f"key-{i}", f"{i} krr_fkd", {"fkd.data": "0" * 64}, details)


def _milliseconds(tracking: Tracking, parent: str, trials: list[TrialRun]) -> float:
    """Return the milliseconds per trial of recording trials under a parent run."""
    start = time.perf_counter()
    tracking.log_trials(parent, trials)
    return 1000 * (time.perf_counter() - start) / len(trials)
