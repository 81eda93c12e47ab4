"""Fits of one or several configurations on one cluster, until nothing is missing."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from configs import keeping
from configs.errors import UserError
from configs.schema import ClusterConfig
from flows.chunked_fits import fit_chunked
from flows.counted import run_counted
from flows.desk import Desk
from flows.progress import watcher
from tasks.adapters.cluster import connect
from tasks.adapters.environment import mixture
from tasks.adapters.files import write_atomic
from tasks.adapters.jobs import Failed
from tasks.adapters.muster import Muster
from tasks.adapters.performance import PAGE, is_reported, performance
from tasks.adapters.workers import worker_kernels, worker_memory
from tasks.blocks.row_arrays import is_chunked
from tasks.blocks.shared_map import store_map
from tasks.blocks.shared_training import shared_sums, streamed_maps
from tasks.blocks.spilled_features import planned_spill, spill_features
from tasks.blocks.streaming import stream_moments
from tasks.planned.trials import Job
from tasks.study.evaluate import run_job
from tasks.study.known_runs import take_folder
from tasks.study.opening import Study
from tasks.study.settling import sum_remarks


@dataclass(frozen=True)
class FitEnd:
    """How the fits of several studies have ended."""

    failed: int  # fits of all of them
    computed: tuple[bool, ...]  # of each study, whether anything of it was not stored


def fit_all(studies: Sequence[Study]) -> FitEnd:
    """Compute what is not stored; a search's winner brings new fits, so that rounds follow."""
    cluster, settings = studies[0].config.cluster, studies[0].settings
    desk = Desk(studies)
    for choice in dict.fromkeys(choice for study in studies for choice in study.choices()):
        watcher().say(f"approximation {choice}")
    if not desk.jobs:
        watcher().say(desk.describe())
        _tell_mixture(desk)
        return FitEnd(desk.close(), desk.computed)
    _tell_dropped(studies)
    try:
        with connect(cluster, settings) as client:
            Muster(client, watcher().say).wait()
            with _reported(client, studies):
                _fit_rounds(client, desk, cluster)
    except UserError as error:
        desk.close(str(error))
        raise
    return FitEnd(desk.close(), desk.computed)


def _fit_rounds(client: Any, desk: Desk, cluster: ClusterConfig) -> None:
    """Compute until nothing is missing."""
    limit = worker_memory(client)
    told = _tell_mixture(desk, worker_kernels(client))
    while desk.jobs:
        desk.check_memory(limit)
        desk.failed(_compute(client, desk, cluster))
        desk.look_again()
    if not told:  # by a worker that came later
        _tell_mixture(desk)


def _reported(client: Any, studies: Sequence[Study]) -> AbstractContextManager[None]:
    """Have Dask's report lie beside the results of every study, if one is wanted."""

    def keep(page: bytes) -> None:
        for study in studies:
            take_folder(study)
            write_atomic(study.folder / PAGE, page)

    if not is_reported(studies[0].config.cluster, client):
        return nullcontext()
    return performance(client, keep, lambda text: watcher().say(text, "warning"))


def _tell_dropped(studies: Sequence[Study]) -> None:
    """Say that predictions are not kept where nobody has asked for that."""
    tested = [
        len(fold.test)
        for study in studies
        if study.config.predictions == "auto"
        for fold in study.inputs.splits.outer(study.loaded.table).values()
    ]
    if tested and not keeping.keeps("auto", max(tested)):
        watcher().say(
            f"predictions of more than {keeping.AUTO_ROWS} test rows are not kept (here up to "
            f"{max(tested)}), of the held-out fold's {keeping.SHOWN_TIMES} times as many; --set "
            "predictions=keep keeps them"
        )


def _tell_mixture(desk: Desk, workers: Mapping[str, int] | None = None) -> bool:
    """Return whether kernels of workers or stored fits differ, which is then said."""
    told = mixture(workers or {}, desk.kernels())
    if told is not None:
        watcher().say(told, "warning")
    return told is not None


def _compute(client: Any, desk: Desk, cluster: ClusterConfig) -> list[Failed]:
    """Return the jobs that failed; progress is told meanwhile."""
    watcher().say(desk.describe())
    chunked = [job for job in desk.jobs if is_chunked(job)]
    whole = [job for job in desk.jobs if job not in chunked]
    _stream(client, whole, cluster)
    failed = _run_whole(client, whole, cluster, desk) if whole else []
    return failed + fit_chunked(client, chunked, cluster, desk.done)


def _run_whole(
    client: Any, jobs: Sequence[Job], cluster: ClusterConfig, desk: Desk
) -> list[Failed]:
    """Return the jobs that failed, of those that a worker computes whole."""
    return run_counted(
        client,
        run_job,
        jobs,
        cluster,
        noun="fits",
        weight=lambda job: len(job.trials),
        done=desk.done,
        begun=desk.begun,
        keep=desk.hear,
    )


def _stream(client: Any, jobs: Sequence[Job], cluster: ClusterConfig) -> None:
    """Sum over blocks of rows, or keep of them, what fits with a shared map are waiting for."""
    needs = shared_sums(jobs)
    for remark in sum_remarks(jobs):
        watcher().say(remark)
    if not needs:
        return

    def run(function: Any, blocks: Sequence[Any], keep: Any) -> list[Failed]:
        return run_counted(client, function, blocks, cluster, noun="blocks", keep=keep)

    stream_moments(run, needs)
    maps = streamed_maps(jobs)
    for shared in maps:
        watcher().say(planned_spill(store_map(shared)).told())
    spill_features(run, maps)
