"""MLflow runs of an experiment, filled from stored results so that a repeat adds nothing."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from alembic.util import CommandError
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from configs.errors import UserError
from tasks.adapters.authorities import share_trust
from tasks.adapters.deadline import DeadlineError, within
from tasks.adapters.parent_claim import ParentClaim
from tasks.adapters.reachable import check_answers, not_recorded, refused_status
from tasks.adapters.settings import Settings, quiet_ecosystem
from tasks.adapters.timed_client import TimedClient
from tasks.adapters.tracked import CHAMPION_TAG, Number, RunDetails, TrialRun
from tasks.adapters.tracking_database import check_readable, prepare_database, sqlite_path
from tasks.adapters.tracking_places import registry_uri, tracking_uri, write_lock, writer_of
from tasks.adapters.trial_claims import TRIAL, TrialClaims

T = TypeVar("T")
FAULTS = (MlflowException, SQLAlchemyError, OSError)
_TRIES = 3
_PAUSE_SECONDS = 1.0
_MAKING_SECONDS = 900.0  # for the tables of a fresh database on a busy machine
_TRIALS_AT_ONCE = 1000  # claimed together
# Opens the experiment's page on its runs, instead of asking what kind of experiment it is.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
_COMPLETE = "fkd.complete"
_NOTE = "mlflow.note.content"


class Tracking:
    """One MLflow experiment, created on first use.

    Whatever is written here is looked for first, so that each step can be repeated.
    """

    def __init__(self, settings: Settings, experiment: str) -> None:
        self.settings, self.uri = settings, tracking_uri(settings)
        prepare_stores(settings)
        # Two processes that look for a run at once would both miss it, then both create it.
        self._lock = write_lock(settings)
        with self._lock:
            self._writer = writer_of(settings)
        self.client = TimedClient(settings)
        self.experiment_id = self.safely(lambda: self._experiment(experiment))

    def safely(self, work: Callable[[], T]) -> T:
        """Return what the work returns; one writer at a time, tried again while MLflow answers."""
        with self._lock:
            for _ in range(_TRIES):
                try:
                    return work()
                except DeadlineError as error:
                    cause: Exception = error
                    break  # it had its time
                except FAULTS as error:
                    cause = error
                    if refused_status(error) is not None:
                        break  # another try has no other password
                check_answers(self.uri)
                time.sleep(_PAUSE_SECONDS)
        if (path := sqlite_path(self.uri)) is not None:
            check_readable(path, thoroughly=True)
        # Without its chain, in which MLflow tells the address with the password.
        raise not_recorded(self.uri, cause)

    def find_parent(self, identity: str) -> str | None:
        """Return the parent run of an identity, None where there is none."""
        run = self.safely(self._parent(identity).find)
        return None if run is None else str(run.info.run_id)

    def parent_run(
        self, identity: str, name: str, tags: Mapping[str, str], details: RunDetails | None = None
    ) -> str:
        """Return the experiment's parent run, found by its identity or created."""
        told = details or RunDetails()

        def work() -> str:
            run = self._parent(identity).claim(
                lambda claim: self._create(name, {**tags, **claim}, told)
            )
            if _COMPLETE not in run.data.tags:
                self._detail(run, told, ())
            return str(run.info.run_id)

        return self.safely(work)

    def _parent(self, identity: str) -> ParentClaim:
        client = TimedClient(self.settings, together=True)
        return ParentClaim(client, self.experiment_id, identity, self._writer)

    def log_trials(self, parent: str, trials: Iterable[TrialRun]) -> int:
        """Return how many trials were new here; a trial that has its run is left alone.

        Other homes may record the same at the same moment: each trial gets one run.
        """
        wanted, added = list(trials), set[str]()
        self.safely(lambda: self._log_trials(parent, wanted, added))
        return len(added)

    def _log_trials(self, parent: str, trials: Sequence[TrialRun], added: set[str]) -> None:
        """Record what is not recorded yet; a repeat goes on where the last try was cut off."""
        claims, others = self._claims(parent), list[TrialRun]()
        for start in range(0, len(trials), _TRIALS_AT_ONCE):
            named = {trial.key: trial for trial in trials[start : start + _TRIALS_AT_ONCE]}

            def create(key: str, claim: Mapping[str, str], named: Any = named) -> Run:
                trial = named[key]
                own = {**trial.tags, **claim, "mlflow.parentRunId": parent}
                return self._create(trial.name, own, trial.details)

            taken = claims.claim(list(named), create)
            for key, trial in named.items():
                if not claims.is_ours(taken[key]):
                    others.append(trial)
                elif self._fill(taken[key], trial):
                    added.add(key)
        claims.outlast()
        taken = claims.standing().taken if others else {}
        added |= {t.key for t in others if t.key in taken and self._fill(taken[t.key], t)}

    def _fill(self, run: Run, trial: TrialRun) -> bool:
        """Return whether a trial's run lacked anything, which it has now."""
        if run.info.status == "FINISHED":
            return False
        self._detail(run, trial.details, trial.numbers(), {TRIAL: trial.key})
        self._close(run, trial.details)
        return True

    def _claims(self, parent: str) -> TrialClaims:
        return TrialClaims(self.client, self.experiment_id, parent, self._writer)

    def mark_champion(
        self, parent: str, trial: str, metrics: Mapping[str, float], details: RunDetails
    ) -> None:
        """Say on a parent which trial was selected, with its numbers; mark that trial alone."""
        numbers = [(name, value, 0) for name, value in metrics.items()]

        def work() -> None:
            for key, run in self._claims(parent).standing().taken.items():
                if key == trial:
                    self.client.set_tag(run.info.run_id, CHAMPION_TAG, "true")
                    self._detail(run, RunDetails(), numbers)
                elif CHAMPION_TAG in run.data.tags:
                    self.client.delete_tag(run.info.run_id, CHAMPION_TAG)
            run = self.client.get_run(parent)
            self._detail(run, details, numbers)

        self.safely(work)

    def finish(
        self,
        run: str,
        tags: Mapping[str, str],
        folder: Path,
        details: RunDetails | None = None,
    ) -> None:
        """Put a folder's files, without its subfolders, and tags on a run, then close it."""

        def work() -> None:
            for file in sorted(path for path in folder.iterdir() if path.is_file()):
                self.client.log_artifact(run, file)
            self._tag(run, {**tags, _COMPLETE: "true"})
            self._close(self.client.get_run(run), details or RunDetails())

        self.safely(work)

    def is_complete(self, run: str) -> bool:
        """Return whether everything of a run has been recorded, files included."""
        return _COMPLETE in self.safely(lambda: self.client.get_run(run)).data.tags

    def tag(self, run: str, tags: Mapping[str, str]) -> None:
        """Set tags on a run."""
        self.safely(lambda: self._tag(run, tags))

    def _tag(self, run: str, tags: Mapping[str, str]) -> None:
        self.client.log_batch(run, tags=[RunTag(k, v) for k, v in tags.items()])

    def _experiment(self, name: str) -> str:
        """Return the id of the experiment of that name, created if absent."""
        found = self.client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            raise UserError(
                f"the MLflow experiment {name!r} is deleted; restore it, or set another name by "
                "--set tracking.experiment=..."
            )
        if found is None:
            artifacts = None
            if self.settings.mlflow_tracking_uri is None:
                artifacts = (self.settings.mlflow / "artifacts" / name).as_uri()
            return str(self.client.create_experiment(name, artifacts, _KIND))
        for tag, value in _KIND.items():
            if tag not in found.tags:
                self.client.set_experiment_tag(found.experiment_id, tag, value)
        return str(found.experiment_id)

    def _create(self, name: str, tags: Mapping[str, str], details: RunDetails) -> Run:
        start = None if details.span is None else details.span.start
        run: Run = self.client.create_run(self.experiment_id, start, dict(tags), name)
        return run

    def _detail(
        self,
        run: Run,
        details: RunDetails,
        numbers: Sequence[Number],
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Put numbers, parameters, description and data on a run; a repeat changes nothing."""
        # The time of the run's start: logged a second time, a value is not held twice.
        at, run_id = run.info.start_time, run.info.run_id
        said = {**tags, **({_NOTE: details.note} if details.note else {})}
        self.client.log_batch(
            run_id,
            metrics=[Metric(name, value, at, step) for name, value, step in numbers],
            params=[Param(name, value) for name, value in details.params.items()],
            tags=[RunTag(name, value) for name, value in said.items()],
        )
        if details.data is not None:
            context = [InputTag("mlflow.data.context", "training")]
            data = DatasetInput(Dataset(**vars(details.data)), context)
            self.client.log_inputs(run_id, [data])

    def _close(self, run: Run, details: RunDetails) -> None:
        """End a run after the seconds that its fits took, whenever it is recorded."""
        span, start = details.span, run.info.start_time
        # MLflow itself ends a run at the time at which a model is put on it.
        end = run.info.end_time if span is None else span.end_after(start)
        if run.info.status != "FINISHED" or run.info.end_time != end:
            self.client.set_terminated(run.info.run_id, "FINISHED", end)


def prepare_stores(settings: Settings) -> None:
    """Let runs and models have a place that answers, or say in one sentence what is wrong.

    A fresh database is made here; one whose making was interrupted is made anew.
    """
    quiet_ecosystem()
    share_trust()
    # MLflow would print every run's address with the password in it.
    MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.set(True)  # type: ignore[no-untyped-call]
    # Its traceback of a database at fault would stand beside our sentence.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    for uri in dict.fromkeys((tracking_uri(settings), registry_uri(settings))):
        check_answers(uri)
        if (path := sqlite_path(uri)) is not None:
            with write_lock(settings):
                prepare_database(path, _open_database, (*FAULTS, CommandError))


def _open_database(path: Path) -> None:
    """Let MLflow open a database, which makes its tables where they are absent."""
    uri = f"sqlite:///{path}"
    client = MlflowClient(uri, uri)
    within(_MAKING_SECONDS, lambda: client.search_experiments(max_results=1))
