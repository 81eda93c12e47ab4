"""MLflow runs of an experiment.

One process of a store writes at a time. Every method can be repeated: it looks for existing runs
before it writes.
"""

import json
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar

from alembic.util import CommandError
from filelock import FileLock
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from mlflow.tracking.context.registry import resolve_tags
from sqlalchemy.exc import SQLAlchemyError

from configs.errors import UserError
from fkd.measures import REPORTED
from tasks.storage.settings import Settings, quiet_ecosystem
from tasks.storage.store import open_store, store_id, store_lock
from tasks.track.client import (
    VIEW,
    DeadlineError,
    TimedClient,
    check_answers,
    check_readable,
    not_recorded,
    prepare_database,
    refused_status,
    registry_uri,
    share_trust,
    sqlite_path,
    tracking_uri,
    within,
)

CHAMPION_TAG = "fkd.champion"  # "true" on the selected trial's run; the key on a model version


@dataclass(frozen=True)
class Span:
    """Start of a run's fits in milliseconds since 1970, and their duration in seconds."""

    start: int
    seconds: float


@dataclass(frozen=True)
class RunDetails:
    """Description, parameters, metrics, data and duration of a run."""

    note: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    data: Dataset | None = None
    span: Span | None = None


@dataclass(frozen=True)
class TrialRun:
    """The run of one trial."""

    key: str
    name: str
    tags: Mapping[str, str]
    details: RunDetails


def metric_name(text: str) -> str:
    """Return the text without characters that MLflow does not allow in names of metrics."""
    return re.sub(r"[^\w/.\- :]", "_", text)


T = TypeVar("T")
FAULTS = (MlflowException, SQLAlchemyError, OSError)
_TRIES = 3
_PAUSE_SECONDS = 1.0
_CREATION_SECONDS = 900.0  # to create the tables of a database on a busy machine
_PAGE_RUNS = 1000  # runs in one answer
# Without a kind, the page of an experiment asks for it and shows no runs.
_KIND = "mlflow.experimentKind"
TRIAL = "fkd.trial"
_IDENTITY = "fkd.identity"
_STORE = "fkd.store"  # a parent run belongs to one store
_COMPLETE = "fkd.complete"
_NOTE = "mlflow.note.content"


