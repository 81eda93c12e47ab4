"""The runs of an FKD_HOME and of a shared store: progress, entries, files, places in MLflow."""

import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from configs.errors import UserError, check_name
from configs.load import load_config, parse_config, shipped
from configs.run import RunConfig
from fkd.methods import method
from tasks.data.load import prepared_name, read_prepared
from tasks.plan.trials import record_key
from tasks.select.champion import KNEE_VERSION
from tasks.select.study import Study, open_study
from tasks.storage.files import sha256, write_atomic
from tasks.storage.records import digest, failure_name, predictions_name, record_name
from tasks.storage.settings import Settings, without_credentials
from tasks.storage.store import open_store
from tasks.track.client import tracking_uri

FOLDER = "runs/"  # of shared runs in the store
_PLACE = "tracking.json"  # in a run's folder: its identity and its place in MLflow
_EARLIER = "earlier"  # folder for the files of other runs of the same name
_SHARED_ENTRY = "run.json"  # written last: it names existing files
_TABLES = ("results.csv", "config.yaml")  # shared with the pages of a run
_DIGITS = re.compile(r"[0-9a-f]{6,64}")
_EARLIER_RUN = re.compile(r"(?P<name>.+)~(?P<back>\d+)")
# Blobs of a store whose names show their content; others are removed by age.
_KINDS = (".record", ".failed", ".arrays")
_NAMED = ("prepared/", FOLDER)


@dataclass(frozen=True)
class Recorded:
    """The place of a study in MLflow, with the address without credentials."""

    uri: str
    experiment_id: str
    run_id: str


@dataclass(frozen=True)
class KnownRun:
    """A run of this home: its configuration, rows, last time and identity."""

    config: RunConfig
    data: str  # the digest of its rows
    ran: str  # in ISO form
    identity: str
    refused: tuple[str, ...] = ()  # reasons to keep its champion a candidate

    def open(self, settings: Settings) -> Study:
        """Return its study on the rows on which it was computed."""
        study = open_study(self.config, settings, read_prepared(settings, self.data))
        if self.data != study.loaded.digest:
            raise UserError(
                f"the rows on which it was computed (digest {self.data[:12]}) are neither in the "
                f"store {settings.store} nor at their source."
            )
        return replace(study, refused=self.refused)


def identity_of(study: Study) -> str:
    """Return the digest of settings, rows and versions of the code, which identifies a run."""
    versions = {entry.name: method(entry.name).version for entry in study.config.methods}
    plain = {"config": study.config.digest, "methods": versions, **study.inputs.identity()}
    if study.config.select is not None and study.config.select.knee_of:
        plain["selection"] = KNEE_VERSION
    return digest(plain)


def now() -> str:
    """Return the current time in ISO form, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def note_run(study: Study) -> None:
    """Write the entry by which `fkd sync` finds a run, and take the folder of its name."""
    _write_json(_entry(study.settings, identity_of(study)), _new_entry(study))
    take_folder(study)
    _claim_folder(study)


def take_folder(study: Study) -> None:
    """Assign the folder of the study's name to this run. Files of another run are moved."""
    if not owns_files(study):
        move_earlier(study.settings, study.config.name, identity_of(study))
        _claim_folder(study)


def _claim_folder(study: Study) -> None:
    """Write the run's identity into its folder, unless it is there with the place in MLflow."""
    if files_owner(study.folder) != identity_of(study):
        _write_json(study.folder / _PLACE, {"identity": identity_of(study)})


def move_earlier(settings: Settings, name: str, identity: str) -> None:
    """Move the files of another run of that name to `earlier/ID`, named by that run.

    Files of the run of `identity` that an earlier call moved are moved back.
    """
    folder = settings.experiments / name
    owner = files_owner(folder)
    if owner == identity or not folder.is_dir():
        return
    _move(_report_files(folder), folder / _EARLIER / (owner or "unknown")[:12])
    own = folder / _EARLIER / identity[:12]
    if own.is_dir():
        _move(_report_files(own), folder)
        with suppress(OSError):  # it contains further files
            own.rmdir()


def _report_files(folder: Path) -> list[Path]:
    """Return the files of a run, `tracking.json` last; other JSON is state of the pipeline."""
    found = [
        path
        for path in folder.iterdir()
        if path.is_file()
        and not path.name.startswith(".")
        and (path.suffix != ".json" or path.name == _PLACE)
    ]
    return sorted(found, key=lambda path: (path.name == _PLACE, path.name))


def _move(files: list[Path], folder: Path) -> None:
    """Move files in their order. If this is interrupted, the next call moves the others."""
    for file in files:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # moved by another process
            file.replace(folder / file.name)


