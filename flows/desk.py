"""The studies of a sweep at work, with what is known of each one's progress."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from flows.progress import watcher
from tasks.adapters.jobs import Failed
from tasks.adapters.run_status import State, Status, begin, write_status
from tasks.adapters.store import TrialRecord
from tasks.planned.trials import Job
from tasks.study.costs import refuse_too_large
from tasks.study.opening import Study
from tasks.study.reasons import read_plan, reasons, write_plan

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
        self.studies[0].store.hear(records)

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
            if not job.inputs.is_stored(store, key):
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
