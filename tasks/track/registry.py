"""Registered models: a selected one is registered once, aliases say which is served."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import mlflow
import pandas as pd
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature

from configs.errors import UserError, check_name
from fkd.problems.bundle import Bundle
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
from tasks.track.runs import CHAMPION_TAG, FAULTS, Tracking, UsedData, prepare_stores

T = TypeVar("T")
ADDRESS = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+|latest))")
# By which a loaded model refuses rows: MLflow's signature, then whatever stands behind it.
REFUSALS = (MlflowException, ValueError, TypeError, KeyError)
# Aliases of registered models: what is served, what the gate has refused last.
CHAMPION = "champion"
CANDIDATE = "candidate"
_RAN = "fkd.ran"
_PROMOTED = "\n\nPromoted to champion by "  # begins the paragraph of a description
BUNDLE_TAG = "fkd.bundle"  # of a version: the sha256 of its bundle
_BUNDLE = Path("artifacts") / "bundle.npz"
_ADDRESSES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")


@dataclass(frozen=True)
class Promotion:
    """A person's decision that a version is the champion, kept in the tags of the version."""

    who: str
    why: str
    at: str  # in ISO form, UTC

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> "Promotion | None":
        """Return the promotion of a version, None if nobody promoted it."""
        names = ("fkd.promoted_by", "fkd.promoted_why", "fkd.promoted_at")
        return cls(*(tags[name] for name in names)) if all(n in tags for n in names) else None

    def tags(self) -> dict[str, str]:
        """Return the tags from which `from_tags` reads it."""
        return {
            "fkd.promoted_by": self.who,
            "fkd.promoted_why": self.why,
            "fkd.promoted_at": self.at,
        }

    def __str__(self) -> str:
        moment = self.at[:16].replace("T", " ")
        return f"Promoted to champion by {self.who} on {moment} UTC. Reason: {self.why}"


@dataclass(frozen=True)
class ModelVersion:
    """A selected model as the registry shall hold it."""

    model: str  # the registered name
    key: str  # what the version is found by
    bundle: Bundle
    example: pd.DataFrame
    requirements: Sequence[str]
    tags: Mapping[str, str]
    note: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]  # on held-out rows
    data: UsedData


