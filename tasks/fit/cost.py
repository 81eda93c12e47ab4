"""Estimate arithmetic, memory and time of a plan."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from configs.errors import UserError
from fkd.methods import Cost, method
from fkd.methods.cost import streaming_flops
from fkd.problems.table import Table
from tasks.kernels.shared_training import shared_sums
from tasks.plan.trials import Job

_PROBE = 600  # a product of this size takes milliseconds, long enough to time


@dataclass(frozen=True)
class PlannedCost:
    """The cost of all jobs with the largest single one's memory."""

    flops: float
    bytes: float
    seconds: float  # on one worker


def planned_cost(jobs: Sequence[Job], table: Table) -> PlannedCost:
    """Return what the jobs will cost at the speed that this machine multiplies matrices."""
    costs = [job_cost(job, table) for job in jobs]
    flops = sum(cost.flops for cost in costs) + _passes(jobs, table)
    return PlannedCost(
        flops, max((c.bytes for c in costs), default=0.0), flops / _flops_per_second()
    )


def job_cost(job: Job, table: Table) -> Cost:
    """Return the cost of one job: its methods one after another on the same rows."""
    n, d = len(job.inputs.splits.all(table)[job.split].train), _inputs(table)
    by_method: dict[str, list[object]] = {}
    for trial in job.trials:
        by_method.setdefault(trial.method, []).append(trial.setting())
    costs = [method(name).cost(settings, n, d) for name, settings in by_method.items()]
    return Cost(sum(c.flops for c in costs), max(c.bytes for c in costs))


def _passes(jobs: Iterable[Job], table: Table) -> float:
    """Return the cost of one pass over all rows for each shared feature map."""
    return sum(
        streaming_flops(sums.shared.approximation, table.n, _inputs(table))
        for sums in shared_sums(jobs)
    )


def _inputs(table: Table) -> int:
    """Return how many columns encoded rows have at most."""
    return len(table.numeric_names) + sum(len(levels) + 1 for levels in table.levels)


def refuse_too_large(jobs: Sequence[Job], table: Table, limit: int | None) -> None:
    """Raise before any work if a job would not fit into a worker's memory."""
    if limit is None:
        return
    for job in jobs:
        needed = job_cost(job, table).bytes
        if needed > limit:
            raise UserError(
                f"{job.trials[0].method} on fold {job.split} would need about "
                f"{needed / 2**30:.1f} GiB, but a worker has {limit / 2**30:.1f} GiB; use "
                "approximation: {kind: nystroem, landmarks: 1000}, or fewer workers by "
                "--set cluster.workers=1."
            )


def _flops_per_second() -> float:
    """Return the speed of a matrix product in this process, the best of three."""
    A = np.ones((_PROBE, _PROBE))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        A @ A
        best = min(best, time.perf_counter() - start)
    return 2.0 * _PROBE**3 / float(best)