class Tracking:
    """One MLflow experiment, created on first use."""

    def __init__(self, settings: Settings, experiment: str) -> None:
        self.settings, self.uri = settings, tracking_uri(settings)
        prepare_stores(settings)
        self.client = TimedClient(settings)
        self.experiment_id = self.safely(lambda: self._experiment(experiment))

    def safely(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, called under the store's lock and repeated on faults."""
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

        def work() -> str:
            run, found = self._find_parent(identity), details or RunDetails()
            if run is None:
                own = {**tags, _IDENTITY: identity, _STORE: store_id(self.settings)}
                run = self._create(name, own, found)
            if _COMPLETE not in run.data.tags:
                self._detail(run, found)
            return str(run.info.run_id)

        return self.safely(work)

    def _find_parent(self, identity: str) -> Run | None:
        own = f"tags.`{_IDENTITY}` = '{identity}' and tags.`{_STORE}` = '{store_id(self.settings)}'"
        found = self.client.search_runs([self.experiment_id], own, order_by=["start_time ASC"])
        return found[0] if found else None

    def log_trials(self, parent: str, trials: Iterable[TrialRun]) -> int:
        """Record the trials that have no finished run under a parent; return their number."""
        wanted, added = list(trials), set[str]()

        def work() -> None:
            runs = self._trial_runs(parent)
            for trial in wanted:
                run = runs.get(trial.key)
                if run is not None and run.info.status == "FINISHED":
                    continue
                if run is None:
                    own = {**trial.tags, TRIAL: trial.key, "mlflow.parentRunId": parent}
                    run = self._create(trial.name, own, trial.details)
                self._log(run, trial.details)
                self._close(run, trial.details)
                added.add(trial.key)

        self.safely(work)
        return len(added)

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

    def mark_champion(self, parent: str, trial: str, details: RunDetails) -> None:
        """Log the selected trial's metrics on it and its parent, and tag this trial only."""

        def work() -> None:
            for key, run in self._trial_runs(parent).items():
                if key == trial:
                    self.client.set_tag(run.info.run_id, CHAMPION_TAG, "true")
                    self._log(run, RunDetails(metrics=details.metrics))
                elif CHAMPION_TAG in run.data.tags:
                    self.client.delete_tag(run.info.run_id, CHAMPION_TAG)
            self._detail(self.client.get_run(parent), details)

        self.safely(work)

    def finish(
        self, run: str, tags: Mapping[str, str], folder: Path, details: RunDetails | None = None
    ) -> None:
        """Upload a folder's files, without its subfolders, set tags, and end the run."""

        def work() -> None:
            for file in sorted(path for path in folder.iterdir() if path.is_file()):
                self.client.log_artifact(run, file)
            self._set_tags(run, {**tags, _COMPLETE: "true"})
            self._close(self.client.get_run(run), details or RunDetails())

        self.safely(work)

    def is_complete(self, run: str) -> bool:
        """Return whether a run was finished, with its files."""
        return _COMPLETE in self.safely(lambda: self.client.get_run(run)).data.tags

    def tag(self, run: str, tags: Mapping[str, str]) -> None:
        """Set tags on a run."""
        self.safely(lambda: self._set_tags(run, tags))

    def _set_tags(self, run: str, tags: Mapping[str, str]) -> None:
        self.client.log_batch(run, tags=[RunTag(k, v) for k, v in tags.items()])

    def _experiment(self, name: str) -> str:
        """Return the id of the experiment of that name, created if absent."""
        found = self.client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            raise UserError(
                f"The MLflow experiment {name!r} is deleted. Restore it, or set another name by "
                "--set tracking.experiment=..."
            )
        if found is None:
            artifacts = None
            if self.settings.mlflow_tracking_uri is None:
                artifacts = (self.settings.mlflow / "artifacts" / name).as_uri()
            return str(self.client.create_experiment(name, artifacts, page_tags()))
        for tag, value in page_tags().items():
            if found.tags.get(tag) != value:
                self.client.set_experiment_tag(found.experiment_id, tag, value)
        return str(found.experiment_id)

    def _create(self, name: str, tags: Mapping[str, str], details: RunDetails) -> Run:
        """Return a new run with its description."""
        start = None if details.span is None else details.span.start
        own = {**self._origin, **tags, **({_NOTE: details.note} if details.note else {})}
        run: Run = self.client.create_run(self.experiment_id, start, own, name)
        return run

    @cached_property
    def _origin(self) -> dict[str, str]:
        """Tags with the user, the program and its commit."""
        return dict(resolve_tags())

    def _detail(self, run: Run, details: RunDetails) -> None:
        """Log metrics, parameters, description and data of a run."""
        self._log(run, details)
        if details.note:
            self.client.set_tag(run.info.run_id, _NOTE, details.note)
        if details.data is not None:
            context = [InputTag("mlflow.data.context", "training")]
            self.client.log_inputs(run.info.run_id, [DatasetInput(details.data, context)])

    def _log(self, run: Run, details: RunDetails) -> None:
        """Log metrics and parameters in one call. A repeat changes nothing."""
        at = run.info.start_time  # MLflow ignores an equal value with the same time
        self.client.log_batch(
            run.info.run_id,
            metrics=[Metric(name, value, at, 0) for name, value in details.metrics.items()],
            params=[Param(name, value) for name, value in details.params.items()],
        )

    def _close(self, run: Run, details: RunDetails) -> None:
        """End a run after the seconds that its fits took."""
        end = run.info.end_time  # logging a model ends a run
        if details.span is not None:
            end = run.info.start_time + round(1000 * details.span.seconds)
        if run.info.status != "FINISHED" or run.info.end_time != end:
            self.client.set_terminated(run.info.run_id, "FINISHED", end)


def page_tags() -> dict[str, str]:
    """Return the tags of an experiment that configure its page.

    A link with `viewStateShareKey` opens the page on all trials with their error and the measures
    of the first column, and with one chart of the error against each measure.
    """
    error, section = "mae_mean", "trade-off"
    columns = [error, *(f"{name}_mean" for name in REPORTED), "seconds"]
    common = {"deleted": False, "isGenerated": False}
    charts = [
        {
            **common,
            "uuid": name,
            "type": "SCATTER",
            "runsCountToCompare": 100,
            "metricSectionId": section,
            "xaxis": {"key": f"{name}_mean", "type": "METRIC"},
            "yaxis": {"key": error, "type": "METRIC"},
        }
        for name in REPORTED
    ]
    shown = {"uuid": section, "name": "Trade-off", "display": True, "isReordered": False}
    state = {
        "searchFilter": f"tags.`{TRIAL}` != ''",  # else a row per run hides its trials
        "orderByKey": f"metrics.`{error}`",
        "orderByAsc": True,
        "runsHiddenMode": "SHOWALL",
        "isAccordionReordered": True,  # else sections are sorted by name
        "selectedColumns": ["attributes.`Source`", *(f"metrics.`{name}`" for name in columns)],
        "compareRunCharts": charts,
        "compareRunSections": [{**common, **shown}],
    }
    view = f"mlflow.sharedViewState.{VIEW}"
    return {_KIND: "custom_model_development", view: json.dumps(state)}


def prepare_stores(settings: Settings) -> None:
    """Check that runs and models can be recorded, and create the default database if needed."""
    quiet_ecosystem()
    share_trust()
    # MLflow would print addresses with passwords.
    MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.set(True)  # type: ignore[no-untyped-call]
    # MLflow would print a traceback beside our message about a damaged database.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    for uri in dict.fromkeys((tracking_uri(settings), registry_uri(settings))):
        check_answers(uri)
        if (path := sqlite_path(uri)) is not None:
            settings.mlflow.mkdir(parents=True, exist_ok=True)
            with FileLock(settings.mlflow / "write.lock"):  # one process creates the database
                prepare_database(path, _open_database, (*FAULTS, CommandError))


def _open_database(path: Path) -> None:
    """Open a database with MLflow, which creates missing tables."""
    uri = f"sqlite:///{path}"
    client = MlflowClient(uri, uri)
    within(_CREATION_SECONDS, lambda: client.search_experiments(max_results=1))


def keep_file(tracking: Tracking, run: str, name: str, data: bytes) -> None:
    """Upload a file to a run under a name such as folder/file, unless it has this file."""

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
    """Return the content of a file of a run, or None."""
    if not has_file(client, run, name):
        return None
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(run, name, folder)).read_bytes()
