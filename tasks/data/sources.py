"""Sources of rows: the function that opens each source that a problem declares.

To add a data set, declare its problem in a module of `fkd/problems` and add its openers to
`OPENERS`.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from configs.data import DataConfig, SyntheticConfig, expand_states
from configs.errors import UserError
from fkd.datasets import (
    CRIMES_FILE,
    CRIMES_SHA256,
    crimes_datasheet,
    read_crimes,
    synthetic_datasheet,
)
from fkd.problems.crimes import CRIMES, INCOMPLETE, PREDICTORS
from fkd.problems.declaration import TABLE, Problem
from tasks.data.census import (
    VERSION,
    fetch_persons,
    is_synthetic,
    person_file,
    read_persons,
    write_synthetic_census,
)
from tasks.data.columns import Columns, merge
from tasks.data.download import Fetched, Progress, RemoteFile, fetch, file_sha256
from tasks.data.user_table import read_columns, table_path
from tasks.storage.settings import Settings


@dataclass(frozen=True)
class Source:
    """The files of a configuration, and the function that reads them.

    Parameters
    ----------
    files
        Name, sha256 and address of each file. The rows depend on nothing else.
    read
        Returns the rows. It is called only if no prepared table exists.
    datasheet
        Origin, units and limits, in Markdown.
    synthetic
        True if no row is real.
    """

    files: list[dict[str, Any]]
    read: Callable[[], Columns]
    datasheet: str
    synthetic: bool = False


Listener = Progress | None
Opener = Callable[[DataConfig, Settings, Listener], Source]


def open_source(data: DataConfig, settings: Settings, progress: Listener = None) -> Source:
    """Return the source of a configuration. Files are fetched; rows are read later."""
    return OPENERS[data.problem][data.source](data, settings, progress)


def _open_embedded_crimes(data: DataConfig, settings: Settings, progress: Listener) -> Source:
    def read() -> Columns:
        numbers = read_crimes()
        return Columns(numbers, {}, rows_read=len(numbers["fold"]))

    file = {"name": CRIMES_FILE, "sha256": CRIMES_SHA256, "from": "this package"}
    return Source([file], read, crimes_datasheet())


# The address of single files with known checksums. Newer pages offer an archive of them.
COMMUNITIES = RemoteFile(
    name="uci/communities.data",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/communities/communities.data",
    sha256="d90d85bd66bad9a00fa0ed6c15ac017b5966d528e55ba2940ad028d071353f95",
)


def _open_uci_crimes(data: DataConfig, settings: Settings, progress: Listener) -> Source:
    file, problem = fetch(COMMUNITIES, settings, progress=progress), data.declaration
    read = partial(read_communities, file.path, problem)
    return Source([file_entry(file)], read, problem.datasheet)


def _open_table(data: DataConfig, settings: Settings, progress: Listener) -> Source:
    path = table_path(data)
    # Without its folder: the same file in another folder is the same data.
    file = {"name": path.name, "sha256": file_sha256(path), "from": "the user"}
    return Source([file], lambda: read_columns(path, data), data.declaration.datasheet)


def _open_census(data: DataConfig, settings: Settings, progress: Listener) -> Source:
    fetched, read = fetch_persons(data, settings, progress)
    datasheet = data.declaration.datasheet
    # A synthetic file in a mirror is reported as synthetic.
    synthetic = any(is_synthetic(one.path) for one in fetched)
    return Source(
        [file_entry(one) for one in fetched],
        read,
        synthetic_datasheet(datasheet) if synthetic else datasheet,
        synthetic,
    )


def _open_synthetic_census(data: DataConfig, settings: Settings, progress: Listener) -> Source:
    size = data.synthetic or SyntheticConfig()
    states = expand_states(data.states)

    def read() -> Columns:
        """Write each synthetic file, then read it like a census file."""
        parts = []
        # One file at a time: the text of a scale run does not fit into memory.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "synthetic.zip"
            for year in data.year:
                for state in states:
                    write_synthetic_census(
                        path, state=state, year=year, rows=size.rows, seed=size.seed
                    )
                    file = person_file(state, year, "1-Year")
                    parts.append(read_persons(data, file, path, year))
        return merge(parts)

    # The arguments of the generator take the place of a checksum.
    file = {
        "name": f"synthetic census, version {VERSION}",
        "from": size.model_dump(),
        "states": list(states),
        "years": list(data.year),
    }
    return Source([file], read, synthetic_datasheet(data.declaration.datasheet), synthetic=True)


# Openers by problem and by the name of the source that the problem declares.
_CENSUS: Mapping[str, Opener] = {"census": _open_census, "synthetic": _open_synthetic_census}
OPENERS: Mapping[str, Mapping[str, Opener]] = {
    "crimes": {"embedded": _open_embedded_crimes, "uci": _open_uci_crimes},
    "acs_income": _CENSUS,
    "acs_travel_time": _CENSUS,
    TABLE: {"file": _open_table},
}


def communities_header() -> list[str]:
    """Return the 128 column names of `communities.data`, which has no header."""
    names = ["state", "county", "community", "communityname", "fold"]
    for predictor in PREDICTORS:
        names += [predictor, *INCOMPLETE.get(predictor, ())]
    return [*names, CRIMES.target]


def read_communities(path: Path, problem: Problem = CRIMES) -> Columns:
    """Return fold, predictors and target of all 1994 communities. A missing number is NaN."""
    names = communities_header()
    # Names of places are not used and may contain any byte, so that the file may not be UTF-8.
    rows = [line.split(",") for line in path.read_text(encoding="latin-1").split("\n") if line]
    odd = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if odd is not None or not rows:
        raise UserError(
            f"communities.data must have {len(names)} fields in every line, got another number in "
            f"line {(odd or 0) + 1}. Fetch it again."
        )
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    wanted = ("fold", *problem.numeric, problem.target)
    numbers = {
        name: np.array(["nan" if field == "?" else field for field in columns[name]], dtype=float)
        for name in wanted
    }
    return Columns(numbers, {}, rows_read=len(rows))


def file_entry(fetched: Fetched) -> dict[str, Any]:
    """Return a fetched file as an entry of `Source.files`."""
    record = fetched.record
    return {"name": record.name, "sha256": record.sha256, "from": record.source}
