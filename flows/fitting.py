"""Build kernels and fit trials on one cluster, until nothing is missing."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from configs.errors import UserError
from configs.run import AUTO_ROWS, SHOWN_TIMES, ClusterConfig, keeps
from flows.prefect_page import post_markdown
from flows.progress import run_log
from tasks.cluster.cluster import PAGE, connect, is_reported, performance
from tasks.cluster.retries import Failed, run_here, run_jobs
from tasks.cluster.workers import WorkerMonitor, worker_kernels, worker_memory
from tasks.fit.job import refuse_too_large, run_job
from tasks.kernels.auto_options import sum_remarks
from tasks.kernels.build import (
    KernelSummary,
    build_shared,
    chunked_summaries,
    kernels_markdown,
)
from tasks.kernels.kernel_arrays import ChunkedKernel, build_kernel, compute_array, is_chunked
from tasks.kernels.shared_training import shared_sums
from tasks.plan.trials import Job
from tasks.select.study import Study
from tasks.storage.environment import mixed_kernels_warning
from tasks.storage.files import write_atomic
from tasks.storage.records import TrialRecord
from tasks.track.compare import read_plan, reasons, write_plan
from tasks.track.run_index import State, Status, begin, take_folder, write_status

_PASS_LOG_SECONDS = 10.0
_UNREADABLE = (
    "the driver cannot read the record that the worker wrote. Set FKD_STORE to a location that "
    "both can reach"
)


class SweepState:
    """Missing fits of several studies, and which study waits for which fit.

    Attributes
    ----------
    studies
        The studies with the trials that are known now.
    jobs
        Missing jobs, without duplicates.
    computed
        Whether fits of each study were missing at the start.
    """

    def __init__(self, studies: Sequence[Study]) -> None:
        self.studies = list(studies)
        self._workers: dict[str, str] = {}  # worker by the first record key of its job
        missing = [study.missing(again=True) for study in self.studies]
        # Failed fits are tried again.
        keys = (key for jobs in missing for job in jobs for key in job.record_keys)
        self._plan(missing, self.studies[0].store.forget_failures(keys) if self.studies else ())
        self.statuses = [self._begin(i) for i in range(len(studies))]
        self.computed = tuple(map(bool, missing))

    def _plan(self, missing: Sequence[Sequence[Job]], failed_before: Collection[str] = ()) -> None:
        """Set the missing jobs. Planning reads every record, so it happens once per round."""
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
        """Return how many fits are stored and how many are computed, with the reasons."""
        trials = sum(len(study.trials) for study in self.studies)
        todo = sum(len(job.trials) for job in self.jobs)
        if not todo:
            return f"{trials} trials: all stored, nothing to compute"
        why = "; ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        stored = sum(study.size() for study in self.studies) - sum(map(len, self._wanted))
        text = f"{trials} trials: {stored} fits stored, {todo} in {len(self.jobs)} tasks to compute"
        return f"{text} ({why})" if why else text

    def kernels(self) -> set[str]:
        """Return the BLAS kernels that computed the stored fits."""
        return {name for study in self.studies for name in study.store.kernels}

    def check_memory(self, limit: int | None) -> None:
        """Raise a UserError for a job that needs more memory than a worker has."""
        for study, jobs in zip(self.studies, self._missing, strict=True):
            refuse_too_large(jobs, study.loaded.table, limit)

    def job_started(self, job: Job, worker: str) -> None:
        """Remember which worker computes a job."""
        self._workers[job.record_keys[0]] = worker

    def remember(self, job: Job, records: Sequence[TrialRecord]) -> None:
        """Keep the records that a worker has sent, so that they are not read from the store."""
        self.studies[0].store.remember(records)

    def job_done(self, job: Job) -> None:
        """Count a finished job for every study that waits for it."""
        self._count_job(job, _UNREADABLE)

    def add_failures(self, failed: Sequence[Failed]) -> None:
        """Store the causes of failed jobs for each of their trials."""
        for failure in failed:
            self._count_job(failure.job, failure.cause)

    def _count_job(self, job: Job, cause: str) -> None:
        """Count the stored trials of a job; the others have failed with this cause."""
        store, causes = self.studies[0].store, dict[str, str]()
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            if not job.inputs.stored(store, [key]):
                store.write_failure(key, cause)
                causes[key] = f"{trial.method} on fold {job.split}: {cause}"
        worker = self._workers.pop(job.record_keys[0], None)
        for i, (study, wanted) in enumerate(zip(self.studies, self._wanted, strict=True)):
            mine = [key for key in job.record_keys if key in wanted]
            if not mine:
                continue
            for trial, key in zip(job.trials, job.record_keys, strict=True):
                if key in wanted:
                    run_log().event(
                        "fit",
                        "warning" if key in causes else "info",
                        causes.get(key, f"{trial.method} on fold {job.split}: done"),
                        run=study.config.name,
                        trial=trial.key,
                        fold=job.split,
                        record=key,
                        worker=worker,
                    )
            lost = tuple(causes[key] for key in mine if key in causes)
            old = self.statuses[i]
            new = replace(old, done=old.done + len(mine) - len(lost), failures=old.failures + lost)
            self.statuses[i] = write_status(study.settings, new)

    def refresh(self) -> None:
        """Add the trials that are known only now, such as the grid of a search's winner."""
        self.studies = [study.again() for study in self.studies]
        self._plan([study.missing() for study in self.studies])
        self.statuses = [
            replace(status, total=study.size())
            for study, status in zip(self.studies, self.statuses, strict=True)
        ]

    def close(self, problem: str = "") -> int:
        """Write the final status of each study and return how many fits failed."""
        for study, status in zip(self.studies, self.statuses, strict=True):
            state: State = "failed" if status.failures or problem else "finished"
            write_status(study.settings, replace(status, state=state, message=problem))
        return sum(len(status.failures) for status in self.statuses)


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs in the order of their splits, each trial in one of them only.

    Several studies may need the same trial. Ordered by split, all fronts fill in evenly.
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
class Round:
    """Jobs that are computed together, and the client of their cluster."""

    client: Any
    cluster: ClusterConfig
    jobs: tuple[Job, ...]
    chunked: bool = False  # one job whose kernel matrix is a Dask array


