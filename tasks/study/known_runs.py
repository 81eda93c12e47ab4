"""The runs of an FKD_HOME with where they are recorded, so that none is forgotten."""

import json
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.errors import UserError
from configs.load import load_config, parse_config
from configs.schema import RunConfig
from fkd.methods import method
from tasks.adapters.addresses import without_credentials
from tasks.adapters.files import write_atomic
from tasks.adapters.settings import Settings
from tasks.adapters.store import digest
from tasks.adapters.tracking_places import tracking_uri
from tasks.data.prepared import read_prepared
from tasks.study.opening import Study, open_study
from tasks.study.selection import KNEE_VERSION

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
