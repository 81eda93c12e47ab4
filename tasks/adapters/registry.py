"""Registered models: a selected one is registered once, aliases say which is served."""

import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import infer_signature
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from fkd.catalog.bundle import Bundle
from tasks.adapters.files import pack_arrays
from tasks.adapters.reachable import check_answers
from tasks.adapters.settings import Settings, quiet_ecosystem
from tasks.adapters.tracking import Tracking, tracking_uri

# Aliases of registered models: what is served, what the gate has refused last.
CHAMPION = "champion"
CANDIDATE = "candidate"


class Registry(Tracking):
    """The registered models of one MLflow, beside the runs of an experiment."""

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
        verdict: str,
        alias: str,
    ) -> str:
        """Return the model's address; one that is registered already is registered once.

        Parameters
        ----------
        run, model, key, bundle, example, requirements, tags
            Parent run, registered name, what the version is found by, what it consists of.
        verdict
            What the gate said of it, kept with the version.
        alias
            The one that points at it from now on; all others stay where they are.
        """

        def work() -> None:
            version = self._version(model, key)
            if version is None:
                logged = self._log_model(run, bundle, example, requirements)
                version = self._create_version(model, logged, run, {**tags, "fkd.champion": key})
            self.client.set_model_version_tag(model, version, "fkd.verdict", verdict)
            if self._alias(model, alias) != version:
                self.client.set_registered_model_alias(model, alias, version)

        self.safely(work)
        return f"models:/{model}@{alias}"

    def _log_model(
        self, run: str, bundle: Bundle, example: pd.DataFrame, requirements: Sequence[str]
    ) -> Any:
        mlflow.set_tracking_uri(self.uri)
        mlflow.set_registry_uri(self.uri)
        with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run):
            arrays = Path(folder) / "bundle.npz"
            arrays.write_bytes(pack_arrays(bundle.arrays()))
            return mlflow.pyfunc.log_model(
                name="champion",
                python_model=str(files("tasks") / "adapters" / "served_model.py"),
                artifacts={"bundle": str(arrays)},
                # The library travels with the model: whoever serves it need not have fkd.
                code_paths=[str(files("fkd"))],
                signature=infer_signature(example, bundle.predict(example)),
                input_example=example,
                # Without a list MLflow would guess one by importing everything for 15 s.
                pip_requirements=list(requirements),
            )

    def _create_version(self, model: str, logged: Any, run: str, tags: Mapping[str, str]) -> str:
        if not self.client.search_registered_models(f"name = '{model}'"):
            self.client.create_registered_model(model)
        # Not by `registered_model_name`, which prints to the user's terminal.
        created = self.client.create_model_version(
            model, logged.model_uri, run, tags=dict(tags), model_id=logged.model_id
        )
        return str(created.version)

    def _version(self, model: str, key: str) -> str | None:
        """Return the version under which a champion is registered, None where it is not."""
        found = self.client.search_model_versions(
            f"name = '{model}' and tags.`fkd.champion` = '{key}'", max_results=1
        )
        return str(found[0].version) if found else None

    def _alias(self, model: str, alias: str) -> str | None:
        """Return which version an alias points at, None where there is none."""
        found = self.client.search_registered_models(f"name = '{model}'")
        version = found[0].aliases.get(alias) if found else None
        return None if version is None else str(version)


def promote_version(settings: Settings, model: str, version: int, tags: Mapping[str, str]) -> None:
    """Let a model's champion be one of its versions, by a person's word; the tags say whose."""
    quiet_ecosystem()
    uri = tracking_uri(settings)
    check_answers(uri)
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    if not client.search_registered_models(f"name = '{model}'"):
        known = ", ".join(sorted(m.name for m in client.search_registered_models())) or "none"
        raise UserError(f"there is no registered model {model!r}; registered are: {known}.")
    versions = {int(v.version) for v in client.search_model_versions(f"name = '{model}'")}
    if version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise UserError(f"{model} has no version {version}; it has {known}.")
    for name, value in tags.items():
        client.set_model_version_tag(model, str(version), name, value)
    client.set_registered_model_alias(model, CHAMPION, str(version))


def load_champion(settings: Settings, model: str) -> Any:
    """Return the registered champion as a pyfunc model."""
    mlflow.set_tracking_uri(tracking_uri(settings))
    mlflow.set_registry_uri(tracking_uri(settings))
    return mlflow.pyfunc.load_model(f"models:/{model}@{CHAMPION}")
