"""Runs as the tracking server shall hold them, in plain values."""

import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from alembic.util import CommandError
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from configs.errors import UserError
from tasks.storage.locks import store_lock
from tasks.storage.settings import Settings, quiet_ecosystem
from tasks.storage.store import open_store, store_id
from tasks.track.client import (
    TimedClient,
    check_readable,
    prepare_database,
    sqlite_path,
    write_lock,
)
from tasks.track.reachable import (
    DeadlineError,
    check_answers,
    not_recorded,
    refused_status,
    registry_uri,
    share_trust,
    tracking_uri,
    within,
)

Number = tuple[str, float, int]  # a metric's name, its value, the step
CHAMPION_TAG = "fkd.champion"  # on a trial's run: it was selected; on a model's version: its key


@dataclass(frozen=True)
class UsedData:
    """The rows of a run, as the tracker names data sets: texts in JSON but for name and digest."""

    name: str
    digest: str
    source_type: str
    source: str
    schema: str
    profile: str


@dataclass(frozen=True)
class Span:
    """When a run's fits began, how long they took."""

    start: int  # milliseconds since 1970
    seconds: float

    def end_after(self, start: int) -> int:
        """Return when a run ends that is said to have begun at a time."""
        return start + round(1000 * self.seconds)


@dataclass(frozen=True)
class RunDetails:
    """What a run carries beside its name and tags."""

    note: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    data: UsedData | None = None
    span: Span | None = None


@dataclass(frozen=True)
class TrialRun:
    """One trial as MLflow shall hold it."""

    key: str
    name: str
    tags: Mapping[str, str]
    folds: Mapping[str, Sequence[float]]  # metric: one value per fold, in order
    summary: Mapping[str, float]  # means with standard deviations
    details: RunDetails = field(default_factory=RunDetails)

    def numbers(self) -> list[Number]:
        """Return all metrics: each fold is a step, means with deviations have none."""
        folds = [
            (name, value, step)
            for name, values in self.folds.items()
            for step, value in enumerate(values)
        ]
        return folds + [(name, value, 0) for name, value in self.summary.items()]


def metric_name(text: str) -> str:
    """Return a name that every tracker takes: of letters, digits and a few signs."""
    return re.sub(r"[^\w/.\- :]", "_", text)


T = TypeVar("T")
FAULTS = (MlflowException, SQLAlchemyError, OSError)
_TRIES = 3
_PAUSE_SECONDS = 1.0
_MAKING_SECONDS = 900.0  # for the tables of a fresh database on a busy machine
_PAGE_RUNS = 1000  # runs in one answer
# Opens the experiment's page on its runs, instead of asking what kind of experiment it is.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
TRIAL = "fkd.trial"
_IDENTITY = "fkd.identity"
_STORE = "fkd.store"  # a parent run belongs to one store
_COMPLETE = "fkd.complete"
_NOTE = "mlflow.note.content"


