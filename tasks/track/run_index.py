"""The runs of an FKD_HOME with where they are recorded, so that none is forgotten."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.errors import UserError, check_name
from configs.load import load_config, parse_config, shipped
from configs.run import RunConfig
from fkd.methods import method
from tasks.data.load import prepared_name, read_prepared
from tasks.plan.trials import record_key
from tasks.select.selection import KNEE_VERSION
from tasks.select.study import Study, open_study
from tasks.storage.files import sha256, write_atomic
from tasks.storage.records import digest, failure_name, predictions_name, record_name
from tasks.storage.settings import Settings, without_credentials
from tasks.storage.store import open_store
from tasks.track.client import tracking_uri

_PLACE = "tracking.json"  # beside a run's files: whose they are, where MLflow has it
_EARLIER = "earlier"  # folder for the files of other runs of the same name


@dataclass(frozen=True)
class Recorded:
    """Where MLflow keeps a study; the address as it may be shown."""

    uri: str
    experiment_id: str
    run_id: str


@dataclass(frozen=True)
class KnownRun:
    """A run that was on in this home: its configuration, its rows, when it was on last."""

    config: RunConfig
    data: str | None  # the digest of its rows, None where an older version kept none
    ran: str  # in ISO form
    identity: str = ""  # what makes it another run than others, empty for an older version's
    refused: tuple[str, ...] = ()  # reasons that keep its champion a candidate

    def open(self, settings: Settings) -> Study:
        """Return its study on the rows that it was computed on, fresh ones or not."""
        loaded = None if self.data is None else read_prepared(settings, self.data)
        study = open_study(self.config, settings, loaded)
        if self.data not in (None, study.loaded.digest):
            raise UserError(
                f"the rows that it was computed on (digest {str(self.data)[:12]}) are neither "
                f"in the store {settings.store} nor where they came from any more."
            )
        return replace(study, refused=self.refused)


def identity_of(study: Study) -> str:
    """Return the digest of what makes a run another one: settings, rows, versions of the code."""
    versions = {entry.name: method(entry.name).version for entry in study.config.methods}
    plain = {"config": study.config.digest, "methods": versions, **study.inputs.identity()}
    if study.config.select is not None and study.config.select.knee_of:
        plain["selection"] = KNEE_VERSION
    return digest(plain)


def now() -> str:
    """Return the time as it is kept."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def note_run(study: Study) -> None:
    """Keep what `fkd sync` needs to find a run; the files of its name are its own from now on."""
    write_atomic(_entry(study), json.dumps(_new_entry(study), indent=1).encode())
    take_folder(study)
    if files_owner(study.folder) != identity_of(study):
        _write_place(study, None)


def take_folder(study: Study) -> None:
    """Give the folder of the study's name to this run; files of another run are moved away."""
    if not owns_files(study):
        move_earlier(study.settings, study.config.name, identity_of(study))
        if files_owner(study.folder) != identity_of(study):
            _write_place(study, None)


def move_earlier(settings: Settings, name: str, identity: str) -> None:
    """Move the files of another run of that name to `earlier/ID`, where ID names that run.

    Files that an earlier call moved away for the run of `identity` itself are moved back.
    """
    folder = settings.experiments / name
    owner = files_owner(folder)
    if owner == identity or not folder.is_dir():
        return
    if files := _report_files(folder):
        # Files of an old version have no owner: their time tells them apart.
        last = datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)
        _move(files, folder / _EARLIER / (owner[:12] if owner else f"{last:%Y%m%dT%H%M%S}"))
    own = folder / _EARLIER / identity[:12]
    if own.is_dir():
        _move(_report_files(own), folder)
        with suppress(OSError):  # somebody has put another file there
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
    """Move files in their order: if this is interrupted, the next call moves the others."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        with suppress(FileNotFoundError):  # moved by another process
            file.replace(folder / file.name)


def run_entry(study: Study) -> dict[str, Any]:
    """Return what this home keeps of a run, as it would be kept where there is nothing yet."""
    return _plain_entry(study) or _new_entry(study)


def adopt_run(settings: Settings, run: KnownRun, entry: dict[str, Any]) -> None:
    """Know a run that another home has gone through, whose files lie here from now on."""
    content = json.dumps(entry, indent=1).encode()
    write_atomic(_folder(settings) / f"{run.identity}.json", content)
    place = settings.experiments / run.config.name / _PLACE
    write_atomic(place, json.dumps({"identity": run.identity}, indent=2).encode())


def note_time(study: Study, seconds: float) -> None:
    """Keep how long a run took that has computed something, beside its entry."""
    entry = {**_plain_entry(study), "took": seconds, "finished": now()}
    write_atomic(_entry(study), json.dumps(entry, indent=1).encode())


def time_taken(study: Study) -> tuple[float, datetime | None]:
    """Return the seconds of the run that computed a study, when it ended; NaN, None if unknown."""
    found = _timing(study)
    try:
        return float(found["took"]), datetime.fromisoformat(str(found["finished"]))
    except (KeyError, TypeError, ValueError):
        return math.nan, None


def note_place(study: Study, experiment_id: str, run_id: str) -> None:
    """Keep where a study was recorded, unless the files of its name are another run's."""
    uri = without_credentials(tracking_uri(study.settings))
    if owns_files(study):
        _write_place(study, Recorded(uri, experiment_id, run_id))


