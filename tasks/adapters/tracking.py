"""MLflow runs of an experiment, filled from stored results so that a repeat adds nothing."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from tasks.adapters.reachable import TrackingUnreachableError, check_answers
from tasks.adapters.settings import Settings, quiet_ecosystem

T = TypeVar("T")
_TRIES = 3
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class TrialRun:
    """One trial as MLflow shall hold it."""

    key: str
    name: str
    params: Mapping[str, str]
    tags: Mapping[str, str]
    folds: Mapping[str, Sequence[float]]  # metric: one value per fold, in order
    summary: Mapping[str, float]  # means with standard deviations


class Tracking:
    """One MLflow experiment, created on first use.

    Whatever is written here is looked for first, so that each step can be repeated.
    """

    def __init__(self, settings: Settings, experiment: str) -> None:
        quiet_ecosystem()
        self.uri = tracking_uri(settings)
        check_answers(self.uri)
        settings.mlflow.mkdir(parents=True, exist_ok=True)
        # Processes that open one fresh database at once would race in its migration; two that
        # look for a run at once would both miss it, then both create it.
        self._lock = FileLock(settings.mlflow / "write.lock")
        self.client, self.experiment_id = self.safely(lambda: self._open(experiment, settings))

    def _open(self, experiment: str, settings: Settings) -> tuple[MlflowClient, str]:
        client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
        return client, _experiment(client, experiment, settings)

    def safely(self, work: Callable[[], T]) -> T:
        """Return what the work returns; one writer at a time, tried again while MLflow answers."""
        with self._lock:
            for _ in range(_TRIES):
                try:
                    return work()
                except (MlflowException, OSError) as error:
                    cause = error
                check_answers(self.uri)
                time.sleep(_PAUSE_SECONDS)
        said = " ".join(str(cause).split())[:200]
        raise TrackingUnreachableError(self.uri, f"{type(cause).__name__}: {said}") from cause

    def parent_run(self, identity: str, name: str, tags: Mapping[str, str]) -> str:
        """Return the experiment's parent run, found by its identity or created."""
        return self.safely(lambda: self._parent_run(identity, name, tags))

    def _parent_run(self, identity: str, name: str, tags: Mapping[str, str]) -> str:
        found = self.client.search_runs(
            [self.experiment_id], f"tags.`fkd.identity` = '{identity}'", max_results=1
        )
        run = found[0] if found else self._create(name, {**tags, "fkd.identity": identity})
        return str(run.info.run_id)

    def log_trials(self, parent: str, trials: Iterable[TrialRun]) -> int:
        """Return how many trials were new; a trial that has its run is left alone."""
        wanted, added = list(trials), set[str]()
        self.safely(lambda: self._log_trials(parent, wanted, added))
        return len(added)

    def _log_trials(self, parent: str, trials: Sequence[TrialRun], added: set[str]) -> None:
        """Record what is not recorded yet; a repeat goes on where the last try was cut off."""
        known = self._trial_runs()
        for trial in trials:
            run = known.get(trial.key)
            if run is not None and run.info.status == "FINISHED":
                continue
            if run is None:
                own = {"fkd.trial": trial.key, "mlflow.parentRunId": parent}
                run = self._create(trial.name, {**trial.tags, **own})
            self.client.log_batch(
                run.info.run_id,
                # The time of the run's start: logged a second time, a value is not held twice.
                metrics=_metrics(trial, run.info.start_time),
                params=[Param(k, v) for k, v in trial.params.items()],
            )
            self.client.set_terminated(run.info.run_id, "FINISHED")
            added.add(trial.key)

    def finish(self, run: str, tags: Mapping[str, str], folder: Path) -> None:
        """Put the experiment's files and tags on its parent run, then close it."""

        def work() -> None:
            self.client.log_batch(run, tags=[RunTag(k, v) for k, v in tags.items()])
            self.client.log_artifacts(run, str(folder))
            self.client.set_terminated(run, "FINISHED")

        self.safely(work)

    def _create(self, name: str, tags: Mapping[str, str]) -> Run:
        return self.client.create_run(self.experiment_id, tags={**tags, "mlflow.runName": name})

    def _trial_runs(self) -> dict[str, Run]:
        """Return the runs of trials by key, finished or not."""
        known: dict[str, Run] = {}
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], max_results=1000, page_token=token)
            known |= {r.data.tags["fkd.trial"]: r for r in page if "fkd.trial" in r.data.tags}
            token = page.token
            if not token:
                return known


def tracking_uri(settings: Settings) -> str:
    """Return the user's tracking address, or the database under FKD_HOME."""
    return settings.mlflow_tracking_uri or f"sqlite:///{settings.mlflow / 'mlflow.db'}"


def _experiment(client: MlflowClient, name: str, settings: Settings) -> str:
    """Return the id of the experiment of that name, created if absent."""
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage == "deleted":
        raise UserError(
            f"the MLflow experiment {name!r} is deleted; restore it, or set another name by "
            "--set tracking.experiment=..."
        )
    if found is not None:
        return str(found.experiment_id)
    artifacts = None
    if settings.mlflow_tracking_uri is None:
        artifacts = (settings.mlflow / "artifacts" / name).as_uri()
    return str(client.create_experiment(name, artifact_location=artifacts))


def _metrics(trial: TrialRun, at: int) -> list[Metric]:
    """Return a trial's numbers at a time: each fold as a step, means with deviations without."""
    folds = [
        Metric(name, value, at, step)
        for name, values in trial.folds.items()
        for step, value in enumerate(values)
    ]
    return folds + [Metric(name, value, at, 0) for name, value in trial.summary.items()]
