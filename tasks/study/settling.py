"""What a setting means on these rows where it leaves the choice to us."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from fkd.core.moments import Rounding
from fkd.core.svr import LIBSVM_ROWS
from fkd.methods.kernel_methods import least_ridge
from fkd.problems.table import Table
from tasks.blocks.shared_map import SharedMap, rounding_of, store_map
from tasks.blocks.shared_training import sums_of
from tasks.blocks.streaming import MapSums
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs, Job
from tasks.study.approximating import choose_approximation


def settled(settings: Sequence[Any], inputs: Inputs, table: Table, memory: float) -> list[Any]:
    """Return the settings with nothing left open: each is decided by itself and its rows alone.

    Parameters
    ----------
    settings
        As a configuration names them.
    inputs, table
        The rows that they are meant for.
    memory
        Bytes that a worker has.
    """

    @cache
    def rounding(shared: SharedMap) -> Rounding:
        # Once for all settings on a map: its file is read whole each time.
        return rounding_of(store_map(shared))

    return [_settled(setting, inputs, table, memory, rounding) for setting in settings]


def _settled(
    setting: Any,
    inputs: Inputs,
    table: Table,
    memory: float,
    rounding: Callable[[SharedMap], Rounding],
) -> Any:
    approximation = getattr(setting, "approximation", None)
    if approximation is None:
        return setting
    if approximation.kind == "auto":
        approximation = choose_approximation(setting, inputs, table, memory).approximation
        setting = replace(setting, approximation=approximation)
    if getattr(setting, "solver", None) == "auto" and approximation.kind != "exact":
        n = max(len(fold.train) for fold in inputs.splits.all(table).values())
        # Left as it is where libsvm solves, as it did before there was a choice: keys stay.
        setting = replace(setting, solver="batched") if n > LIBSVM_ROWS else setting
    if not approximation.shared or approximation.sums != "auto":
        return setting
    shared = SharedMap.of(inputs, setting.gamma, approximation)
    way = rounding(shared).fastest(table.n, least_ridge(setting, table.n))
    return replace(setting, approximation=replace(approximation, sums=way))


def sum_remarks(jobs: Iterable[Job]) -> list[str]:
    """Return for each shared map how rows are summed under it, in a sentence with its reason."""
    least: dict[MapSums, float] = {}
    for trial, inputs in dict.fromkeys((t, job.inputs) for job in jobs for t in job.trials):
        if (sums := sums_of(trial, inputs)) is not None:
            ridge = least_ridge(trial.setting(), _rows(sums))
            least[sums] = min(ridge, least.get(sums, ridge))
    return [_remark(sums, ridge) for sums, ridge in least.items()]


def _rows(sums: MapSums) -> int:
    """Return the rows of the table that is summed over."""
    inputs = sums.shared.inputs
    return cached_table(inputs.settings, inputs.table_digest).n


def _remark(sums: MapSums, ridge: float) -> str:
    n = _rows(sums)
    if sums.shared.approximation.kind != "nystroem":
        return f"one pass over {n} rows, whose features are summed as they are"
    rounding = rounding_of(store_map(sums.shared))
    means = {
        "float32": "kernel values in single precision",
        "float64": "kernel values in double precision",
        "rows": "rows whitened one by one",
    }
    return (
        f"one pass over {n} rows, {means[sums.way]}: rounding would add {rounding.single * n:.1e} "
        f"in single, {rounding.double * n:.1e} in double precision beside a ridge of {ridge:.3g} "
        f"(condition number of the landmarks {rounding.condition:.1e})"
    )
