"""Fits whose kernel matrix lies on the cluster in chunks, driven from here."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from configs.schema import ClusterConfig
from flows.progress import watcher
from tasks.adapters.graphs import compute_array
from tasks.adapters.jobs import Failed, run_here
from tasks.blocks.row_arrays import SplitRows, cluster_passes
from tasks.planned.trials import Job
from tasks.study.evaluate import run_job

_TELL_SECONDS = 10.0


def fit_chunked(
    client: Any, jobs: Sequence[Job], cluster: ClusterConfig, done: Callable[[Job], None]
) -> list[Failed]:
    """Return the jobs that failed; `done` hears of each other one.

    A job is an iteration over passes, each of them a graph of the cluster: it stays with the
    driver, so that a lost worker costs chunks, never a job.
    """
    if not jobs:
        return []
    with watcher().counting("chunked fits", sum(len(job.trials) for job in jobs)) as counter:

        def advance(job: Job) -> None:
            done(job)
            counter.advance(len(job.trials))

        return run_here(partial(_fit, client, cluster), jobs, done=advance)


def _fit(client: Any, cluster: ClusterConfig, job: Job) -> None:
    """Compute the trials of a job from arrays of the cluster."""
    count = _PassCount(f"{job.trials[0].method} on fold {job.split}")

    def compute(array: Any) -> Any:
        found = compute_array(
            client,
            array,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            say=watcher().say,
        )
        count.add()
        return found

    rows = SplitRows(job.inputs, job.split)
    run_job(job, cluster_passes(client, rows, compute, watcher().say))


class _PassCount:
    """How many passes a fit has made, told now and then: how many it needs, nobody knows."""

    def __init__(self, name: str) -> None:
        self.name, self.passes = name, 0
        self.start = self.told = time.monotonic()

    def add(self) -> None:
        """Count one."""
        self.passes += 1
        now = time.monotonic()
        if now - self.told >= _TELL_SECONDS:
            self.told = now
            watcher().say(
                f"{self.name}: {self.passes} passes over chunks in {now - self.start:.0f} s"
            )
