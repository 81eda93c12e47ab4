"""Registered models: each champion is registered once, aliases select the served version."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import mlflow
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature

from configs.errors import UserError, check_name
from fkd.problems.bundle import Bundle
from tasks.select.champion import Champion
from tasks.storage.files import pack_npz, sha256, unpack_npz
from tasks.storage.settings import Settings, plain_markdown
from tasks.storage.store import open_store
from tasks.track.client import (
    TimedClient,
    not_recorded,
    patience,
    registry_uri,
    tracking_uri,
    within,
)
from tasks.track.runs import CHAMPION_TAG, FAULTS, RunDetails, Tracking, prepare_stores

T = TypeVar("T")
ADDRESS = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+|latest))")
# Errors of a loaded model for rows: by MLflow's signature, or by the model.
REFUSALS = (MlflowException, ValueError, TypeError, KeyError)
# Aliases of the served version, and of the last one that the gate refused.
CHAMPION = "champion"
CANDIDATE = "candidate"
BUNDLE_TAG = "fkd.bundle"  # of a version: the sha256 of its bundle
REQUIREMENTS = ("mlflow", "numpy", "pandas", "scipy", "scikit-learn")
CHECK_TAG = "fkd.check."  # begins the tag with the outcome of a check
_RAN = "fkd.ran"
_PROMOTION_TAGS = ("fkd.promoted_by", "fkd.promoted_why", "fkd.promoted_at")
_PROMOTED = "\n\nPromoted to champion by "  # begins the paragraph of a description
_BUNDLE = Path("artifacts") / "bundle.npz"
_ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
_MOST = 1000  # registered models in one answer of MLflow


def registry_call(settings: Settings, work: Callable[[], T]) -> T:
    """Return the result of `work`; errors of MLflow become a `TrackingUnreachableError`."""
    try:
        return work()
    except FAULTS as error:
        cause = not_recorded(registry_uri(settings), error)
    raise cause  # without the chain, in which MLflow shows the address with the password


@dataclass(frozen=True)
class Promotion:
    """A person's decision to make a version the champion, stored in the version's tags."""

    who: str
    why: str
    at: str  # in ISO form, UTC

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> "Promotion | None":
        """Return the promotion of a version, None if nobody promoted it."""
        found = [tags[name] for name in _PROMOTION_TAGS if name in tags]
        return cls(*found) if len(found) == len(_PROMOTION_TAGS) else None

    def tags(self) -> dict[str, str]:
        """Return the tags from which `from_tags` reads it."""
        return dict(zip(_PROMOTION_TAGS, (self.who, self.why, self.at), strict=True))

    def __str__(self) -> str:
        moment = self.at[:16].replace("T", " ")
        return f"Promoted to champion by {self.who} on {moment} UTC. Reason: {self.why}"


class Registry(Tracking):
    """The registered models of an MLflow server, with the runs of an experiment."""

    def register(
        self,
        run: str,
        model: str,
        champion: Champion,
        details: RunDetails,
        *,
        verdict: Mapping[str, str],
        alias: str,
        ran: str,
    ) -> str:
        """Register a champion once and return its address.

        Parameters
        ----------
        run
            The parent run, which has the model's files.
        model
            The registered name.
        champion, details
            The champion with its description, parameters, held-out metrics and data.
        verdict
            Tags of the gate's verdict and of the finding, updated on an existing version.
        alias
            The alias to set, unless a later run or a later promotion has set it.
        ran
            Time of the selection, in ISO form.
        """
        client = self.client

        def work() -> None:
            with addressed(self.settings):
                version = self._version(model, champion.key)
                if version is None:
                    version = self._create_version(run, model, champion, details)
                    # Two homes may register the model at once. The first version stays.
                    first = self._version(model, champion.key) or version
                    if first != version:
                        client.delete_model_version(model, version)
                        version = first
            for name, value in verdict.items():
                client.set_model_version_tag(model, version, name, value)
            known = client.get_model_version(model, version)
            note = _described(details.note, Promotion.from_tags(known.tags))
            if known.description != note:
                client.update_model_version(model, version, note)
            found = client.search_registered_models(f"name = '{model}'")
            holder = str(found[0].aliases.get(alias, "")) if found else ""
            later = False
            if holder:  # its alias may have been set after this run was computed
                tags = dict(client.get_model_version(model, holder).tags)
                promotion = Promotion.from_tags(tags)
                later = max(tags.get(_RAN, ""), promotion.at if promotion else "") > ran
            if holder == version or not later:
                client.set_model_version_tag(model, version, _RAN, ran)
            if holder != version and not later:
                client.set_registered_model_alias(model, alias, version)

        self.safely(work)
        return f"models:/{model}@{alias}"

    def _version(self, model: str, key: str) -> str | None:
        """Return the version of a champion, None if it is not registered."""
        found = self.client.search_model_versions(
            f"name = '{model}' and tags.`{CHAMPION_TAG}` = '{key}'"
        )
        known = [int(one.version) for one in found if BUNDLE_TAG in one.tags]
        return str(min(known)) if known else None

    def _create_version(self, run: str, model: str, champion: Champion, details: RunDetails) -> str:
        """Log a model with its held-out metrics and return its new version."""
        client = self.client
        if not client.search_registered_models(f"name = '{model}'"):
            client.create_registered_model(model)
        arrays = pack_npz(champion.bundle.arrays())
        size = len(arrays) + sum(f.stat().st_size for f in Path(str(files("fkd"))).rglob("*.py"))
        deadline = 4 * patience() + patience(size)
        logged = within(deadline, lambda: _log_model(run, champion, details, arrays))
        at, data = client.get_run(run).info.start_time, details.data
        named = {} if data is None else {"dataset_name": data.name, "dataset_digest": data.digest}
        client.log_batch(
            run,
            metrics=[
                Metric(name, value, at, 0, model_id=logged.model_id, run_id=run, **named)
                for name, value in details.metrics.items()
            ],
        )
        tags = {CHAMPION_TAG: champion.key, BUNDLE_TAG: sha256(arrays), "fkd.run": run}
        options: dict[str, Any] = {
            "tags": {**_model_tags(champion), **tags},
            "description": details.note,
        }
        # A separate registry has access to the files of models, but not to runs and logged models.
        # Not by `registered_model_name`, which prints to the user's terminal.
        if registry_uri(self.settings) != self.uri:
            source = str(client.get_logged_model(logged.model_id).artifact_location)
        else:
            source = logged.model_uri
            options |= {"run_id": run, "model_id": logged.model_id}
        return str(client.create_model_version(model, source, **options).version)


def _model_tags(champion: Champion) -> dict[str, str]:
    return {"fkd.trial": champion.trial.key, "fkd.title": champion.title}


def _log_model(run: str, champion: Champion, details: RunDetails, arrays: bytes) -> Any:
    """Log a model with its files on a run and return MLflow's information on it."""
    example = champion.example
    with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run):
        bundle = Path(folder) / "bundle.npz"
        bundle.write_bytes(arrays)
        return mlflow.pyfunc.log_model(
            name="champion",
            python_model=str(files("tasks") / "track" / "served_model.py"),
            artifacts={"bundle": str(bundle)},
            model_config={"bundle_sha256": sha256(arrays)},
            # With the library, so that a server needs no fkd.
            code_paths=[str(files("fkd"))],
            signature=infer_signature(example, champion.bundle.predict(example)),
            input_example=example,
            # Without a list MLflow would guess one by importing everything for 15 s.
            pip_requirements=[f"{name}=={installed(name)}" for name in REQUIREMENTS],
            params=dict(details.params),
            # At the run's own step MLflow would give the model the metrics of an earlier one.
            step=1,
            tags={**_model_tags(champion), "mlflow.note.content": details.note},
        )