class Registry(Tracking):
    """The registered models of one MLflow, beside the runs of an experiment."""

    def register(
        self, run: str, wanted: ModelVersion, *, verdict: Mapping[str, str], alias: str, ran: str
    ) -> str:
        """Return the model's address; one that is registered already is registered once.

        Parameters
        ----------
        run
            The parent run, on which the model's files lie.
        verdict
            Tags on what the gate said of it, what was found; said anew of a version that is there.
        alias
            The one that points at it from now on, unless it points at what a later run or a later
            word of a person made it; all others stay where they are.
        ran
            When the model was selected, in ISO form.
        """
        model = wanted.model

        def work() -> None:
            with addressed(self.settings):
                version = self._version(model, wanted.key)
                if version is None:
                    version = self._create_version(run, wanted)
                    # Versions are numbered by the server: of two homes at once the first stays.
                    first = self._version(model, wanted.key) or version
                    if first != version:
                        self.client.delete_model_version(model, version)
                        version = first
            for name, value in verdict.items():
                self.client.set_model_version_tag(model, version, name, value)
            known = self.client.get_model_version(model, version)
            note = _described(wanted.note, Promotion.from_tags(known.tags))
            if known.description != note:
                self.client.update_model_version(model, version, note)
            holder = self._alias(model, alias)
            if holder == version or not self._later(model, holder, ran):
                self.client.set_model_version_tag(model, version, _RAN, ran)
            if holder != version and not self._later(model, holder, ran):
                self.client.set_registered_model_alias(model, alias, version)

        self.safely(work)
        return f"models:/{model}@{alias}"

    def _create_version(self, run: str, wanted: ModelVersion) -> str:
        if not self.client.search_registered_models(f"name = '{wanted.model}'"):
            self.client.create_registered_model(wanted.model)
        arrays = pack_npz(wanted.bundle.arrays())
        logged = self._log_model(run, wanted, arrays)
        self._log_numbers(run, wanted, logged.model_id)
        # A registry apart from the runs knows nothing of their models, only of files.
        apart = registry_uri(self.settings) != self.uri
        tags = {**wanted.tags, CHAMPION_TAG: wanted.key, BUNDLE_TAG: sha256(arrays)}
        # Not by `registered_model_name`, which prints to the user's terminal.
        created = self.client.create_model_version(
            wanted.model,
            self._files(logged.model_id) if apart else logged.model_uri,
            None if apart else run,
            tags={**tags, "fkd.run": run},
            description=wanted.note,
            model_id=None if apart else logged.model_id,
        )
        return str(created.version)

    def _log_model(self, run: str, wanted: ModelVersion, arrays: bytes) -> Any:
        library = Path(str(files("fkd")))
        size = len(arrays) + sum(file.stat().st_size for file in library.rglob("*.py"))
        return within(4 * patience() + patience(size), lambda: _logged(run, wanted, arrays))

    def _log_numbers(self, run: str, wanted: ModelVersion, model_id: str) -> None:
        """Put the numbers on held-out rows on the model too, as those of its data."""
        at = self.client.get_run(run).info.start_time
        named = {"dataset_name": wanted.data.name, "dataset_digest": wanted.data.digest}
        self.client.log_batch(
            run,
            metrics=[
                Metric(name, value, at, 0, model_id=model_id, run_id=run, **named)
                for name, value in wanted.metrics.items()
            ],
        )

    def _files(self, model_id: str) -> str:
        return str(self.client.get_logged_model(model_id).artifact_location)

    def _version(self, model: str, key: str) -> str | None:
        """Return the version under which a champion is registered, None if it is not."""
        found = self.client.search_model_versions(
            f"name = '{model}' and tags.`{CHAMPION_TAG}` = '{key}'"
        )
        known = [int(one.version) for one in found if BUNDLE_TAG in one.tags]
        return str(min(known)) if known else None

    def _alias(self, model: str, alias: str) -> str | None:
        """Return which version an alias points at, None where there is none."""
        found = self.client.search_registered_models(f"name = '{model}'")
        version = found[0].aliases.get(alias) if found else None
        return None if version is None else str(version)

    def _later(self, model: str, version: str | None, ran: str) -> bool:
        """Return whether a version got its alias later than a run was made."""
        if version is None:
            return False
        tags: dict[str, str] = self.client.get_model_version(model, version).tags
        promotion = Promotion.from_tags(tags)
        return max(tags.get(_RAN, ""), promotion.at if promotion else "") > ran


def _described(note: str, promotion: Promotion | None) -> str:
    """Return the description of a version with its promotion as the last paragraph."""
    if promotion is None:
        return note
    return f"{note.partition(_PROMOTED)[0]}\n\n{plain_markdown(str(promotion))}"


def promote_version(settings: Settings, model: str, version: int, promotion: Promotion) -> None:
    """Make a version the champion and keep the promotion in its tags and its description."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> None:
        require_model(client, model)
        versions = {int(v.version) for v in client.search_model_versions(f"name = '{model}'")}
        if version not in versions:
            known = ", ".join(map(str, sorted(versions)))
            raise UserError(f"{model} has no version {version}; it has {known}.")
        verified_bundle(settings, model, version)
        for name, value in promotion.tags().items():
            client.set_model_version_tag(model, str(version), name, value)
        note = client.get_model_version(model, str(version)).description or ""
        client.update_model_version(model, str(version), _described(note, promotion))
        client.set_registered_model_alias(model, CHAMPION, str(version))

    told(settings, work)


def require_model(client: TimedClient, model: str) -> None:
    """Refuse a name under which nothing is registered."""
    if not client.search_registered_models(f"name = '{model}'"):
        known = ", ".join(sorted(m.name for m in client.search_registered_models())) or "none"
        raise UserError(f"there is no registered model {model!r}; registered are: {known}.")


def load_champion(settings: Settings, model: str) -> Any:
    """Return the registered champion as a pyfunc model."""
    return load_model(settings, f"models:/{model}@{CHAMPION}")


def bundle_bytes(settings: Settings, name: str, version: int) -> bytes:
    """Return the bytes of a version's bundle, as the registry's files have them."""
    with tempfile.TemporaryDirectory() as folder, addressed(settings):
        root = mlflow.artifacts.download_artifacts(
            artifact_uri=f"models:/{name}/{version}", dst_path=folder
        )
        path = Path(root) / _BUNDLE
        if not path.is_file():
            raise UserError(
                f"models:/{name}/{version} must be a model that `fkd run` registered, but it has "
                f"no {_BUNDLE}; models of others are audited by `fkd audit --model`."
            )
        return path.read_bytes()


def verified_bundle(settings: Settings, name: str, version: int) -> bytes:
    """Return the bytes of a version's bundle; refuse others than those that were registered."""
    address = f"models:/{name}/{version}"

    def work() -> tuple[bytes, str | None]:
        tags = TimedClient(settings).get_model_version(name, str(version)).tags
        data = within(10 * patience(), lambda: bundle_bytes(settings, name, version))
        return data, tags.get(BUNDLE_TAG)

    data, expected = told(settings, work)
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