class Tracking:
    """One MLflow experiment, created on first use.

    Every method may be repeated: it looks for what is recorded before it writes. One process of a
    store writes at a time.
    """

    def __init__(self, settings: Settings, experiment: str) -> None:
        self.settings, self.uri = settings, tracking_uri(settings)
        prepare_stores(settings)
        self.client = TimedClient(settings)
        self.experiment_id = self.safely(lambda: self._experiment(experiment))

    def safely(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, called under the store's lock and retried on faults."""
        with store_lock(open_store(self.settings), "mlflow", self.settings.home):
            for _ in range(_TRIES):
                try:
                    return work()
                except DeadlineError as error:
                    cause: Exception = error
                    break  # a retry would take as long again
                except FAULTS as error:
                    cause = error
                    if refused_status(error) is not None:
                        break  # a retry would send the same password
                check_answers(self.uri)
                time.sleep(_PAUSE_SECONDS)
        if (path := sqlite_path(self.uri)) is not None:
            check_readable(path, thoroughly=True)
        # Without the chain: messages of MLflow contain the address with its password.
        raise not_recorded(self.uri, cause)

    def find_parent(self, identity: str) -> str | None:
        """Return the parent run of an identity in this store, or None."""
        run = self.safely(lambda: self._find_parent(identity))
        return None if run is None else str(run.info.run_id)

    def parent_run(
        self, identity: str, name: str, tags: Mapping[str, str], details: RunDetails | None = None
    ) -> str:
        """Return the parent run of an identity in this store, created if there is none."""
        details = details or RunDetails()

        def work() -> str:
            run = self._find_parent(identity)
            if run is None:
                own = {**tags, _IDENTITY: identity, _STORE: store_id(self.settings)}
                run = self._create(name, own, details)
            if _COMPLETE not in run.data.tags:
                self._detail(run, details, ())
            return str(run.info.run_id)

        return self.safely(work)

    def _find_parent(self, identity: str) -> Run | None:
        own = f"tags.`{_IDENTITY}` = '{identity}' and tags.`{_STORE}` = '{store_id(self.settings)}'"
        found = self.client.search_runs([self.experiment_id], own, order_by=["start_time ASC"])
        return found[0] if found else None

    def log_trials(self, parent: str, trials: Iterable[TrialRun]) -> int:
        """Record the trials that have no finished run under a parent; return their number."""
        added = set[str]()

        def work() -> None:
            runs = self._trial_runs(parent)
            for trial in wanted:
                run = runs.get(trial.key)
                if run is None or run.info.status != "FINISHED":
                    self._log_trial(parent, trial, run)
                    added.add(trial.key)

        wanted = list(trials)
        self.safely(work)
        return len(added)

    def _log_trial(self, parent: str, trial: TrialRun, run: Run | None) -> None:
        """Write the run of a trial, or complete one that was interrupted."""
        if run is None:
            own = {**trial.tags, TRIAL: trial.key, "mlflow.parentRunId": parent}
            run = self._create(trial.name, own, trial.details)
        self._detail(run, trial.details, trial.numbers())
        self._close(run, trial.details)

    def _trial_runs(self, parent: str) -> dict[str, Run]:
        """Return the run of each trial under a parent, by key."""
        found: dict[str, Run] = {}
        doubled: list[Run] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id],
                f"tags.`mlflow.parentRunId` = '{parent}'",
                max_results=_PAGE_RUNS,
                order_by=["start_time ASC"],
                page_token=token,
            )
            for run in page:
                key = run.data.tags.get(TRIAL)
                if key is not None and found.setdefault(key, run) is not run:
                    doubled.append(run)
            token = page.token
            if not token:
                break
        # A server may create a run after its client has given up on the call.
        for run in doubled:
            self.client.delete_run(run.info.run_id)
        return found

    def mark_champion(
        self, parent: str, trial: str, metrics: Mapping[str, float], details: RunDetails
    ) -> None:
        """Put the selected trial's numbers on a parent, and a tag on that trial alone."""
        numbers = [(name, value, 0) for name, value in metrics.items()]

        def work() -> None:
            for key, run in self._trial_runs(parent).items():
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
    ) -> None:
        """Put numbers, parameters, description and data on a run; a repeat changes nothing."""
        # The time of the run's start: logged a second time, a value is not held twice.
        at, run_id = run.info.start_time, run.info.run_id
        self.client.log_batch(
            run_id,
            metrics=[Metric(name, value, at, step) for name, value, step in numbers],
            params=[Param(name, value) for name, value in details.params.items()],
            tags=[RunTag(_NOTE, details.note)] if details.note else [],
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


def keep_file(tracking: Tracking, run: str, name: str, data: bytes) -> None:
    """Put a file on a run under a name such as folder/file; one that is there stays."""

    def work() -> None:
        if has_file(tracking.client, run, name):
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            tracking.client.log_artifacts(run, Path(folder))

    tracking.safely(work)


def has_file(client: TimedClient, run: str, name: str) -> bool:
    """Return whether a run has a file of that name."""
    folder = str(PurePosixPath(name).parent)
    found = client.list_artifacts(run, None if folder == "." else folder)
    return any(file.path == name for file in found)


def read_file(client: TimedClient, run: str, name: str) -> bytes | None:
    """Return a file of a run, None where it has none of that name."""
    if not has_file(client, run, name):
        return None
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(run, name, folder)).read_bytes()
