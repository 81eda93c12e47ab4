"""Whether the pages of a report lie there as they would be written again."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tasks.adapters.files import sha256
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.state.shared_store import SharedStore
from tasks.adapters.store import digest
from tasks.planned.trials import record_key
from tasks.report.contents import ReportData
from tasks.study.opening import Study

# Where the code of everything stands that a page shows.
_ROOMS = ("fkd", "tasks", "configs")
_KINDS = (".py", ".j2", ".css", ".js")


@dataclass(frozen=True)
class DrawnPages:
    """The files of one report, known by all that they show.

    Parameters
    ----------
    folder
        Where they are written.
    store, name
        Where their checksums are noted, by a name made of all that they show.
    """

    folder: Path
    store: SharedStore
    name: str

    @classmethod
    def of(cls, study: Study, told: ReportData) -> "DrawnPages":
        """Return the pages of a study.

        Parameters
        ----------
        study
            Its stored trials decide the curves, whose drawing this spares.
        told
            Everything else that they show.
        """
        fold = study.inputs.splits.held_out_fold(study.loaded.table)
        key = digest(
            {
                "told": sha256(repr(_plain(told)).encode()),
                "folder": study.config.name,
                "data": study.loaded.digest,
                "records": [record_key(trial, fold, study.inputs) for trial in study.trials],
                "seed": study.config.seed,
                "code": code_digest(),
            }
        )
        return cls(study.folder, open_store(study.settings), f"pages/{key}.json")

    def lie_there(self) -> bool:
        """Return whether every file has the content with which it was written."""
        noted = self.noted()
        try:
            return bool(noted) and all(
                sha256((self.folder / name).read_bytes()) == found for name, found in noted.items()
            )
        except OSError:
            return False

    def noted(self) -> dict[str, str]:
        """Return the checksums with which files were written, by name; none where none were."""
        noted = self.store.read(self.name)
        found: dict[str, str] = {} if noted is None else json.loads(noted)
        return found

    def note(self, written: Sequence[Path]) -> None:
        """Keep the checksums of files that were just written."""
        found = {path.name: sha256(path.read_bytes()) for path in written}
        self.store.write(self.name, json.dumps(found).encode())


@cache
def code_digest() -> str:
    """Return the digest of the code that decides a page: who changes it sees the change."""
    content = []
    for room in _ROOMS:
        root = Path(str(files(room)))
        for path in sorted(path for path in root.rglob("*") if path.suffix in _KINDS):
            content.append([str(path.relative_to(root)), sha256(path.read_bytes())])
    return digest(content)


def _plain(value: Any) -> Any:
    """Return a value as lists of plain ones, so that equal content reads equal."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, [_plain(getattr(value, f.name)) for f in fields(value)]]
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Set):
        return sorted(map(repr, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return repr(value)
