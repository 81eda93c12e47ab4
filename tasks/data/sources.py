"""Where the rows of a configuration come from."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.census import expand_states
from configs.data import DataConfig, TwinConfig
from fkd.datasets import (
    CRIMES_FILE,
    CRIMES_SHA256,
    crimes_datasheet,
    read_crimes,
    synthetic_datasheet,
)
from tasks.adapters.settings import Settings
from tasks.data.cache import file_sha256
from tasks.data.columns import Columns, merge
from tasks.data.communities import read_communities
from tasks.data.fetch import Fetched, fetch
from tasks.data.own_file import own_path, read_own_file
from tasks.data.person_files import fetch_persons, read_person, read_persons, year_files
from tasks.data.remote import COMMUNITIES
from tasks.data.synthetic_census import VERSION, is_synthetic, write_synthetic_census
from tasks.data.transfer import Progress


@dataclass(frozen=True)
class Source:
    """The files of a configuration with the function that reads them.

    Parameters
    ----------
    files
        Name, sha256, address of each: what the rows depend on.
    read
        Returns the rows; called only if they are not prepared yet.
    synthetic
        Whether the rows are made up.
    datasheet
        Origin, units, limits.
    """

    files: list[dict[str, Any]]
    read: Callable[[], Columns]
    synthetic: bool
    datasheet: str


def open_source(data: DataConfig, settings: Settings, progress: Progress | None = None) -> Source:
    """Return the source of a configuration; files are fetched, rows not read yet."""
    datasheet = data.declaration.datasheet
    if data.source == "embedded":
        known = {"name": CRIMES_FILE, "sha256": CRIMES_SHA256, "from": "this package"}
        return Source([known], _read_embedded, False, crimes_datasheet())
    if data.source == "uci":
        fetched = fetch(COMMUNITIES, settings, progress=progress)
        problem = data.declaration
        return Source(
            [_line(fetched)], lambda: read_communities(fetched.path, problem), False, datasheet
        )
    if data.source == "file":
        # By its name alone: the same file in another folder is the same data.
        path = own_path(data)
        known = {"name": path.name, "sha256": file_sha256(path), "from": "the user"}
        return Source([known], lambda: read_own_file(data), False, datasheet)
    if data.source == "synthetic":
        twin = data.twin or TwinConfig()
        return Source(
            [_recipe(data, twin)],
            lambda: _read_synthetic(data, twin),
            True,
            synthetic_datasheet(datasheet),
        )
    # What remains is the census.
    files = fetch_persons(data, settings, progress)
    # A synthetic file in a mirror must not pass for the census.
    synthetic = any(is_synthetic(one.fetched.path) for one in files.there)
    return Source(
        [_line(one.fetched) for one in files.there],
        lambda: read_persons(data, files),
        synthetic,
        synthetic_datasheet(datasheet) if synthetic else datasheet,
    )


def _read_embedded() -> Columns:
    numbers = read_crimes()
    return Columns(numbers, {}, rows_read=len(numbers["fold"]))


def _read_synthetic(data: DataConfig, twin: TwinConfig) -> Columns:
    """Write each synthetic file, then read it as if it were the census's."""
    parts = []
    # On disk one at a time: a scale run has more rows than memory for their text.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.zip"
        for year in data.year:
            states = expand_states(data.states)
            for state, file in zip(states, year_files(data, year), strict=True):
                write_synthetic_census(path, state=state, year=year, rows=twin.rows, seed=twin.seed)
                parts.append(read_person(data, file, path, year))
    return merge(parts)


def _recipe(data: DataConfig, twin: TwinConfig) -> dict[str, Any]:
    """Return what the synthetic rows depend on, in place of a checksum."""
    return {
        "name": f"synthetic twin, version {VERSION}",
        "from": twin.model_dump(),
        "states": list(expand_states(data.states)),
        "years": list(data.year),
    }


def _line(fetched: Fetched) -> dict[str, Any]:
    record = fetched.record
    return {"name": record.name, "sha256": record.sha256, "from": record.source}
