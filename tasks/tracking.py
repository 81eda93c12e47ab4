"""MLflow runs of an experiment, filled from stored results so that a repeat adds nothing."""

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import mlflow
import pandas as pd
from filelock import FileLock
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from fkd.bundle import Bundle
from tasks.files import pack_arrays
from tasks.settings import Settings

_ANSWER_SECONDS = 5.0


class TrackingUnreachableError(UserError):
    """The tracking server does not answer; everything computed is kept on disk."""


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
    """One MLflow experiment, created on first use."""

    def __init__(self, settings: Settings, experiment: str) -> None:
        self.uri = tracking_uri(settings)
        _check_answers(self.uri)
        # Several processes that open one fresh database at once would race in its migration.
        settings.mlflow.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.mlflow / "create.lock"):
            self.client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            self.experiment_id = self._experiment(experiment, settings)

    def _experiment(self, name: str, settings: Settings) -> str:
        found = self.client.get_experiment_by_name(name)
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
        return str(self.client.create_experiment(name, artifact_location=artifacts))

    def parent_run(self, identity: str, name: str, tags: Mapping[str, str]) -> str:
        """Return the experiment's parent run, found by its identity or created."""
        return self._run("fkd.identity", identity, name, tags)

    def log_trials(self, parent: str, trials: Iterable[TrialRun]) -> int:
        """Return how many trials were new; a trial that has its run is left alone."""
        known = self._finished_trials()
        added = 0
        for trial in trials:
            if trial.key in known:
                continue
            tags = {**trial.tags, "mlflow.parentRunId": parent}
            run = self._run("fkd.trial", trial.key, trial.name, tags)
            self.client.log_batch(
                run,
                metrics=_metrics(trial),
                params=[Param(k, v) for k, v in trial.params.items()],
            )
            self.client.set_terminated(run, "FINISHED")
            added += 1
        return added

    def register(
        self,
        run: str,
        model: str,
        *,
        key: str,
        bundle: Bundle,
        example: pd.DataFrame,
        requirements: Sequence[str],
        tags: Mapping[str, str],
    ) -> str:
        """Return the champion's address; the one that is registered already stays as it is."""
        address = f"models:/{model}@champion"
        if self._champion_key(model) == key:
            return address
        mlflow.set_tracking_uri(self.uri)
        mlflow.set_registry_uri(self.uri)
        with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run):
            arrays = Path(folder) / "bundle.npz"
            arrays.write_bytes(pack_arrays(bundle.arrays()))
            logged = mlflow.pyfunc.log_model(
                name="champion",
                python_model=str(files("tasks") / "served_model.py"),
                artifacts={"bundle": str(arrays)},
                # The library travels with the model: whoever serves it need not have fkd.
                code_paths=[str(files("fkd"))],
                signature=infer_signature(example, bundle.predict(example)),
                input_example=example,
                # Without a list MLflow would guess one by importing everything for 15 s.
                pip_requirements=list(requirements),
            )
        if not self.client.search_registered_models(f"name = '{model}'"):
            self.client.create_registered_model(model)
        # Not by `registered_model_name`, which prints to the user's terminal.
        created = self.client.create_model_version(
            model,
            logged.model_uri,
            run,
            tags={**tags, "fkd.champion": key},
            model_id=logged.model_id,
        )
        self.client.set_registered_model_alias(model, "champion", created.version)
        return address

    def _champion_key(self, model: str) -> str | None:
        """Return which champion the alias points at, None where there is none."""
        try:
            found = self.client.get_model_version_by_alias(model, "champion")
        except MlflowException:
            return None
        return found.tags.get("fkd.champion")

    def finish(self, run: str, tags: Mapping[str, str], folder: Path) -> None:
        """Put the experiment's files and tags on its parent run, then close it."""
        self.client.log_batch(run, tags=[RunTag(k, v) for k, v in tags.items()])
        self.client.log_artifacts(run, str(folder))
        self.client.set_terminated(run, "FINISHED")

    def _run(self, tag: str, value: str, name: str, tags: Mapping[str, str]) -> str:
        found = self.client.search_runs(
            [self.experiment_id], f"tags.`{tag}` = '{value}'", max_results=1
        )
        if found:
            return str(found[0].info.run_id)
        run = self.client.create_run(
            self.experiment_id, tags={**tags, tag: value, "mlflow.runName": name}
        )
        return str(run.info.run_id)

    def _finished_trials(self) -> set[str]:
        """Return the keys of the trials that are completely recorded."""
        known: set[str] = set()
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id],
                "attributes.status = 'FINISHED'",
                max_results=1000,
                page_token=token,
            )
            known |= {r.data.tags["fkd.trial"] for r in page if "fkd.trial" in r.data.tags}
            token = page.token
            if not token:
                return known


def tracking_uri(settings: Settings) -> str:
    """Return the user's tracking address, or the database under FKD_HOME."""
    return settings.mlflow_tracking_uri or f"sqlite:///{settings.mlflow / 'mlflow.db'}"


def load_champion(settings: Settings, model: str) -> Any:
    """Return the registered champion as a pyfunc model."""
    mlflow.set_tracking_uri(tracking_uri(settings))
    return mlflow.pyfunc.load_model(f"models:/{model}@champion")


def _check_answers(uri: str) -> None:
    """Refuse a server that does not answer, quickly: MLflow itself would retry for minutes."""
    if not uri.startswith("http"):
        return
    try:
        httpx.get(uri.rstrip("/") + "/health", timeout=_ANSWER_SECONDS)
    except httpx.HTTPError as error:
        raise TrackingUnreachableError(
            f"MLFLOW_TRACKING_URI must name a running MLflow server, but {uri} did not answer "
            f"({type(error).__name__}); everything computed is kept, and the same command records "
            "it once the server is back."
        ) from error


def _metrics(trial: TrialRun) -> list[Metric]:
    """Return a trial's numbers: each fold as a step, means with deviations without."""
    now = int(time.time() * 1000)
    folds = [
        Metric(name, value, now, step)
        for name, values in trial.folds.items()
        for step, value in enumerate(values)
    ]
    return folds + [Metric(name, value, now, 0) for name, value in trial.summary.items()]
