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
from tasks.select.held_out import HeldOutRecord, held_out_record_name
from tasks.storage.files import unpack_npz
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient
from tasks.track.registry import KnownVersion, champion_version, fetch_bundle, registry_call
from tasks.track.runs import read_file

_CHECK = "fkd.check."


@dataclass(frozen=True)
class WatchedChampion:
    """A registered champion with all that watching it needs."""

    version: KnownVersion
    config: RunConfig  # of the run that chose it
    record: HeldOutRecord
    predict: Callable[[pd.DataFrame], Any]
    inputs: tuple[str, ...]
    data: str  # the digest of the rows that it was chosen on
    parts: tuple[str, ...] = ()  # beginnings of the digests of tables joined into these rows

    @property
    def issues(self) -> frozenset[str]:
        """Codes of the checks that found an issue when it was registered."""
        tags = self.version.tags
        return frozenset(
            name.removeprefix(_CHECK)
            for name, outcome in tags.items()
            if name.startswith(_CHECK) and outcome == "issue"
        )

    def predictions(self, table: Table) -> Array:
        """Return the registered model's predictions, in the target's own unit."""
        try:
            frame = raw_frame(table, self.inputs)
        except ValueError as error:
            raise UserError(
                f"{error}; {self.version.model} version {self.version.version} takes "
                f"{len(self.inputs)} columns, see its signature in MLflow."
            ) from None
        try:
            return np.asarray(self.predict(frame), dtype=np.float64).ravel()
        except NonFinitePredictionError as error:
            raise UserError(
                f"{self.version.model} version {self.version.version} cannot predict these rows: "
                f"{error}. Check the inputs of these rows."
            ) from error


def champion_rows(settings: Settings, champion: WatchedChampion) -> Loaded:
    """Return the rows that a champion was chosen on; refuse others in their place."""
    found, why = read_prepared(settings, champion.data), "the source has other rows now"
    if found is None:
        try:
            found = load_table(champion.config.data, settings)
        except UserError as error:
            why = str(error).rstrip(".")
    if found is None or found.digest != champion.data:
        raise UserError(
            f"--refit needs the rows that {champion.version.model} version "
            f"{champion.version.version} was chosen on (digest {champion.data[:12]}). They are not "
            f"in the store {settings.store}, and cannot be read again: {why}. Restore them, or "
            "fit a configuration that names old and new rows with `fkd run`."
        )
    return found


def watched_champion(settings: Settings, model: str) -> WatchedChampion:
    """Return the champion of a registered name; what is missing of it is told with the cure."""
    version = champion_version(settings, model)
    client = TimedClient(settings)
    if version.run:
        tags, kept, written = registry_call(settings, lambda: _files(client, version))
    if not version.run or kept is None or written is None:
        raise UserError(
            f"{model} version {version.version} has no record of its held-out rows, which fkd did "
            "not keep at the time; run its configuration again by `fkd run`, which adds it."
        )
    tree = yaml.safe_load(written)
    # Addresses of hooks were cut to their hosts before the file was written.
    tree.pop("hooks", None)
    bundle = fetch_bundle(settings, f"models:/{model}/{version.version}").bundle()
    return WatchedChampion(
        version,
        parse_config(tree, f"config.yaml of {model} version {version.version}"),
        HeldOutRecord.from_arrays(unpack_npz(kept)),
        bundle.predict,
        bundle.input_columns,
        tags.get("fkd.data", ""),
        tuple(tags.get("fkd.data.parts", "").split()),
    )


def _files(
    client: TimedClient, version: KnownVersion
) -> tuple[Mapping[str, str], bytes | None, bytes | None]:
    """Return the tags of a version's run, its record, its configuration."""
    tags: Mapping[str, str] = client.get_run(version.run).data.tags
    kept, written = (
        read_file(client, version.run, name)
        for name in (held_out_record_name(version.key), "config.yaml")
    )
    return tags, kept, written
