"""Runs in a store that homes share, each with the files that people read of it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.adapters.files import sha256, write_atomic
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store
from tasks.study.known_runs import (
    KnownRun,
    adopt_run,
    identity_of,
    move_earlier,
    owns_files,
    parse_entry,
    run_entry,
)
from tasks.study.opening import Study

FOLDER = "runs/"
_TOLD = "run.json"  # written last: it names files that are there
_BESIDE = ("results.csv", "config.yaml")  # what lies beside the pages of a run


@dataclass(frozen=True)
class SharedRun:
    """A run of the store."""

    run: KnownRun
    entry: dict[str, Any]  # what a home keeps of it
    files: dict[str, str]  # checksums by name

    @property
    def names(self) -> list[str]:
        """Its blobs."""
        return [_blob(self.run.identity, name) for name in (_TOLD, *self.files)]


def share_run(study: Study, pages: Iterable[str]) -> None:
    """Put a run's pages and tables where other homes find them.

    Parameters
    ----------
    study
        What was computed.
    pages
        The names of its pages and figures; what a store has of them already is not sent again.
    """
    identity, store = identity_of(study), open_store(study.settings)
    before = _noted(store.read(_blob(identity, _TOLD)))
    beside = _BESIDE if owns_files(study) else ()
    files = {name: known for name, known in before.items() if name in _BESIDE}
    for name in (*pages, *beside):
        path = study.folder / name
        if not path.is_file():
            continue
        data = path.read_bytes()
        files[name] = sha256(data)
        if before.get(name) != files[name] or not store.has(_blob(identity, name)):
            store.write(_blob(identity, name), data)
    told = {**run_entry(study), "files": files}
    store.write(_blob(identity, _TOLD), json.dumps(told, indent=1).encode())


def shared_runs(settings: Settings) -> tuple[list[SharedRun], list[str]]:
    """Return the runs of the store in the order in which they were on, with what is not readable.

    The store of a home has none: its runs lie beside it.
    """
    if settings.shared is None:
        return [], []
    store = open_store(settings)
    names = [e.name for e in store.entries(FOLDER) if e.name.endswith(f"/{_TOLD}")]
    found: list[SharedRun] = []
    problems: list[str] = []
    for name, data in store.read_many(names).items():
        try:
            entry = json.loads(data)
            files = entry.pop("files")
            run = parse_entry(entry, store.shown(name), name.split("/")[1])
            found.append(SharedRun(run, entry, _plain_files(files)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"{store.shown(name)} cannot be read ({type(error).__name__}).")
        except UserError as error:
            problems.append(str(error))
    return sorted(found, key=lambda one: one.run.ran), problems


def fetch_run(settings: Settings, shared: SharedRun) -> Path:
    """Return the folder of this home that has the files of a run now; the home knows it too."""
    store, run = open_store(settings), shared.run
    names = {name: _blob(run.identity, name) for name in shared.files}
    found = store.read_many(names.values())
    for name, expected in shared.files.items():
        data = found.get(names[name])
        if data is None or sha256(data) != expected:
            raise UserError(
                f"{store.shown(names[name])} must have the checksum of its run, but it is "
                f"{'absent' if data is None else 'changed'}. Write it again with `fkd report` in "
                f"the home that computed {run.config.name}, or with `fkd run` in this one."
            )
    folder = settings.experiments / run.config.name
    move_earlier(settings, run.config.name, run.identity)
    for name, blob in names.items():
        write_atomic(folder / name, found[blob])
    adopt_run(settings, run, shared.entry)
    return folder


def _noted(data: bytes | None) -> dict[str, str]:
    """Return the checksums that a run was shared with, none where it was not."""
    try:
        return {} if data is None else _plain_files(json.loads(data)["files"])
    except (ValueError, KeyError, TypeError):
        return {}


def _plain_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return checksums by name; a name that leads out of its folder raises."""
    found = {str(name): str(known) for name, known in dict(files).items()}
    if any(Path(name).name != name or name.startswith(".") for name in found):
        raise ValueError("a run's files lie beside each other")
    return found


def _blob(identity: str, name: str) -> str:
    """Return what a file of a run is called in the store."""
    return f"{FOLDER}{identity}/{name}"
