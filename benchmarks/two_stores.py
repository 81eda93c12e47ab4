"""The same sweep as a whole run with its state in a folder and on an S3 server.

`BENCH_MINUTES=0.5` takes less maths, for a first look.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from benchmarks.store import BUCKET, s3_server
from benchmarks.sweep import WORKERS, sweep_config, sweep_times
from tasks.servers.servers import set_variables

# Of a run by the clock; its jobs together have as many times more as there are workers.
MINUTES = float(os.environ.get("BENCH_MINUTES", "11"))
_LEAST = 10.0  # minutes of maths of all jobs, below which a ratio says little
# A machine that gets slower or faster meanwhile does so for both alike.
ORDER = ("folder", "S3", "S3", "folder")


def run() -> Record:
    """Return the seconds of both kinds of runs, stage by stage, with their ratio."""
    taken: dict[str, list[dict[str, float]]] = {what: [] for what in ORDER}
    with (
        TemporaryDirectory() as name,
        s3_server(Path(name) / "objects") as reached,
        set_variables(reached),
    ):
        for i, what in enumerate(ORDER):
            home = Path(name) / f"{i}"
            store = str(home / "store") if what == "folder" else f"s3://{BUCKET}/sweep{i}"
            taken[what].append(_taken(store, home))
    return told(taken)


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of several runs, stage by stage."""
    return {stage: sum(run[stage] for run in runs) / len(runs) for stage in runs[0]}


def told(runs: dict[str, list[dict[str, float]]]) -> Record:
    """Return the stages of both kinds of runs side by side, with the goals that they decide."""
    taken = {what: _mean(found) for what, found in runs.items()}
    ratio = taken["S3"]["cold"] / taken["folder"]["cold"]
    maths = min(_jobs(stages) for stages in taken.values()) / 60
    return Record(
        rows=[
            {"stage": stage, **{f"{what}, s": stages[stage] for what, stages in taken.items()}}
            for stage in taken["folder"]
        ],
        goals=[
            Goal("S3 / folder, whole runs without start-up", ratio, 1.10),
            Goal("minutes of maths of all jobs", maths, _LEAST, at_least=True),
        ],
        remarks=[
            f"{sweep_config(MINUTES).name} on {WORKERS} workers by the flow, one run after the "
            f"other ({', '.join(ORDER)}), the mean of each kind; stages, cold, cached, maths as in "
            "`sweep`",
            "cold, each: "
            + "; ".join(
                f"{what} {', '.join(format(run['cold'], '.1f') for run in found)}"
                for what, found in runs.items()
            ),
            "S3: rclone on loopback; start-up (servers, databases, workers) stands apart",
            "BENCH_MINUTES=0.5 python -m benchmarks two_stores is a first look",
        ],
    )


def _jobs(stages: dict[str, float]) -> float:
    """Return the seconds of all jobs together."""
    return WORKERS * (stages["maths"] - stages["select"])


def _taken(store: str, home: Path) -> dict[str, float]:
    """Return the seconds of a run with its state there, in a process of its own.

    Prefect reads where its server is once per process.
    """
    between()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_run_there, store, home, MINUTES).result()


def _run_there(store: str, home: Path, minutes: float) -> dict[str, float]:
    """Run the sweep with its state in a store."""
    os.environ["FKD_STORE"] = store
    return sweep_times(home, minutes)
