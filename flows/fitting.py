"""Fit one or several studies on one cluster until nothing is missing."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from configs import run as keeping
from configs.errors import UserError
from configs.run import ClusterConfig
from flows.progress import watcher
from tasks.cluster.cluster import PAGE, connect, is_reported, performance
from tasks.cluster.retries import Failed, run_here, run_jobs
from tasks.cluster.workers import Muster, worker_kernels, worker_memory
from tasks.fit.cost import refuse_too_large
from tasks.fit.job import run_job
from tasks.kernels.auto_options import sum_remarks
from tasks.kernels.features_cache import planned_spill, spill_features
from tasks.kernels.kernel_arrays import SplitRows, cluster_passes, compute_array, is_chunked
from tasks.kernels.shared_map import store_map
from tasks.kernels.shared_training import shared_sums, streamed_maps
from tasks.kernels.streaming import stream_moments
from tasks.plan.trials import Job
from tasks.select.study import Study
from tasks.storage.environment import mixed_kernels_warning
from tasks.storage.files import write_atomic
from tasks.storage.records import TrialRecord
from tasks.track.compare import read_plan, reasons, write_plan
from tasks.track.run_index import take_folder
from tasks.track.run_status import State, Status, begin, write_status

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


def run_counted(
    client: Any,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    cluster: ClusterConfig,
    *,
    noun: str,
    weight: Callable[[Any], int] = lambda job: 1,
    done: Callable[[Any], None] = lambda job: None,
    begun: Callable[[tuple[Any, str]], None] = lambda told: None,
    keep: Callable[[Any, Any], None] | None = None,
) -> list[Failed]:
    """Return the jobs that failed; tries and time limits are the cluster's.

    Parameters
    ----------
    client, function, jobs, keep
        As for `run_jobs`.
    cluster
        How often a job is tried, how long it may take.
    noun
        What is counted.
    weight
        How many of them one job is.
    done
        Hears of every job that has come to its end.
    begun
        Hears of every job that a worker begins, with the worker's address.
    """
    with watcher().counting(noun, sum(weight(job) for job in jobs)) as counter:

        def advance(job: Any) -> None:
            done(job)
            counter.advance(weight(job))

        return run_jobs(
            client,
            function,
            jobs,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            done=advance,
            keep=keep,
            say=watcher().say,
            begun=begun,
        )


_UNSEEN = (
    "the worker's record is not to be seen here; let FKD_STORE be a place that workers and driver "
    "see"
)


class Desk:
    """What is missing of several studies, who waits for which fit."""

    def __init__(self, studies: Sequence[Study]) -> None:
        self.studies = list(studies)
        self._workers: dict[str, str] = {}  # by the first record of a job, who has begun it
        missing = [study.missing(again=True) for study in self.studies]
        # What failed before is tried again; of what is stored nobody asks whether it did.
        asked = (key for jobs in missing for job in jobs for key in job.record_keys)
        self._plan(missing, self.studies[0].store.forget_failures(asked))
        self.statuses = [self._begin(i) for i in range(len(studies))]
        # Of each study, whether anything of it was not stored.
        self.computed = tuple(map(bool, missing))

    def _plan(self, missing: Sequence[Sequence[Job]], failed_before: Collection[str] = ()) -> None:
        """Take over what is missing; planning reads every stored record, hence once per round."""
        self._missing = missing
        self._wanted = [{k for job in jobs for k in job.record_keys} for jobs in self._missing]
        self.jobs = distinct([job for jobs in self._missing for job in jobs])
        self.reasons: Counter[str] = Counter()
        for study, jobs in zip(self.studies, self._missing, strict=True):
            self.reasons += reasons(study, jobs, read_plan(study), failed_before)
            write_plan(study)

    def _begin(self, i: int) -> Status:
        study = self.studies[i]
        total, missing = study.size(), len(self._wanted[i])
        return write_status(study.settings, begin(study.config.name, total, total - missing))

    def describe(self) -> str:
        """Return how much there is, how much of it is to be computed, for which reasons."""
        trials = sum(len(study.trials) for study in self.studies)
        todo = sum(len(job.trials) for job in self.jobs)
        if not todo:
            return f"{trials} trials: all stored, nothing to compute"
        why = "; ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        stored = sum(study.size() for study in self.studies) - sum(map(len, self._wanted))
        text = f"{trials} trials: {stored} fits stored, {todo} in {len(self.jobs)} tasks to compute"
        return f"{text} ({why})" if why else text

    def kernels(self) -> set[str]:
        """Return the kernels that the stored fits of all studies name."""
        return {name for study in self.studies for name in study.store.kernels}

    def check_memory(self, limit: int | None) -> None:
        """Refuse a job that would not fit into a worker's memory, before any work."""
        for study, jobs in zip(self.studies, self._missing, strict=True):
            refuse_too_large(jobs, study.loaded.table, limit)

    def begun(self, told: tuple[Job, str]) -> None:
        """Remember which worker has begun a job."""
        job, worker = told
        self._workers[job.record_keys[0]] = worker

    def hear(self, job: Job, records: Sequence[TrialRecord]) -> None:
        """Know the records that a worker has written: it sends them, so that none is read here."""
        self.studies[0].store.remember(records)

    def done(self, job: Job) -> None:
        """Count a finished job for every study that waits for it."""
        self._settle(job, _UNSEEN)

    def failed(self, failed: Sequence[Failed]) -> None:
        """Keep the causes of failed jobs, trial by trial."""
        for failure in failed:
            self._settle(failure.job, failure.cause)

    def _settle(self, job: Job, cause: str) -> None:
        """Count the trials of a job that are stored; the others have failed by this cause."""
        store, causes = self.studies[0].store, dict[str, str]()
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            if not job.inputs.stored(store, [key]):
                store.write_failure(key, cause)
                causes[key] = f"{trial.method} on fold {job.split}: {cause}"
        self._note(job, causes)
        for i, wanted in enumerate(self._wanted):
            if mine := wanted & set(job.record_keys):
                lost = tuple(
                    causes[key] for key in job.record_keys if key in causes and key in mine
                )
                self._count(i, done=len(mine) - len(lost), failures=lost)

    def _note(self, job: Job, causes: Mapping[str, str]) -> None:
        """Tell of every fit of a job, for each run that waits for it."""
        worker = self._workers.pop(job.record_keys[0], None)
        for study, wanted in zip(self.studies, self._wanted, strict=True):
            for trial, key in zip(job.trials, job.record_keys, strict=True):
                if key in wanted:
                    told = causes.get(key, f"{trial.method} on fold {job.split}: done")
                    watcher().note(
                        "fit",
                        "warning" if key in causes else "info",
                        told,
                        run=study.config.name,
                        trial=trial.key,
                        fold=job.split,
                        record=key,
                        worker=worker,
                    )

    def _count(self, i: int, done: int, failures: tuple[str, ...]) -> None:
        old = self.statuses[i]
        new = replace(old, done=old.done + done, failures=old.failures + failures)
        self.statuses[i] = write_status(self.studies[i].settings, new)

    def look_again(self) -> None:
        """Find the trials that are known only now, such as the grid of a search's winner."""
        self.studies = [study.again() for study in self.studies]
        self._plan([study.missing() for study in self.studies])
        self.statuses = [
            replace(status, total=study.size())
            for study, status in zip(self.studies, self.statuses, strict=True)
        ]

    def close(self, problem: str = "") -> int:
        """Write the last status of each study; return how many fits failed."""
        for study, status in zip(self.studies, self.statuses, strict=True):
            state: State = "failed" if status.failures or problem else "finished"
            write_status(study.settings, replace(status, state=state, message=problem))
        return sum(len(status.failures) for status in self.statuses)


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs in the order of their splits, each trial in one of them only.

    Several studies may need the same trial. No study goes first, so that all fronts fill in evenly.
    """
    seen: set[str] = set()
    found = []

    def order(job: Job) -> tuple[str, bool]:
        # A job that keeps predictions also serves the studies that do not keep them.
        return job.split, job.inputs.predictions != "keep"

    for job in sorted(jobs, key=order):
        pairs = zip(job.trials, job.record_keys, strict=True)
        if new := [(trial, key) for trial, key in pairs if key not in seen]:
            trials, keys = zip(*new, strict=True)
            seen.update(keys)
            found.append(replace(job, trials=trials, record_keys=keys))
    return found


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
    told = mixed_kernels_warning(workers or {}, desk.kernels())
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