def load_model(settings: Settings, address: str) -> Any:
    """Return the model at an MLflow address, such as models:/NAME@champion, as a pyfunc model.

    The bundle of a model that fkd registered must be the one that was registered.
    """
    prepare_stores(settings)
    if (asked := ADDRESS.fullmatch(address)) is not None:
        found = told(settings, lambda: _registered(settings, asked))
        if CHAMPION_TAG in found.tags:
            verified_bundle(settings, found.name, int(found.version))
        address = f"models:/{found.name}/{found.version}"  # an alias may move meanwhile

    def work() -> Any:
        with addressed(settings):
            try:
                return mlflow.pyfunc.load_model(address)
            except ValueError as error:  # by which a served model refuses its bundle
                raise UserError(f"{address} cannot be loaded: {error}") from error

    return told(settings, lambda: within(10 * patience(), work))


def _registered(settings: Settings, asked: re.Match[str]) -> Any:
    """Return the version that an address names, as MLflow describes it."""
    client = TimedClient(settings)
    if asked["alias"] is not None:
        return client.get_model_version_by_alias(asked["name"], asked["alias"])
    known = client.search_model_versions(f"name = '{asked['name']}'")
    if asked["version"] == "latest" and known:
        return max(known, key=lambda one: int(one.version))
    return client.get_model_version(asked["name"], asked["version"])


def told(settings: Settings, work: Callable[[], T]) -> T:
    """Return what the work returns; a fault of the registry becomes one sentence."""
    try:
        return work()
    except FAULTS as error:
        cause = not_recorded(registry_uri(settings), error)
    raise cause  # without the chain, in which MLflow tells the address with the password


def _logged(run: str, wanted: ModelVersion, arrays: bytes) -> Any:
    """Return what MLflow knows of the model, once its files lie on the run."""
    with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run):
        bundle = Path(folder) / "bundle.npz"
        bundle.write_bytes(arrays)
        logged = mlflow.pyfunc.log_model(
            name="champion",
            python_model=str(files("tasks") / "track" / "served_model.py"),
            artifacts={"bundle": str(bundle)},
            model_config={"bundle_sha256": sha256(arrays)},
            # The library travels with the model: whoever serves it need not have fkd.
            code_paths=[str(files("fkd"))],
            signature=infer_signature(wanted.example, wanted.bundle.predict(wanted.example)),
            input_example=wanted.example,
            # Without a list MLflow would guess one by importing everything for 15 s.
            pip_requirements=list(wanted.requirements),
            params=dict(wanted.params),
            # At the run's own step MLflow would give the model every number of an earlier one.
            step=1,
            tags={**wanted.tags, "mlflow.note.content": wanted.note},
        )
        return logged


@contextmanager
def addressed(settings: Settings) -> Iterator[None]:
    """Let MLflow's own functions know where runs and models are, for a while."""
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
        """The parent run on which its files lie; empty for one that fkd did not register."""
        return self.tags.get("fkd.run", "")

    @property
    def key(self) -> str:
        """What the champion is found by."""
        return self.tags.get(CHAMPION_TAG, "")

    @property
    def promotion(self) -> Promotion | None:
        """The decision of the person who promoted it, None if nobody did."""
        return Promotion.from_tags(self.tags)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.tags.get("fkd.title", f"version {self.version}")


