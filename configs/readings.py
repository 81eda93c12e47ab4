"""An experiment under another reading of its data than the published one."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from configs.data import DataConfig
from configs.errors import UserError
from configs.load import parse_config
from configs.nearest import check_name

# On these the paper is silent; what is protected, where rows come from, how many, is its own.
READING_KEYS = ("drop", "missing", "labels", "scale", "scale_on", "year", "horizon")
_PUBLISHED = "it is read so already"
_LONGEST = 40  # of a folder's name


def read_otherwise(tree: dict[str, Any], reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment with keys of `data` set on every run that they change.

    A run to which a key means nothing, or whose data are read so already, is left out with the
    claims on it, so that no verdict of the published reading is counted again.
    """
    for key in reading:
        try:
            check_name(key, READING_KEYS, key="a key of data for --set of fkd reproduce")
        except ValueError as error:
            raise UserError(f"{error}; the experiments' files say the rest.") from None
    changed, unread = dict[str, Any](), dict[str, str]()
    for name, run in tree["runs"].items():
        why = _unread(run["data"], reading)
        if why:
            unread[name] = why
        else:
            changed[name] = {**run, "data": {**run["data"], **reading}}
    if not changed:
        told = "; ".join(dict.fromkeys(unread.values()))
        raise UserError(
            f"{tree['name']} has no run that {reading_words(reading)} would read otherwise: {told}."
        )
    claims = [kept for claim in tree.get("claims", []) for kept in _on(claim, changed)]
    return {**tree, "runs": changed, "claims": claims, "reading": dict(reading), "unread": unread}


def reading_words(reading: Mapping[str, Any]) -> str:
    """Return a reading as `--set` takes it, for people."""
    return ", ".join(f"data.{key}={_plain(value)}" for key, value in reading.items())


def reading_slug(reading: Mapping[str, Any]) -> str:
    """Return a reading as part of a file's name."""
    words = [
        f"{key}-{_plain(value).strip('[]') or 'none'}" for key, value in sorted(reading.items())
    ]
    slug = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(words)).strip("-")
    if len(slug) <= _LONGEST:
        return slug
    # Cut names of two readings could be the same.
    return f"{slug[: _LONGEST - 9]}-{hashlib.sha256(slug.encode()).hexdigest()[:8]}"


def _unread(data: Mapping[str, Any], reading: Mapping[str, Any]) -> str:
    """Return why a run's data cannot be read so, nothing where they can."""
    try:
        found = parse_config({"methods": ["dummy"], "data": {**data, **reading}}, "--set").data
    except UserError as error:
        return str(error).removeprefix("--set: ").rstrip(".")
    return _PUBLISHED if found == DataConfig.model_validate(data) else ""


def _on(claim: Any, runs: Mapping[str, Any]) -> list[Any]:
    """Return the claim on the runs that are left, nothing where none of its own is."""
    if not isinstance(claim, Mapping) or not claim.get("runs"):
        return [claim]
    named = [claim["runs"]] if isinstance(claim["runs"], str) else claim["runs"]
    kept = [run for run in named if run in runs]
    return [{**claim, "runs": kept}] if kept else []


def _plain(value: Any) -> str:
    """Return a value as it stands in --set."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)
