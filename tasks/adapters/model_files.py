"""The arrays of a registered model, read without running anything that lies beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from configs.errors import UserError
from configs.nearest import check_name
from fkd.problems.bundle import Bundle
from tasks.adapters.files import sha256
from tasks.adapters.registry import ADDRESS, told, verified_bundle
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.timed_client import TimedClient
from tasks.adapters.tracking import prepare_stores

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
        arrays = store.read_arrays(name, again=True)
        if arrays is None:
            raise FileNotFoundError(
                f"{store.shown(name)} must be readable on every worker, but it is absent or "
                "damaged; let FKD_STORE be a place that all of them see, then run the same command"
            )
        try:
            return Bundle.from_arrays(arrays)
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