def versions_of(settings: Settings, model: str) -> list[KnownVersion]:
    """Return every version, the first one first; a model that is not registered is told."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> list[KnownVersion]:
        require_model(client, model)
        (registered,) = client.search_registered_models(f"name = '{model}'")
        champion = registered.aliases.get(CHAMPION)
        found = client.search_model_versions(f"name = '{model}'")
        return sorted(
            (
                KnownVersion(
                    model,
                    int(one.version),
                    dict(one.tags),
                    datetime.fromtimestamp(one.creation_timestamp / 1000, UTC),
                    str(one.version) == str(champion),
                )
                for one in found
            ),
            key=lambda one: one.version,
        )

    return told(settings, work)


def champion_version(settings: Settings, model: str) -> KnownVersion:
    """Return the version that is served; a model without one is told."""
    versions = versions_of(settings, model)
    for version in versions:
        if version.is_champion:
            return version
    raise UserError(
        f"{model} has no champion, only {len(versions)} versions that the gate refused; promote "
        f"one by `fkd promote {model} --version N --who ... --why ...`."
    )


def tag_version(settings: Settings, version: KnownVersion, tags: Mapping[str, str]) -> None:
    """Put tags on a version."""
    client = TimedClient(settings)

    def work() -> None:
        for name, value in tags.items():
            client.set_model_version_tag(version.model, str(version.version), name, value)

    told(settings, work)


_MOST = 1000  # registered models that MLflow lists at once


@dataclass(frozen=True)
class RegisteredBundle:
    """A model that was registered by a run, as the file of its arrays.

    Parameters
    ----------
    name, version
        Under which the registry has it.
    digest
        The sha256 of the file that was registered.
    settings
        Of the store in which its copy lies, so that workers find it.
    """

    name: str
    version: int
    digest: str
    settings: Settings

    @property
    def address(self) -> str:
        """The address of this very version, whatever aliases do later."""
        return f"models:/{self.name}/{self.version}"

    def bundle(self) -> Bundle:
        """Return the model; nothing is unpickled."""
        store, name = open_store(self.settings), _stored_name(self.digest)
        data = store.read(name, cache=True)
        if data is None:
            raise FileNotFoundError(
                f"{store.location(name)} must be readable on every worker, but it is absent or "
                "damaged; let FKD_STORE be a place that all of them see, then run the same command"
            )
        try:
            return Bundle.from_arrays(unpack_npz(data))
        except ValueError as error:
            raise UserError(
                f"{self.address} cannot be used: {error}. Run its configuration again with `fkd "
                "run`, or name another version."
            ) from error


def fetch_bundle(settings: Settings, address: str) -> RegisteredBundle:
    """Return the bundle at an address such as models:/NAME@champion or models:/NAME/3."""
    asked = ADDRESS.fullmatch(address)
    if asked is None:
        raise UserError(
            "a model is named by models:/NAME@champion, another alias, or models:/NAME/VERSION, "
            f"got {address!r}."
        )
    prepare_stores(settings)
    name, version = told(settings, lambda: _resolved(TimedClient(settings), asked.groupdict()))
    data = verified_bundle(settings, name, version)
    digest = sha256(data)
    store = open_store(settings)
    if store.read(_stored_name(digest)) != data:
        store.write(_stored_name(digest), data)
    return RegisteredBundle(name, version, digest, settings.for_workers())


def _stored_name(digest: str) -> str:
    """Return as what the file of a model is kept."""
    return f"bundles/{digest}.npz"


def _resolved(client: TimedClient, asked: Mapping[str, str | None]) -> tuple[str, int]:
    """Return name and version of a model; what the registry lacks is told with the nearest."""
    found = client.search_registered_models(max_results=_MOST)
    models: dict[str, Any] = {model.name: model for model in found}
    name = str(asked["name"])
    if not models:
        raise UserError(
            f"there is no registered model {name!r}, nor any other; `fkd run` registers its "
            "champion."
        )
    try:
        check_name(name, sorted(models), key="a registered model")
        if (alias := asked["alias"]) is not None:
            aliases = models[name].aliases
            check_name(alias, sorted(aliases) or ["none"], key=f"an alias of {name}")
            return name, int(aliases[alias])
        version = str(asked["version"])
        versions = client.search_model_versions(f"name = '{name}'")
        known = sorted((int(one.version) for one in versions), reverse=True)
        check_name(version, map(str, known), key=f"a version of {name}")
    except ValueError as error:
        raise UserError(f"{error}.") from None
    return name, int(version)