def _described(note: str, promotion: Promotion | None) -> str:
    """Return the description of a version with its promotion as the last paragraph."""
    if promotion is None:
        return note
    return f"{note.partition(_PROMOTED)[0]}\n\n{plain_markdown(str(promotion))}"


def promote_version(settings: Settings, model: str, version: int, promotion: Promotion) -> None:
    """Make a version the champion and store the promotion in its tags and its description."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> None:
        require_model(client, model)
        versions = {int(v.version) for v in client.search_model_versions(f"name = '{model}'")}
        if version not in versions:
            known = ", ".join(map(str, sorted(versions)))
            raise UserError(f"{model} has no version {version}. It has {known}.")
        verified_bundle(settings, model, version)
        for name, value in promotion.tags().items():
            client.set_model_version_tag(model, str(version), name, value)
        note = client.get_model_version(model, str(version)).description or ""
        client.update_model_version(model, str(version), _described(note, promotion))
        client.set_registered_model_alias(model, CHAMPION, str(version))

    registry_call(settings, work)


def require_model(client: TimedClient, model: str) -> Any:
    """Return the registered model of a name; raise an error if there is none."""
    found = client.search_registered_models(f"name = '{model}'")
    if not found:
        known = ", ".join(sorted(m.name for m in client.search_registered_models())) or "none"
        raise UserError(f"There is no registered model {model!r}. Registered are: {known}.")
    return found[0]


def load_model(settings: Settings, address: str) -> Any:
    """Return the model at an MLflow address, such as models:/NAME@champion, as a pyfunc model.

    The bundle of a model that fkd registered is compared with its checksum.
    """
    prepare_stores(settings)
    if (parts := ADDRESS.fullmatch(address)) is not None:
        name, version = registry_call(settings, lambda: _resolve(TimedClient(settings), parts))
        address = f"models:/{name}/{version}"  # an alias may move meanwhile
        tags = registry_call(
            settings, lambda: TimedClient(settings).get_model_version(name, str(version)).tags
        )
        if CHAMPION_TAG in tags:
            verified_bundle(settings, name, version)

    def work() -> Any:
        with addressed(settings):
            try:
                return mlflow.pyfunc.load_model(address)
            except ValueError as error:  # of the served model for its bundle
                raise UserError(f"{address} cannot be loaded: {error}") from error

    return registry_call(settings, lambda: within(10 * patience(), work))


def _resolve(client: TimedClient, parts: re.Match[str]) -> tuple[str, int]:
    """Return name and version of a model's address; errors name the nearest existing ones."""
    name, alias = parts["name"], parts["alias"]
    models: dict[str, Any] = {
        model.name: model for model in client.search_registered_models(max_results=_MOST)
    }
    if not models:
        raise UserError(
            f"There is no registered model {name!r}, nor any other. `fkd run` registers its "
            "champion."
        )
    try:
        check_name(name, sorted(models), key="a registered model")
        if alias is not None:
            aliases = models[name].aliases
            check_name(alias, sorted(aliases) or ["none"], key=f"an alias of {name}")
            return name, int(aliases[alias])
        versions = client.search_model_versions(f"name = '{name}'")
        known = sorted((int(one.version) for one in versions), reverse=True)
        if parts["version"] == "latest" and known:
            return name, known[0]
        check_name(parts["version"], map(str, known), key=f"a version of {name}")
    except ValueError as error:
        raise UserError(f"{error}.") from None
    return name, int(parts["version"])


