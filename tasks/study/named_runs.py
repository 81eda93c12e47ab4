"""The run that a person's word means: a configuration, a report, a run of this home."""

import json
import re
from pathlib import Path

from configs.errors import UserError
from configs.load import load_config, shipped
from configs.nearest import check_name
from tasks.adapters.settings import Settings
from tasks.study.known_runs import KnownRun, files_owner, known_runs
from tasks.study.opening import Study, open_study

_DIGITS = re.compile(r"[0-9a-f]{6,64}")
_EARLIER = re.compile(r"(?P<name>.+)~(?P<back>\d+)")


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
    asked = _EARLIER.fullmatch(word)
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
