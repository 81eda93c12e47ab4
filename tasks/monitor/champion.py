"""Load a registered champion with its held-out record and configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import yaml

from configs.errors import UserError
from configs.load import parse_config
from configs.run import RunConfig
from fkd.core.arrays import Array
from fkd.problems.bundle import NonFinitePredictionError
from fkd.problems.table import Table
from tasks.data.load import Loaded, load_table, read_prepared
from tasks.data.user_table import raw_frame
from tasks.select.judgement import HeldOutRecord, held_out_record_name
from tasks.storage.files import unpack_npz
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient
from tasks.track.registry import KnownVersion, champion_version, fetch_bundle, registry_call
from tasks.track.runs import read_file

_CHECK = "fkd.check."


@dataclass(frozen=True)
class WatchedChampion:
    """A registered champion with everything that a check of new rows needs.

    Parameters
    ----------
    version
        Its version in the registry.
    config
        The configuration of the run that chose it.
    record
        Its predictions of the held-out rows.
    predict, inputs
        The registered model and its input columns.
    data, parts
        The digest of the rows on which it was chosen, and prefixes of the digests of tables that
        were joined into these rows.
    """

    version: KnownVersion
    config: RunConfig
    record: HeldOutRecord
    predict: Callable[[pd.DataFrame], Any]
    inputs: tuple[str, ...]
    data: str
    parts: tuple[str, ...] = ()

    @property
    def issues(self) -> frozenset[str]:
        """Codes of the checks that found an issue when it was registered."""
        return frozenset(
            name.removeprefix(_CHECK)
            for name, outcome in self.version.tags.items()
            if name.startswith(_CHECK) and outcome == "issue"
        )

    def predictions(self, table: Table) -> Array:
        """Return the predictions of the registered model in the unit of the target."""
        name = f"{self.version.model} version {self.version.version}"
        try:
            frame = raw_frame(table, self.inputs)
        except ValueError as error:
            raise UserError(
                f"{error}. {name} needs {len(self.inputs)} columns; its signature in MLflow lists "
                "them."
            ) from None
        try:
            return np.asarray(self.predict(frame), dtype=np.float64).ravel()
        except NonFinitePredictionError as error:
            raise UserError(
                f"{name} cannot predict these rows: {error}. Check the inputs of these rows."
            ) from error


def watched_champion(settings: Settings, model: str) -> WatchedChampion:
    """Return the champion of a registered model."""
    version = champion_version(settings, model)
    tags: Mapping[str, str] = {}
    record = config = None
    if version.run:
        client = TimedClient(settings)
        tags, record, config = registry_call(
            settings,
            lambda: (
                client.get_run(version.run).data.tags,
                read_file(client, version.run, held_out_record_name(version.key)),
                read_file(client, version.run, "config.yaml"),
            ),
        )
    if record is None or config is None:
        raise UserError(
            f"{model} version {version.version} has no record of its held-out rows. Run its "
            "configuration again by `fkd run`, which adds the record."
        )
    tree = yaml.safe_load(config)
    tree.pop("hooks", None)  # their addresses were shortened in the recorded file
    bundle = fetch_bundle(settings, f"models:/{model}/{version.version}").bundle()
    return WatchedChampion(
        version,
        parse_config(tree, f"config.yaml of {model} version {version.version}"),
        HeldOutRecord.from_arrays(unpack_npz(record)),
        bundle.predict,
        bundle.input_columns,
        tags.get("fkd.data", ""),
        tuple(tags.get("fkd.data.parts", "").split()),
    )


def champion_rows(settings: Settings, champion: WatchedChampion) -> Loaded:
    """Return the rows on which a champion was chosen; raise an error if only others are left."""
    found, reason = read_prepared(settings, champion.data), "the source has other rows now"
    if found is None:
        try:
            found = load_table(champion.config.data, settings)
        except UserError as error:
            reason = str(error).rstrip(".")
    if found is None or found.digest != champion.data:
        raise UserError(
            f"--refit needs the rows that {champion.version.model} version "
            f"{champion.version.version} was chosen on (digest {champion.data[:12]}). They are not "
            f"in the store {settings.store}, and cannot be read again: {reason}. Restore them, or "
            "fit a configuration that names old and new rows with `fkd run`."
        )
    return found
