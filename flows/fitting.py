"""Fits of one or several configurations on one cluster, until nothing is missing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from configs.schema import ClusterConfig, RunConfig
from flows.progress import watcher
from tasks.cluster import Failed, connect, run_jobs, worker_memory
from tasks.estimate import refuse_too_large
from tasks.evaluate import run_job
from tasks.settings import Settings
from tasks.shared_training import shared_maps
from tasks.status import Status, begin, write_status
from tasks.streaming import stream_moments
from tasks.study import Study, open_study
from tasks.trials import Job


def fit_all(configs: Sequence[RunConfig], settings: Settings) -> int:
    """Return how many fits failed; a search's winner brings new fits, so that rounds follow."""
    studies = [open_study(config, settings) for config in configs]
    for study in studies:
        study.forget_failures()
    desk = Desk(studies)
    if not desk.jobs():
        watcher().say(f"{desk.trials} trials: all stored, nothing to compute")
        desk.close()
        return 0
    with connect(configs[0].cluster, settings) as client:
        limit = worker_memory(client)
        while jobs := desk.jobs():
            for study in desk.studies:
                refuse_too_large(study.missing(), study.loaded.table, limit)
            desk.failed(_compute(client, desk, jobs, configs[0].cluster))
            desk = desk.reopened()
    return desk.close()


def _compute(
    client: Any, desk: "Desk", jobs: Sequence[Job], cluster: ClusterConfig
) -> list[Failed]:
    """Return the jobs that failed; progress is told meanwhile."""
    todo = sum(len(job.trials) for job in jobs)
    watcher().say(f"{desk.trials} trials, {todo} fits in {len(jobs)} tasks to compute")
    _stream(client, jobs, cluster)
    with watcher().counting("fits", todo) as counter:

        def done(job: Job) -> None:
            desk.done(job)
            counter.advance(len(job.trials))

        return run_jobs(
            client,
            run_job,
            jobs,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            done=done,
        )


def _stream(client: Any, jobs: Sequence[Job], cluster: ClusterConfig) -> None:
    """Sum over blocks of rows what fits with a shared feature map are waiting for."""
    maps = shared_maps(jobs)
    if not maps:
        return
    watcher().say(f"{len(maps)} shared feature maps: one pass over the rows for each")

    def run(function: Any, blocks: Sequence[Any], keep: Any) -> None:
        run_jobs(
            client,
            function,
            blocks,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            keep=keep,
        )

    stream_moments(run, maps)


class Desk:
    """The studies of a sweep, with what is known of each one's progress."""

    def __init__(self, studies: Sequence[Study], statuses: Sequence[Status] = ()) -> None:
        self.studies = list(studies)
        self.statuses = list(statuses) or [self._begin(study) for study in studies]

    @staticmethod
    def _begin(study: Study) -> Status:
        total, missing = study.size(), sum(len(job.trials) for job in study.missing())
        return write_status(study.settings, begin(study.config.name, total, total - missing))

    @property
    def trials(self) -> int:
        """How many trials all studies have."""
        return sum(len(study.trials) for study in self.studies)

    def jobs(self) -> list[Job]:
        """Return what is missing, first folds of all studies first: fronts fill in evenly."""
        jobs = [job for study in self.studies for job in study.missing()]
        return sorted(jobs, key=lambda job: job.split)

    def done(self, job: Job) -> None:
        """Count a finished job for every study that wants it."""
        self._count(job, done=len(job.trials))

    def failed(self, failed: Sequence[Failed]) -> None:
        """Keep the causes of failed jobs, trial by trial."""
        for failure in failed:
            job: Job = failure.job
            store = self.studies[0].store
            lost = [k for k in job.record_keys if k not in store]
            for key in lost:
                store.write_failure(key, failure.cause)
            self._count(job, causes=tuple(f"fold {job.split}: {failure.cause}" for _ in lost))

    def _count(self, job: Job, done: int = 0, causes: tuple[str, ...] = ()) -> None:
        for i, (study, status) in enumerate(zip(self.studies, self.statuses, strict=True)):
            if study.inputs == job.inputs:
                status = replace(status, done=status.done + done, failures=status.failures + causes)
                self.statuses[i] = write_status(study.settings, status)

    def reopened(self) -> "Desk":
        """Return the desk with the trials that are known only now."""
        studies = [open_study(study.config, study.settings) for study in self.studies]
        statuses = [
            replace(status, total=study.size())
            for study, status in zip(studies, self.statuses, strict=True)
        ]
        return Desk(studies, statuses)

    def close(self) -> int:
        """Write the last status of each study; return how many fits failed."""
        for study, status in zip(self.studies, self.statuses, strict=True):
            state = "failed" if status.failures else "finished"
            write_status(study.settings, replace(status, state=state))
        return sum(len(status.failures) for status in self.statuses)
