"""The champion that is watched: its record, its configuration, its checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import yaml

from configs.errors import UserError
from configs.load import parse_config
from configs.schema import RunConfig
from fkd.catalog.table import Table
from fkd.core.arrays import Array
from tasks.adapters.files import unpack_arrays
from tasks.adapters.kept_files import read_file
from tasks.adapters.model_versions import KnownVersion, champion_version
from tasks.adapters.registry import load_model, told
from tasks.adapters.settings import Settings
from tasks.adapters.timed_client import TimedClient
from tasks.data.raw_frame import raw_frame
from tasks.study.held_out_record import HeldOutRecord, record_name

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
        """Return what the served model says of rows, in the target's own unit."""
        try:
            frame = raw_frame(table, self.inputs)
        except ValueError as error:
            raise UserError(
                f"{error}; {self.version.model} version {self.version.version} takes "
                f"{len(self.inputs)} columns, see its signature in MLflow."
            ) from None
        return np.asarray(self.predict(frame), dtype=np.float64).ravel()


def watched_champion(settings: Settings, model: str) -> WatchedChampion:
    """Return the champion of a registered name; what is missing of it is told with the cure."""
    version = champion_version(settings, model)
    client = TimedClient(settings)
    if version.run:
        data, kept, written = told(settings, lambda: _files(client, version))
    if not version.run or kept is None or written is None:
        raise UserError(
            f"{model} version {version.version} has no record of its held-out rows, which fkd did "
            "not keep at the time; run its configuration again by `fkd run`, which adds it."
        )
    tree = yaml.safe_load(written)
    # Addresses of hooks were cut to their hosts before the file was written.
    tree.pop("hooks", None)
    loaded = load_model(settings, f"models:/{model}/{version.version}")
    schema = loaded.metadata.get_input_schema()
    return WatchedChampion(
        version,
        parse_config(tree, f"config.yaml of {model} version {version.version}"),
        HeldOutRecord.from_arrays(unpack_arrays(kept)),
        loaded.predict,
        tuple(schema.input_names()),
        data,
    )


def _files(client: TimedClient, version: KnownVersion) -> tuple[str, bytes | None, bytes | None]:
    """Return the digest of a version's rows, its record, its configuration."""
    tags = client.get_run(version.run).data.tags
    kept, written = (
        read_file(client, version.run, name) for name in (record_name(version.key), "config.yaml")
    )
    return tags.get("fkd.data", ""), kept, written