def recorded(study: Study) -> Recorded | None:
    """Return where the study was recorded, None where it was not, or elsewhere."""
    found = _read_place(study.folder)
    if found.get("identity") != identity_of(study) or found.get("uri") is None:
        return None
    place = Recorded(*(str(found.get(name)) for name in ("uri", "experiment_id", "run_id")))
    here = without_credentials(tracking_uri(study.settings))
    return place if place.uri == here else None


def recorded_experiments(settings: Settings) -> dict[str, str]:
    """Return the names of runs whose files lie here, each with its MLflow experiment's id."""
    here = without_credentials(tracking_uri(settings))
    found: dict[str, str] = {}
    for path in sorted(settings.experiments.glob(f"*/{_PLACE}")):
        try:
            place = json.loads(path.read_text())
            if place.get("uri") == here:
                found[path.parent.name] = str(place["experiment_id"])
        except (ValueError, KeyError, AttributeError):
            continue  # damaged; the commands that need it say so
    return found


def owns_files(study: Study) -> bool:
    """Return whether report and results under the study's name are its own.

    Runs of one name share a folder: it has the files of the latest one.
    """
    owner = files_owner(study.folder)
    if owner is not None:
        return owner == identity_of(study)
    try:
        return load_config(study.folder / "config.yaml").digest == study.config.digest
    except UserError:
        return False


def files_owner(folder: Path) -> str | None:
    """Return the identity of the run whose files a folder has, None if it is unknown."""
    try:
        return _read_place(folder).get("identity")
    except UserError:
        return None  # damaged, so written again


def known_runs(settings: Settings) -> tuple[list[KnownRun], list[str]]:
    """Return every run of a home in the order in which they were on, with what cannot be read."""
    found: list[KnownRun] = []
    problems: list[str] = []
    for path in sorted(_folder(settings).glob("*.json")):
        try:
            found.append(_read_entry(path))
        except UserError as error:
            problems.append(str(error))
    digests = {run.config.digest for run in found}
    for path in sorted(settings.experiments.glob("*/config.yaml")):
        try:
            older = KnownRun(load_config(path), None, "")  # of a version that kept no entries
        except UserError as error:
            problems.append(f"{path.parent.name}: {error}")
            continue
        if older.config.digest not in digests:
            found.append(older)
    return sorted(found, key=lambda run: run.ran), problems


def _read_entry(path: Path) -> KnownRun:
    try:
        entry = json.loads(path.read_text())
    except ValueError:
        entry = None
    return parse_entry(entry, str(path), path.stem)


def parse_entry(entry: Any, shown: str, identity: str) -> KnownRun:
    """Return the run that an entry tells of, which lies where it is shown."""
    try:
        config, data, ran = entry["config"], str(entry["data"]), str(entry["ran"])
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{shown} is damaged ({type(error).__name__}); remove it, then the run's own command "
            "writes it again."
        ) from error
    found = parse_config(config, str(entry.get("name", identity)))
    return KnownRun(found, data, ran, identity, tuple(entry.get("refused", ())))


def _new_entry(study: Study) -> dict[str, Any]:
    """Return what is kept of a run that is on now."""
    return {
        **_timing(study),
        "name": study.config.name,
        "data": study.loaded.digest,
        "ran": now(),
        "config": study.config.model_dump(mode="json", exclude={"hooks"}),
        **({"refused": list(study.refused)} if study.refused else {}),
    }


def _entry(study: Study) -> Path:
    """Return the small file of a study."""
    return _folder(study.settings) / f"{identity_of(study)}.json"