def verified_bundle(settings: Settings, name: str, version: int) -> bytes:
    """Return the bytes of a version's bundle, compared with the registered checksum."""
    address = f"models:/{name}/{version}"

    def download() -> bytes:
        with tempfile.TemporaryDirectory() as folder, addressed(settings):
            root = mlflow.artifacts.download_artifacts(artifact_uri=address, dst_path=folder)
            path = Path(root) / _BUNDLE
            if not path.is_file():
                raise UserError(
                    f"{address} must be a model that `fkd run` registered, but it has no "
                    f"{_BUNDLE}. Use `fkd audit --model` for models of others."
                )
            return path.read_bytes()

    def work() -> tuple[bytes, str | None]:
        tags = TimedClient(settings).get_model_version(name, str(version)).tags
        return within(10 * patience(), download), tags.get(BUNDLE_TAG)

    data, expected = registry_call(settings, work)
    if expected is None:
        raise UserError(
            f"{address} must have the sha256 of its bundle in the tag {BUNDLE_TAG}, got none. Run "
            "its configuration again with `fkd run`, which registers a new version."
        )
    if (found := sha256(data)) != expected:
        raise UserError(
            f"{address} must have a bundle.npz with the sha256 {expected[:12]}... of its tag "
            f"{BUNDLE_TAG}, got {found[:12]}...: the file was changed after it was registered. "
            "Restore it, or delete the version and run its configuration again with `fkd run`."
        )
    return data


