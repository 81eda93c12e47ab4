"""What one more value in a finished grid costs, against a run with that value alone."""

import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from configs.load import load_config
from configs.run import RunConfig
from tasks.fit.job import run_job
from tasks.select.study import open_study
from tasks.storage.settings import Settings, quiet_ecosystem
from tasks.track.recording import record_trials
from tasks.track.runs import Tracking

GRIDS: dict[str, dict[str, list[float]]] = {
    "krr_fkd": {"iterations": [0, 5, 10, 20, 30, 40], "alpha": [0.1, 0.25, 0.5]},
    "svr_fkd": {"iterations": [0, 5, 10, 20], "C": [0.5, 1.0]},
}
# Method, parameter, the new value: inside the grid, as a refinement lies.
ADDED = (("krr_fkd", "iterations", 15), ("krr_fkd", "alpha", 0.35), ("svr_fkd", "C", 0.75))
ROUNDS = 3


def run() -> Record:
    """Return the seconds of each new value in a finished sweep, then alone."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    quiet_ecosystem()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty"
        Tracking(Settings(empty, None, None, None), "crimes")
        rows = [compare(*added, empty) for added in ADDED]
    return Record(
        rows=rows,
        goals=[Goal(f"P8: {row['what']}", row["ratio"], 1.2) for row in rows],
        remarks=[
            "added: the enlarged grid where all but that value is stored, recorded",
            "alone: the grid with that value only, nothing stored",
            "planning, fits of Crimes on five outer, four inner folds, MLflow on sqlite",
            f"the best of {ROUNDS} turns in this process's own seconds; servers, workers apart",
        ],
    )


def compare(method: str, parameter: str, value: float, empty: Path) -> dict[str, str | float]:
    """Return the best seconds of both ways, taken in turns, each from the same state."""
    axes = GRIDS[method]
    larger = grid_config(method, {**axes, parameter: [*axes[parameter], value]})
    single = grid_config(method, {**axes, parameter: [value]})
    finished = shutil.copytree(empty, empty.with_name(f"{method}-{parameter}"))
    compute(grid_config(method, axes), finished)
    turns = [(seconds(larger, finished), seconds(single, empty)) for _ in range(ROUNDS)]
    added, alone = (min(way) for way in zip(*turns, strict=True))
    what = f"{method}, one more {parameter}"
    return {"what": what, "added": added, "alone": alone, "ratio": added / alone}


def grid_config(method: str, axes: dict[str, list[float]]) -> RunConfig:
    """Return Crimes with one method on a grid."""
    return load_config("default", [f"methods=[{{name: {method}, grid: {axes}}}]"])


def seconds(config: RunConfig, state: Path) -> float:
    """Return what a run costs this process, on a copy of a home."""
    with tempfile.TemporaryDirectory() as folder:
        home = shutil.copytree(state, Path(folder) / "home")
        between()
        start = time.process_time()
        compute(config, home)
        return time.process_time() - start


def compute(config: RunConfig, home: Path) -> None:
    """Plan, fit what is missing, record it."""
    settings = Settings(home, None, None, None)
    for job in open_study(config, settings).missing():
        run_job(job)
    record_trials(open_study(config, settings))