def _plain_entry(study: Study) -> dict[str, Any]:
    """Return what a study's file holds, nothing where it is absent or damaged."""
    try:
        found = json.loads(_entry(study).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _timing(study: Study) -> dict[str, Any]:
    """Return what is kept of the run that computed."""
    return {k: v for k, v in _plain_entry(study).items() if k in ("took", "finished")}


def _folder(settings: Settings) -> Path:
    """Return the folder with one small file per run."""
    return settings.home / "runs"


def _write_place(study: Study, place: Recorded | None) -> None:
    known = {} if place is None else vars(place)
    entry = {"identity": identity_of(study), **known}
    write_atomic(study.folder / _PLACE, json.dumps(entry, indent=2).encode())


def _read_place(folder: Path) -> dict[str, Any]:
    path = folder / _PLACE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(
            f"{path} must say in JSON where the run is recorded, but it is damaged; remove it, "
            "then `fkd sync` writes it again."
        )
    return found


_DIGITS = re.compile(r"[0-9a-f]{6,64}")
_EARLIER_RUN = re.compile(r"(?P<name>.+)~(?P<back>\d+)")


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
                f"{word} must be the report or the folder of a run, but no config.yaml lies "
                f"there; runs of this home are under {settings.experiments}."
            )
        # By its identity, if it is known: the rows that its configuration names may have changed.
        for run in known_runs(settings)[0]:
            if run.identity and run.identity == files_owner(folder):
                return _opened(settings, run)
        return open_study(load_config(folder / "config.yaml"), settings)
    if path.is_file():
        return open_study(load_config(word), settings)
    runs, _ = known_runs(settings)
    found = meant_run(settings, runs, word, place=str(settings.home))
    if found is not None:
        return _opened(settings, found)
    names = dict.fromkeys((*(run.config.name for run in reversed(runs)), *shipped()))
    try:
        check_name(word, names, key="a run of this home, or a shipped configuration,")
    except ValueError as error:
        raise UserError(f"there is no file {word}, and {error}.") from None
    return open_study(load_config(word), settings)


def meant_run(
    settings: Settings, runs: list[KnownRun], word: str, *, place: str
) -> KnownRun | None:
    """Return the run of an identity, of an id in MLflow, or the latest of a name.

    `place` is who knows these runs, as it is shown.
    """
    if _DIGITS.fullmatch(word):
        identity = _recorded_as(settings, word) or word
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
            f"{name}~{back} must be a run of {place}, which knows {len(same)} called so; "
            f"the earliest is {name}~{len(same) - 1}."
        )
    return same[-1 - back] if same else None


def _recorded_as(settings: Settings, run_id: str) -> str | None:
    """Return the identity of a run by its id in MLflow, None where none has that id."""
    for path in sorted(settings.experiments.glob("*/tracking.json")):
        try:
            place = json.loads(path.read_text())
            if place.get("run_id") == run_id:
                return str(place["identity"])
        except (ValueError, KeyError, AttributeError):
            continue  # damaged; the commands that need it say so
    return None


def _opened(settings: Settings, run: KnownRun) -> Study:
    try:
        return run.open(settings)
    except UserError as error:
        raise UserError(f"{run.config.name} of {run.ran} cannot be opened: {error}") from error


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
            run = parse_entry(entry, store.location(name), name.split("/")[1])
            found.append(SharedRun(run, entry, _plain_files(files)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"{store.location(name)} cannot be read ({type(error).__name__}).")
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
                f"{store.location(names[name])} must have the checksum of its run, but it is "
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


# Of these a name says what they belong to; all else is removed by its age alone.
_KINDS = (".record", ".failed", ".arrays")
_PREPARED = "prepared/"
_NAMED = (_PREPARED, FOLDER)


def referenced(settings: Settings) -> tuple[set[str], list[str]]:
    """Return what all known runs refer to, with what cannot be opened.

    Those that other homes have left in a shared store are known; their files are kept too.
    """
    runs, problems = known_runs(settings)
    others, unread = shared_runs(settings)
    found = {name for other in others for name in other.names}
    problems += unread
    own = {run.identity for run in runs}
    for run in (*runs, *(other.run for other in others if other.run.identity not in own)):
        try:
            found.update(_names(run.open(settings)))
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    return found, problems


def is_told_by_name(name: str) -> bool:
    """Return whether a blob is a table, a record, predictions, a failure or a run's file."""
    folder, _, rest = name.partition("/")
    return name.startswith(_NAMED) or (len(folder) == 2 and rest.endswith(_KINDS))


def _names(study: Study) -> Iterator[str]:
    """Yield the names of what a run's numbers rest on."""
    yield prepared_name(study.loaded.digest)
    for fold in study.inputs.splits.all(study.loaded.table).values():
        for trial in study.trials:
            key = record_key(trial, fold, study.inputs)
            yield from (record_name(key), predictions_name(key), failure_name(key))