def note_time(study: Study, seconds: float) -> None:
    """Add the duration of a run that has computed something to its entry."""
    path = _entry(study.settings, identity_of(study))
    _write_json(path, {**_read_json(path), "took": seconds, "finished": now()})


def time_taken(study: Study) -> tuple[float, datetime | None]:
    """Return duration and end of the run that computed a study; NaN and None if unknown."""
    found = _read_json(_entry(study.settings, identity_of(study)))
    try:
        return float(found["took"]), datetime.fromisoformat(str(found["finished"]))
    except (KeyError, TypeError, ValueError):
        return math.nan, None


def note_place(study: Study, experiment_id: str, run_id: str) -> None:
    """Write the place of a study in MLflow, unless its folder belongs to another run."""
    uri = without_credentials(tracking_uri(study.settings))
    if owns_files(study):
        place = vars(Recorded(uri, experiment_id, run_id))
        _write_json(study.folder / _PLACE, {"identity": identity_of(study), **place})


def recorded(study: Study) -> Recorded | None:
    """Return the place of a study in the configured MLflow, None if it is not recorded there."""
    path = study.folder / _PLACE
    found = _read_json(path)
    if not found and path.exists():
        raise UserError(
            f"{path} must contain the place of the run in MLflow, but it is damaged. Remove it, "
            "then `fkd sync` writes it again."
        )
    if found.get("identity") != identity_of(study) or found.get("uri") is None:
        return None
    place = Recorded(*(str(found.get(name)) for name in ("uri", "experiment_id", "run_id")))
    here = without_credentials(tracking_uri(study.settings))
    return place if place.uri == here else None


def recorded_experiments(settings: Settings) -> dict[str, str]:
    """Return the MLflow experiment's id of each run with files in this home, by name."""
    here = without_credentials(tracking_uri(settings))
    return {
        path.parent.name: str(place["experiment_id"])
        for path in sorted(settings.experiments.glob(f"*/{_PLACE}"))
        if (place := _read_json(path)).get("uri") == here and "experiment_id" in place
    }


def owns_files(study: Study) -> bool:
    """Return whether the files in the folder of the study's name are its own.

    Runs of one name share a folder. It has the files of the latest one.
    """
    owner = files_owner(study.folder)
    if owner is not None:
        return owner == identity_of(study)
    try:  # without tracking.json, or with a damaged one
        return load_config(study.folder / "config.yaml").digest == study.config.digest
    except UserError:
        return False


def files_owner(folder: Path) -> str | None:
    """Return the identity of the run with its files in a folder, None if it is unknown."""
    return _read_json(folder / _PLACE).get("identity")


def known_runs(settings: Settings) -> tuple[list[KnownRun], list[str]]:
    """Return the runs of a home by time, and messages on damaged entries."""
    found: list[KnownRun] = []
    problems: list[str] = []
    for path in sorted((settings.home / "runs").glob("*.json")):
        try:
            found.append(_parse_entry(path.read_bytes(), str(path), path.stem))
        except UserError as error:
            problems.append(str(error))
    return sorted(found, key=lambda run: run.ran), problems