@dataclass(frozen=True)
class Kernels:
    """Kernels that were built for the jobs of a round."""

    summaries: tuple[KernelSummary, ...]
    chunked: ChunkedKernel | None = None


BuildStep = Callable[[SweepState, Round], Kernels]
FitStep = Callable[[SweepState, Round, Kernels | None], SweepState]


def build_kernels(state: SweepState, step: Round) -> Kernels:
    """Build on the cluster what the fits of a round read: maps, moments, features, chunks."""
    for remark in sum_remarks(step.jobs):
        run_log().log(remark)
    if step.chunked:
        kernel = build_kernel(step.client, step.jobs[0])
        kernels = Kernels(tuple(chunked_summaries(kernel, step.jobs[0])), kernel)
    else:

        def run(function: Any, blocks: Sequence[Any], keep: Any) -> list[Failed]:
            return run_counted(
                step.client, function, blocks, step.cluster, noun="blocks", on_result=keep
            )

        kernels = Kernels(tuple(build_shared(run, step.jobs)))
    for summary in kernels.summaries:
        run_log().log(summary.text())
    post_markdown("kernels", kernels_markdown(kernels.summaries), "Kernels that fits read")
    return kernels


def fit_trials(state: SweepState, step: Round, kernels: Kernels | None = None) -> SweepState:
    """Compute the jobs of a round and store their records; return the state."""
    if kernels is not None and kernels.chunked is not None:
        failed = _fit_chunked(state, step, kernels.chunked)
    else:
        failed = run_counted(
            step.client,
            run_job,
            step.jobs,
            step.cluster,
            noun="fits",
            weight=lambda job: len(job.trials),
            on_start=state.job_started,
            on_result=state.remember,
            on_done=state.job_done,
        )
    state.add_failures(failed)
    return state


def _fit_chunked(state: SweepState, step: Round, kernel: ChunkedKernel) -> list[Failed]:
    """Compute a job by passes over a chunked kernel matrix, and return it if it failed.

    The driver runs the job and each pass is a graph of the cluster, so that a lost worker costs
    chunks and never the job.
    """
    (job,) = step.jobs
    name = f"{job.trials[0].method} on fold {job.split}"
    start, count, logged = time.monotonic(), 0, time.monotonic()

    def compute(array: Any) -> Any:
        nonlocal count, logged
        found = compute_array(
            step.client,
            array,
            retries=step.cluster.retries,
            time_limit=step.cluster.time_limit,
            log=run_log().log,
        )
        count, now = count + 1, time.monotonic()
        if now - logged >= _PASS_LOG_SECONDS:
            logged = now
            run_log().log(f"{name}: {count} passes over chunks in {now - start:.0f} s")
        return found

    def fit(job: Job) -> None:
        run_job(job, kernel.passes(compute))

    with run_log().progress("chunked fits", len(job.trials)) as counter:
        failed = run_here(fit, [job], on_done=state.job_done)
        counter.advance(len(job.trials))
    return failed


