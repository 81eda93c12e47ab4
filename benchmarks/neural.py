"""Time of the neural grids, against one network at a time with the density as one tensor."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from fkd.baselines.base import NEURAL
from fkd.datasets import read_crimes
from fkd.methods import method
from fkd.problems.crimes import CRIMES, PREDICTORS

FOLDS, EPOCHS, CORES = 5, 500, 2
TIMED_EPOCHS, COMPARED_EPOCHS, LATE = 12, 20, 100
# Training rows, inputs of the paper's three problems.
SIZES = {"crimes": (1595, 98), "acs_income": (4370, 580), "acs_travel_time": (3362, 580)}
NETWORKS = ("nn_hgr", "nn_hgr_l", "nn_frem")

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def run() -> Record:
    """Return times of grids: ours, the plain loop's, all that the reproduction trains."""
    if NEURAL.missing():
        return Record([{"what": "skipped"}], remarks=["PyTorch is missing: `make neural`"])
    rows = crimes()
    plain = plain_epoch(rows) * len(penalties("nn_hgr", "crimes"))
    late, fold = whole_fold(rows)
    minutes = {(name, p): grid_minutes(name, p, rows) for name in NETWORKS for p in SIZES}
    table = [
        {"what": "plain loop, nn_hgr on crimes, one core", "minutes": plain * FOLDS * EPOCHS / 60},
        {"what": "ours, nn_hgr on crimes, one core", "minutes": late * FOLDS * EPOCHS / 60},
        {"what": "  the same, every epoch counted", "minutes": fold * FOLDS / 60},
        *({"what": f"{n} on {p}, {CORES} cores", "minutes": m} for (n, p), m in minutes.items()),
        {"what": f"all networks, {CORES} cores", "minutes": sum(minutes.values())},
    ]
    return Record(
        table,
        goals=[
            Goal("plain loop / ours, grid on crimes", plain / late, 3.0, at_least=True),
            Goal("relative difference of losses, 20 epochs", loss_difference(rows), 1e-6),
            Goal("minutes of all networks", sum(minutes.values()), 90.0),
        ],
        remarks=[
            f"a grid: the paper's penalties x {FOLDS} folds x {EPOCHS} epochs, batches of 200",
            "plain loop: the fastest of some epochs of one network, times networks, epochs, folds",
            f"ours on crimes: one fold trained to the end, the fastest of its last {LATE} epochs, "
            "times epochs, folds; every epoch counted: all its seconds, times folds",
            f"the other grids: the fastest of {TIMED_EPOCHS} epochs, times epochs, times rounds of "
            f"{FOLDS} folds on {CORES} workers",
            "seconds are those that the one training thread computed: an idle core's clock",
            "random numbers stand in for the census tables",
        ],
    )


def crimes() -> Rows:
    """Return as many rows of the embedded data as a training fold has."""
    columns = read_crimes()
    n, _ = SIZES["crimes"]
    X = np.column_stack([columns[name] for name in PREDICTORS if name != "racepctblack"])
    return X[:n], columns[CRIMES.target][:n], columns["racepctblack"][:n, None]


def penalties(name: str, problem: str) -> list[float]:
    """Return the paper's penalties."""
    return [p.penalty for p in method(name).settings(problem, {}, None)]


def recipe_of(name: str, epochs: int) -> Any:
    """Return the paper's training of a method, for some epochs."""
    from fkd.baselines.network_training import Recipe

    p = method(name).parameters()
    return Recipe(
        (p.first_width, p.second_width), epochs, p.batch_rows, p.learning_rate, p.weight_decay
    )


def dependence_of(name: str) -> Any:
    """Return the dependence of a batch."""
    from fkd.baselines.network_training import chi2, eipm

    p = method(name).parameters()
    if name == "nn_frem":
        return lambda Z, f, S: eipm(Z, S, bandwidth_s=p.bandwidth_s, bandwidth_z=p.bandwidth_z)
    return lambda Z, f, S: chi2(f, S)


def fastest_epoch(train: Callable[[Callable[[int, Any], None]], Any]) -> float:
    """Return the seconds of the fastest epoch of a training that reports its epochs."""
    between()
    ends: list[float] = []
    train(lambda epoch, losses: ends.append(time.thread_time()))
    return float(np.diff(ends).min())


def plain_epoch(rows: Rows) -> float:
    """Return the seconds of one epoch of one network in the plain loop."""
    import torch

    from benchmarks.plain_network import plain_loop
    from fkd.baselines.network_training import one_thread

    options = {"recipe": recipe_of("nn_hgr", TIMED_EPOCHS), "seed": 0, "dtype": torch.float32}
    with one_thread():
        return fastest_epoch(lambda watch: plain_loop(*rows, price=0.1, watch=watch, **options))


def whole_fold(rows: Rows) -> tuple[float, float]:
    """Return the seconds of a late epoch of the five networks of one fold, of their training."""
    from fkd.baselines.network_training import train

    between()
    ends: list[float] = []
    start = time.thread_time()
    train(
        *rows,
        penalties=penalties("nn_hgr", "crimes"),
        dependence=dependence_of("nn_hgr"),
        recipe=recipe_of("nn_hgr", EPOCHS),
        seed=0,
        watch=lambda epoch, losses: ends.append(time.thread_time()),
    )
    return float(np.diff(ends[-LATE:]).min()), ends[-1] - start


def grid_minutes(name: str, problem: str, rows: Rows) -> float:
    """Return the minutes that the paper's grid of a problem takes on all cores."""
    from fkd.baselines.network_training import train

    n, d = SIZES[problem]
    if problem != "crimes":
        rng = np.random.default_rng(0)
        rows = rng.random((n, d)), rng.random(n), rng.random((n, 1))
    options = {
        "penalties": penalties(name, problem),
        "dependence": dependence_of(name),
        "recipe": recipe_of(name, TIMED_EPOCHS),
    }
    epoch = fastest_epoch(lambda watch: train(*rows, seed=0, watch=watch, **options))
    return epoch * EPOCHS * -(-FOLDS // CORES) / 60


def loss_difference(rows: Rows) -> float:
    """Return the largest relative difference of losses to the plain loop's, in float64."""
    import torch

    from benchmarks.plain_network import plain_loop
    from fkd.baselines.network_training import train

    recipe = replace(recipe_of("nn_hgr", EPOCHS), epochs=COMPARED_EPOCHS)
    grid = penalties("nn_hgr", "crimes")
    ours: list[np.ndarray] = []
    common = {"recipe": recipe, "seed": 0, "dtype": torch.float64}
    train(
        *rows,
        penalties=grid,
        dependence=dependence_of("nn_hgr"),
        watch=lambda _, losses: ours.append(losses.numpy().copy()),
        **common,
    )
    plain: list[list[float]] = [[] for _ in grid]
    for price, heard in zip(grid, plain, strict=True):
        plain_loop(
            *rows, price=price, watch=lambda _, loss, to=heard: to.append(loss.item()), **common
        )
    expected = np.array(plain).T
    return float(np.abs(np.array(ours) / expected - 1).max())