def _parse_entry(content: bytes, shown: str, identity: str) -> KnownRun:
    """Return the run of an entry; `shown` is its location for errors."""
    try:
        entry = json.loads(content)
        config, data, ran = entry["config"], str(entry["data"]), str(entry["ran"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{shown} is damaged ({type(error).__name__}); remove it, then the run's own command "
            "writes it again."
        ) from error
    found = parse_config(config, str(entry.get("name", identity)))
    return KnownRun(found, data, ran, identity, tuple(entry.get("refused", ())))


def _new_entry(study: Study) -> dict[str, Any]:
    """Return the entry of a run that starts now, with the duration of an earlier one."""
    before = _read_json(_entry(study.settings, identity_of(study)))
    return {
        **{k: v for k, v in before.items() if k in ("took", "finished")},
        "name": study.config.name,
        "data": study.loaded.digest,
        "ran": now(),
        "config": study.config.model_dump(mode="json", exclude={"hooks"}),
        **({"refused": list(study.refused)} if study.refused else {}),
    }


def _entry(settings: Settings, identity: str) -> Path:
    """Return the file of a run's entry."""
    return settings.home / "runs" / f"{identity}.json"


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, empty if the file is absent or damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_atomic(path, json.dumps(content, indent=1).encode())


def find_study(settings: Settings, word: str) -> Study:
    """Return the study of a run.

    Parameters
    ----------
    settings
        The home in which runs are looked for.
    word
        A YAML file, the folder of a run or its report, the first digits of a run's identity, its
        id in MLflow, its name (the latest of that name; NAME~1 is the one before), or the name of
        a shipped configuration.
    """
    path = Path(word)
    if path.is_dir() or path.suffix == ".html":
        folder = path if path.is_dir() else path.parent
        if not (folder / "config.yaml").is_file():
            raise UserError(
                f"{word} must be the report or the folder of a run, but it has no config.yaml. "
                f"Runs of this home are under {settings.experiments}."
            )
        # By identity if possible, because the rows of its configuration may have changed.
        for run in known_runs(settings)[0]:
            if run.identity == files_owner(folder):
                return _open(settings, run)
        return open_study(load_config(folder / "config.yaml"), settings)
    if path.is_file():
        return open_study(load_config(word), settings)
    runs, _ = known_runs(settings)
    found = meant_run(settings, runs, word, place=str(settings.home))
    if found is not None:
        return _open(settings, found)
    names = dict.fromkeys((*(run.config.name for run in reversed(runs)), *shipped()))
    try:
        check_name(word, names, key="a run of this home, or a shipped configuration,")
    except ValueError as error:
        raise UserError(f"There is no file {word}, and {error}.") from None
    return open_study(load_config(word), settings)


def meant_run(
    settings: Settings, runs: list[KnownRun], word: str, *, place: str
) -> KnownRun | None:
    """Return the run with an identity or an MLflow id, or the latest of a name.

    `place` is the location of these runs for errors.
    """
    if _DIGITS.fullmatch(word):
        places = map(_read_json, sorted(settings.experiments.glob(f"*/{_PLACE}")))
        by_id = {found.get("run_id"): str(found.get("identity")) for found in places}
        identity = by_id.get(word, word)
        alike = [run for run in runs if run.identity.startswith(identity)]
        if len(alike) > 1:
            known = ", ".join(f"{run.config.name} {run.identity[:12]}" for run in alike)
            raise UserError(f"{word} must be the beginning of one identity, but it is of {known}.")
        if alike:
            return alike[0]
    asked = _EARLIER_RUN.fullmatch(word)
    name, back = (asked["name"], int(asked["back"])) if asked else (word, 0)
    same = [run for run in runs if run.config.name == name]
    if same and back >= len(same):
        raise UserError(
            f"{name}~{back} must be a run of {place}, which has {len(same)} of that name. "
            f"The earliest is {name}~{len(same) - 1}."
        )
    return same[-1 - back] if same else None


def _open(settings: Settings, run: KnownRun) -> Study:
    try:
        return run.open(settings)
    except UserError as error:
        raise UserError(f"{run.config.name} of {run.ran} cannot be opened: {error}") from error


@dataclass(frozen=True)
class SharedRun:
    """A run of the store."""

    run: KnownRun
    entry: dict[str, Any]  # as in the folder of runs of a home
    files: dict[str, str]  # checksums by name

    @property
    def names(self) -> list[str]:
        """The names of its blobs."""
        return [_blob(self.run.identity, name) for name in (_SHARED_ENTRY, *self.files)]


def share_run(study: Study, pages: Iterable[str]) -> None:
    """Write a run's pages and tables to the store, for other homes.

    Parameters
    ----------
    study
        A computed study.
    pages
        The names of its pages and figures. Files that the store already has are not sent again.
    """
    identity, store = identity_of(study), open_store(study.settings)
    before: dict[str, str] = {}
    with suppress(ValueError, KeyError, TypeError):  # damaged
        if (data := store.read(_blob(identity, _SHARED_ENTRY))) is not None:
            before = _checked_files(json.loads(data)["files"])
    files = {name: known for name, known in before.items() if name in _TABLES}
    for name in (*pages, *(_TABLES if owns_files(study) else ())):
        path = study.folder / name
        if not path.is_file():
            continue
        data = path.read_bytes()
        files[name] = sha256(data)
        if before.get(name) != files[name] or not store.has(_blob(identity, name)):
            store.write(_blob(identity, name), data)
    entry = _read_json(_entry(study.settings, identity)) or _new_entry(study)
    shared = json.dumps({**entry, "files": files}, indent=1)
    store.write(_blob(identity, _SHARED_ENTRY), shared.encode())


def shared_runs(settings: Settings) -> tuple[list[SharedRun], list[str]]:
    """Return the runs of a shared store by time, and messages on unreadable ones.

    A home's own store has none, because its runs are in the home.
    """
    if settings.shared is None:
        return [], []
    store = open_store(settings)
    names = [e.name for e in store.entries(FOLDER) if e.name.endswith(f"/{_SHARED_ENTRY}")]
    found: list[SharedRun] = []
    problems: list[str] = []
    for name, data in store.read_many(names).items():
        try:
            run = _parse_entry(data, store.location(name), name.split("/")[1])
            entry = json.loads(data)
            found.append(SharedRun(run, entry, _checked_files(entry.pop("files"))))
        except UserError as error:
            problems.append(str(error))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"{store.location(name)} cannot be read ({type(error).__name__}).")
    return sorted(found, key=lambda one: one.run.ran), problems


