"""Build the kernels of pending jobs: shared maps, streamed moments, cached features, chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.kernels.kernel_arrays import ChunkedKernel, chunk_bytes, is_kept
from tasks.kernels.shared_map import SharedMap, load_map, store_map
from tasks.kernels.shared_training import (
    planned_spill,
    shared_sums,
    spill_features,
    streamed_maps,
    sums_of,
)
from tasks.kernels.streaming import TASK_ROWS, RunBlocks, stream_moments, study_cells
from tasks.plan.trials import Job


@dataclass(frozen=True)
class KernelSummary:
    """One matrix that was built for fits."""

    name: str
    shape: tuple[int, int]
    chunks: int
    bytes: int
    place: str  # where the chunks are
    consumers: str  # the fits that read it

    def text(self) -> str:
        """Return the summary in one line."""
        n, q = self.shape
        return (
            f"{self.name}: {n} x {q} in {self.chunks} chunks, {self.bytes / 2**30:.2f} GiB "
            f"{self.place}, for {self.consumers}"
        )


def kernels_markdown(kernels: Sequence[KernelSummary]) -> str:
    """Return summaries as a table."""
    head = "| kernel | shape | chunks | GiB | place | fits |\n|---|---|---:|---:|---|---|\n"
    return head + "\n".join(
        f"| {k.name} | {k.shape[0]} x {k.shape[1]} | {k.chunks} | {k.bytes / 2**30:.2f} "
        f"| {k.place} | {k.consumers} |"
        for k in kernels
    )


def build_shared(run: RunBlocks, jobs: Sequence[Job]) -> list[KernelSummary]:
    """Build shared maps, their moments and cached features, and return what was built.

    Parameters
    ----------
    run
        ``run(function, blocks, done)`` computes blocks on the cluster.
    jobs
        Pending jobs. Those without a shared map need nothing from here.
    """
    needs = shared_sums(jobs)
    if not needs:
        return []
    stream_moments(run, needs)
    streamed = streamed_maps(jobs)
    spill_features(run, streamed)
    maps = dict.fromkeys(sums.shared for sums in needs)
    return [_shared_summary(shared, jobs, in_passes=shared in streamed) for shared in maps]


def _shared_summary(shared: SharedMap, jobs: Sequence[Job], *, in_passes: bool) -> KernelSummary:
    """Return the summary of the features K_nq of all rows under a shared map."""
    stored = store_map(shared)
    cells, rank = study_cells(shared.inputs), load_map(stored).rank
    rows = shared.inputs.table.n
    place, size = "as moments in the store", 8 * rank * rank * len(cells)
    if in_passes:
        spill = planned_spill(stored)
        place = "of features on disk" if spill.fits else "of features, computed in every pass"
        size = spill.needed
    fits = [
        trial
        for job in jobs
        for trial in job.trials
        if (sums := sums_of(trial, job.inputs)) is not None and sums.shared == shared
    ]
    methods = ", ".join(dict.fromkeys(trial.method for trial in fits))
    return KernelSummary(
        f"K_nq, {shared.approximation.kind}, gamma {shared.gamma:g}",
        (rows, rank),
        sum(-(-len(cell.rows) // TASK_ROWS) for cell in cells),
        size,
        place,
        f"{len(fits)} fits of {methods}",
    )


def chunked_summaries(kernel: ChunkedKernel, job: Job) -> list[KernelSummary]:
    """Return the summaries of a chunked job's kernel matrices."""
    label = f"{len(job.trials)} fits of {job.trials[0].method} on fold {job.split}"

    def summary(name: str, array: Any) -> KernelSummary:
        place = "kept on the workers"
        if not is_kept(array):
            place = "computed in every pass, for lack of memory"
        return KernelSummary(name, array.shape, array.npartitions, chunk_bytes(array), place, label)

    return [
        summary(f"K_nn, gamma {kernel.gamma:g}", kernel.K),
        summary(f"K_nq, gamma {kernel.gamma:g}", kernel.K_nq),
    ]
