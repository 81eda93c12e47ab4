"""The crimes file as UCI publishes it."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs.data import DataConfig, TwinConfig, expand_states
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.datasets import (
    CRIMES_FILE,
    CRIMES_SHA256,
    crimes_datasheet,
    read_crimes,
    synthetic_datasheet,
)
from fkd.problems.crimes import CRIMES, INCOMPLETE, PREDICTORS
from fkd.problems.declaration import Problem
from tasks.data.census import fetch_persons, read_person, read_persons, year_files
from tasks.data.columns import Columns, merge
from tasks.data.download import COMMUNITIES, Fetched, Progress, fetch
from tasks.data.file_cache import file_sha256
from tasks.data.synthetic_census import VERSION, is_synthetic, write_synthetic_census
from tasks.data.user_table import own_path, read_own_file
from tasks.storage.settings import Settings

_PLACE = ("state", "county", "community", "communityname", "fold")
_MISSING = "?"


def header() -> list[str]:
    """Return the 128 column names of the file, which has no header of its own."""
    names = list(_PLACE)
    for predictor in PREDICTORS:
        names += [predictor, *INCOMPLETE.get(predictor, ())]
    return [*names, CRIMES.target]


def read_communities(path: Path, problem: Problem = CRIMES) -> Columns:
    """Return fold, predictors, target of all 1994 communities; a missing number is NaN."""
    names = header()
    # Not UTF-8 by promise: names of places, which are not used, may hold any byte.
    rows = [line.split(",") for line in path.read_text(encoding="latin-1").split("\n") if line]
    odd = next((place for place, row in enumerate(rows) if len(row) != len(names)), None)
    if odd is not None or not rows:
        raise UserError(
            f"communities.data must have {len(names)} fields in every line, got another number in "
            f"line {(odd or 0) + 1}; fetch it again."
        )
    wanted = ("fold", *problem.numeric, problem.target)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    numbers = {name: _numbers(columns[name]) for name in wanted}
    return Columns(numbers, {}, rows_read=len(rows))


def _numbers(fields: Sequence[str]) -> Array:
    return np.array(["nan" if one == _MISSING else one for one in fields], dtype=np.float64)


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