def fetch_run(settings: Settings, shared: SharedRun) -> Path:
    """Copy the files and the entry of a shared run to this home and return their folder."""
    store, run = open_store(settings), shared.run
    names = {name: _blob(run.identity, name) for name in shared.files}
    found = store.read_many(names.values())
    for name, expected in shared.files.items():
        data = found.get(names[name])
        if data is None or sha256(data) != expected:
            raise UserError(
                f"{store.location(names[name])} must have the checksum of its run, but it is "
                f"{'absent' if data is None else 'changed'}. Write it again with `fkd report` in "
                f"the home that computed {run.config.name}, or with `fkd run` in this one."
            )
    folder = settings.experiments / run.config.name
    move_earlier(settings, run.config.name, run.identity)
    for name, blob in names.items():
        write_atomic(folder / name, found[blob])
    _write_json(_entry(settings, run.identity), shared.entry)
    _write_json(folder / _PLACE, {"identity": run.identity})
    return folder


def _checked_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return checksums by name; raise an error for names outside the folder."""
    found = {str(name): str(known) for name, known in dict(files).items()}
    if any(Path(name).name != name or name.startswith(".") for name in found):
        raise ValueError("a run's files must be in its folder")
    return found


def _blob(identity: str, name: str) -> str:
    """Return the name in the store of a run's file."""
    return f"{FOLDER}{identity}/{name}"


def referenced(settings: Settings) -> tuple[set[str], list[str]]:
    """Return the blobs of all runs of this home and of a shared store, and problems."""
    runs, problems = known_runs(settings)
    others, unread = shared_runs(settings)
    found = {name for other in others for name in other.names}
    own = {run.identity for run in runs}
    problems += unread
    for run in (*runs, *(other.run for other in others if other.run.identity not in own)):
        try:
            found.update(_names(run.open(settings)))
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    return found, problems


def is_named_by_content(name: str) -> bool:
    """Return whether a blob is a table, a record, predictions, a failure or a run's file."""
    folder, _, rest = name.partition("/")
    return name.startswith(_NAMED) or (len(folder) == 2 and rest.endswith(_KINDS))


def _names(study: Study) -> Iterator[str]:
    """Yield the names of the blobs from which a run's numbers are computed."""
    yield prepared_name(study.loaded.digest)
    for fold in study.inputs.splits.all(study.table).values():
        for trial in study.trials:
            key = record_key(trial, fold, study.inputs)
            yield from (record_name(key), predictions_name(key), failure_name(key))


State = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Status:
    """Counts of a run's fits, with the process that computes them."""

    name: str
    state: State
    total: int
    stored: int  # fits that were stored before the run
    done: int = 0  # fits of this run
    failures: tuple[str, ...] = ()
    started: float = 0.0
    updated: float = 0.0
    pid: int = 0
    born: float = 0.0  # start of that process, because process ids are used again
    message: str = ""

    @property
    def remaining(self) -> int:
        """The number of missing fits."""
        return self.total - self.stored - self.done - len(self.failures)

    @property
    def rate(self) -> float:
        """Fits per second of this run."""
        seconds = self.updated - self.started
        return self.done / seconds if seconds > 0 else 0.0

    @property
    def seen(self) -> State:
        """The state, "stopped" for a running one whose process is gone."""
        if self.state != "running":
            return self.state
        try:
            alive = abs(psutil.Process(self.pid).create_time() - self.born) < 1.0
        except psutil.NoSuchProcess:
            alive = False
        return "running" if alive else "stopped"


def begin(name: str, total: int, stored: int) -> Status:
    """Return the status of a run that this process starts now."""
    now = time.time()
    born = psutil.Process().create_time()
    return Status(
        name, "running", total, stored, started=now, updated=now, pid=os.getpid(), born=born
    )


def write_status(settings: Settings, status: Status) -> Status:
    """Write the status with the current time and return it."""
    status = replace(status, updated=time.time())
    text = json.dumps(asdict(status), indent=2)
    write_atomic(_path(settings, status.name), text.encode())
    return status


def read_status(settings: Settings, name: str) -> Status | None:
    """Return the status of a run, None without a readable one."""
    try:
        plain = json.loads(_path(settings, name).read_text())
        return Status(**{**plain, "failures": tuple(plain["failures"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def all_statuses(settings: Settings) -> Iterator[Status]:
    """Yield the status of every run, the newest first."""
    folders = settings.experiments.glob("*/status.json")
    found = [s for f in folders if (s := read_status(settings, f.parent.name)) is not None]
    yield from sorted(found, key=lambda status: -status.updated)


def _path(settings: Settings, name: str) -> Path:
    """Return the file of a run's status."""
    return settings.experiments / name / "status.json"