@contextmanager
def addressed(settings: Settings) -> Iterator[None]:
    """Set the addresses of runs and models for MLflow's own functions."""
    before = {name: os.environ.get(name) for name in _ADDRESSES}
    mlflow.set_tracking_uri(tracking_uri(settings))
    mlflow.set_registry_uri(registry_uri(settings))
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]
        mlflow.set_registry_uri(None)  # type: ignore[arg-type]
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class KnownVersion:
    """One version of a registered model."""

    model: str
    version: int
    tags: Mapping[str, str]
    created: datetime
    is_champion: bool

    @property
    def run(self) -> str:
        """The parent run with its files; empty for a version that fkd did not register."""
        return self.tags.get("fkd.run", "")

    @property
    def key(self) -> str:
        """The champion's key."""
        return self.tags.get(CHAMPION_TAG, "")

    @property
    def promotion(self) -> Promotion | None:
        """The promotion, None if nobody promoted it."""
        return Promotion.from_tags(self.tags)

    @property
    def issues(self) -> tuple[str, ...]:
        """Codes of the checks that found an issue when it was registered."""
        outcomes = self.tags.items()
        found = (name for name, one in outcomes if one == "issue" and name.startswith(CHECK_TAG))
        return tuple(sorted(name.removeprefix(CHECK_TAG) for name in found))

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.tags.get("fkd.title", f"version {self.version}")


def versions_of(settings: Settings, model: str) -> list[KnownVersion]:
    """Return every version of a registered model, the first one first."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> list[KnownVersion]:
        champion = require_model(client, model).aliases.get(CHAMPION)
        found = [
            KnownVersion(
                model,
                int(one.version),
                dict(one.tags),
                datetime.fromtimestamp(one.creation_timestamp / 1000, UTC),
                str(one.version) == str(champion),
            )
            for one in client.search_model_versions(f"name = '{model}'")
        ]
        return sorted(found, key=lambda one: one.version)

    return registry_call(settings, work)


def champion_version(settings: Settings, model: str) -> KnownVersion:
    """Return the served version of a registered model."""
    versions = versions_of(settings, model)
    for version in versions:
        if version.is_champion:
            return version
    raise UserError(
        f"{model} has no champion, only {len(versions)} versions that the gate refused. Promote "
        f"one by `fkd promote {model} --version N --who ... --why ...`."
    )


def tag_version(settings: Settings, version: KnownVersion, tags: Mapping[str, str]) -> None:
    """Set tags on a version."""
    client = TimedClient(settings)

    def work() -> None:
        for name, value in tags.items():
            client.set_model_version_tag(version.model, str(version.version), name, value)

    registry_call(settings, work)


@dataclass(frozen=True)
class RegisteredBundle:
    """A registered model whose bundle was copied to the store, so that workers can read it.

    Parameters
    ----------
    name, version
        Name and version in the registry.
    digest
        The sha256 of the bundle.
    settings
        The store's settings for workers.
    """

    name: str
    version: int
    digest: str
    settings: Settings

    @property
    def address(self) -> str:
        """The address of this version, which aliases do not change."""
        return f"models:/{self.name}/{self.version}"

    def bundle(self) -> Bundle:
        """Return the model. Nothing is unpickled."""
        store, name = open_store(self.settings), _stored_name(self.digest)
        data = store.read(name, cache=True)
        if data is None:
            raise FileNotFoundError(
                f"{store.location(name)} must be readable on every worker, but it is absent or "
                "damaged. Set FKD_STORE to a location that all of them can read, then run the same "
                "command"
            )
        try:
            return Bundle.from_arrays(unpack_npz(data))
        except ValueError as error:
            raise UserError(
                f"{self.address} cannot be used: {error}. Run its configuration again with `fkd "
                "run`, or name another version."
            ) from error


def fetch_bundle(settings: Settings, address: str) -> RegisteredBundle:
    """Copy the bundle at an address such as models:/NAME@champion to the store and return it."""
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        raise UserError(
            "The address of a model must be models:/NAME@champion, another alias, or "
            f"models:/NAME/VERSION, got {address!r}."
        )
    prepare_stores(settings)
    name, version = registry_call(settings, lambda: _resolve(TimedClient(settings), parts))
    data = verified_bundle(settings, name, version)
    digest, store = sha256(data), open_store(settings)
    if store.read(_stored_name(digest)) != data:
        store.write(_stored_name(digest), data)
    return RegisteredBundle(name, version, digest, settings.for_workers())


def _stored_name(digest: str) -> str:
    """Return the name of a bundle in the store."""
    return f"bundles/{digest}.npz"