def run_counted(
    client: Any,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    cluster: ClusterConfig,
    *,
    noun: str,
    weight: Callable[[Any], int] = lambda job: 1,
    on_done: Callable[[Any], None] = lambda job: None,
    **callbacks: Any,
) -> list[Failed]:
    """Compute jobs as `run_jobs` does, with a progress bar, and return those that failed.

    Parameters
    ----------
    noun
        Name of the counted things.
    weight
        How many of them one job contains.
    """
    if not jobs:
        return []
    with run_log().progress(noun, sum(weight(job) for job in jobs)) as counter:

        def advance(job: Any) -> None:
            on_done(job)
            counter.advance(weight(job))

        return run_jobs(
            client,
            function,
            jobs,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            on_done=advance,
            log=run_log().log,
            **callbacks,
        )


@dataclass(frozen=True)
class FitEnd:
    """Result of the fits of several studies."""

    failed: int  # fits of all studies
    computed: tuple[bool, ...]  # whether fits of each study were missing


def fit_all(
    studies: Sequence[Study],
    state: SweepState | None = None,
    *,
    build: BuildStep = build_kernels,
    fit: FitStep = fit_trials,
) -> FitEnd:
    """Compute the missing fits of several studies on one cluster.

    Parameters
    ----------
    studies
        Studies with the same cluster. None of them may be computed elsewhere at the same time.
    state
        Their missing fits, if they are known already.
    build, fit
        The two steps of a round, which a flow passes as Prefect tasks.
    """
    state = SweepState(studies) if state is None else state
    cluster, settings = studies[0].config.cluster, studies[0].settings
    for choice in dict.fromkeys(choice for study in studies for choice in study.choices()):
        run_log().log(f"approximation {choice}")
    run_log().log(state.describe())
    if not state.jobs:
        _warn_of_mixed_kernels(state)
        return FitEnd(state.close(), state.computed)
    _log_dropped_predictions(studies)
    try:
        with connect(cluster, settings) as client:
            WorkerMonitor(client, run_log().log).wait()
            with _dask_report(client, studies):
                _fit_rounds(client, state, cluster, build, fit)
    except UserError as error:
        state.close(str(error))
        raise
    return FitEnd(state.close(), state.computed)


def _fit_rounds(
    client: Any, state: SweepState, cluster: ClusterConfig, build: BuildStep, fit: FitStep
) -> None:
    """Build and fit until no fit is missing: the winner of a search brings new trials."""
    limit = worker_memory(client)
    warned = _warn_of_mixed_kernels(state, worker_kernels(client))
    while state.jobs:
        state.check_memory(limit)
        chunked = [job for job in state.jobs if is_chunked(job)]
        whole = tuple(job for job in state.jobs if job not in chunked)
        rounds = [Round(client, cluster, whole)] if whole else []
        rounds += [Round(client, cluster, (job,), chunked=True) for job in chunked]
        for step in rounds:
            needed = step.chunked or bool(shared_sums(step.jobs))
            fit(state, step, build(state, step) if needed else None)
        state.refresh()
        if state.jobs:
            run_log().log(state.describe())
    if not warned:  # workers may have joined later
        _warn_of_mixed_kernels(state)


def _dask_report(client: Any, studies: Sequence[Study]) -> AbstractContextManager[None]:
    """Return a context that keeps Dask's performance report in each study's folder."""

    def keep(page: bytes) -> None:
        for study in studies:
            take_folder(study)
            write_atomic(study.folder / PAGE, page)

    if not is_reported(studies[0].config.cluster, client):
        return nullcontext()
    return performance(client, keep, partial(run_log().log, level="warning"))


def _log_dropped_predictions(studies: Sequence[Study]) -> None:
    """Log that predictions of many test rows are not kept, unless the user decided it."""
    tested = [
        len(fold.test)
        for study in studies
        if study.config.predictions == "auto"
        for fold in study.inputs.splits.outer(study.loaded.table).values()
    ]
    if tested and not keeps("auto", max(tested)):
        run_log().log(
            f"predictions of more than {AUTO_ROWS} test rows are not kept (here up to "
            f"{max(tested)}), of the held-out fold {SHOWN_TIMES} times as many. --set "
            "predictions=keep keeps them"
        )


def _warn_of_mixed_kernels(state: SweepState, workers: Mapping[str, int] | None = None) -> bool:
    """Return whether workers or stored fits used different BLAS kernels, and warn if so."""
    message = mixed_kernels_warning(workers or {}, state.kernels())
    if message is not None:
        run_log().log(message, "warning")
    return message is not None
