"""Time of a network's training under Dask's word to the memory allocator, and under ours."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping

import numpy as np

from benchmarks.calibration import between
from benchmarks.neural import SIZES, dependence_of, recipe_of
from benchmarks.record import Goal, Record
from fkd.baselines.base import NEURAL
from tasks.cluster.cluster import ALLOCATOR

EPOCHS, REPEATS = 20, 3
PENALTIES = (0.0, 0.00625, 0.0125, 0.05)
SETTINGS: Mapping[str, Mapping[str, int]] = {
    "Dask's default": {"MALLOC_TRIM_THRESHOLD_": 2**16},
    "ours": ALLOCATOR,
}


def run() -> Record:
    """Return seconds and page faults of one training under each setting."""
    if NEURAL.missing():
        return Record([{"what": "skipped"}], remarks=["PyTorch is missing: `make neural`"])
    # Taken in turns, so that a busy minute of the machine hits both.
    turns = []
    for _ in range(REPEATS):
        between()
        turns.append({name: _child(setting) for name, setting in SETTINGS.items()})
    best = {name: min(turn[name] for turn in turns) for name in SETTINGS}
    dask, ours = best.values()
    return Record(
        [
            {"what": name, "seconds": seconds, "page faults": faults}
            for name, (seconds, faults) in best.items()
        ],
        goals=[Goal("Dask's default / ours, seconds", dask[0] / ours[0], 1.2, at_least=True)],
        remarks=[
            f"nn_hgr_l on random numbers of ACSIncome's size, {len(PENALTIES)} penalties, {EPOCHS} "
            f"epochs, one thread; the fastest of {REPEATS} processes"
        ],
    )


def _child(setting: Mapping[str, int]) -> tuple[float, int]:
    """Return seconds and page faults of a training in a process of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment = {**plain, **{name: str(value) for name, value in setting.items()}}
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "train"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, faults = done.stdout.split()
    return float(seconds), int(faults)


def _train() -> tuple[float, int]:
    """Return seconds and page faults of a training in this process."""
    import resource

    from fkd.baselines.network_training import train

    n, d = SIZES["acs_income"]
    rng = np.random.default_rng(0)
    X, y, S = rng.random((n, d)), rng.random(n), rng.random((n, 1))
    recipe = recipe_of("nn_hgr_l", EPOCHS)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    train(X, y, S, penalties=PENALTIES, dependence=dependence_of("nn_hgr_l"), recipe=recipe, seed=0)
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


if __name__ == "__main__":
    print(*_train())
