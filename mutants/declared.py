"""Mutants and equivalents that people wrote down."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mutants.anchors import AnchorError, Index
from mutants.changes import compiles
from mutants.mutant import Mutant

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Equivalent:
    """A drawn change that no test can notice, with the reason."""

    anchor: str
    before: str
    after: str
    reason: str


def named_mutants(index: Index, root: Path) -> list[Mutant]:
    """Return the mutants of named.yaml; what cannot be found is an error, not a mutant less."""
    return [_named(entry, index, root) for entry in _entries("named.yaml")]


def equivalents(index: Index) -> list[Equivalent]:
    """Return the entries of equivalent.yaml, each of a function that is still there."""
    found = [Equivalent(**entry) for entry in _entries("equivalent.yaml")]
    for entry in found:
        index.find(entry.anchor)
    return found


def _entries(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load((_HERE / name).read_text()) or []
    return entries


def _named(entry: dict[str, Any], index: Index, root: Path) -> Mutant:
    before, after = entry["replace"].rstrip("\n"), entry["by"].rstrip("\n")
    function = index.find(entry["anchor"], before)
    if function.text.count(before) != 1:
        raise AnchorError(
            f"{entry['name']!r}: {before!r} must stand once in {function.anchor}, "
            f"found {function.text.count(before)} times. Follow the code in mutants/named.yaml"
        )
    start, stop = function.span
    text = function.source[start:stop].replace(before, after)
    source = function.source[:start] + text + function.source[stop:]
    if not compiles(source):
        raise AnchorError(f"{entry['name']!r}: {after!r} is not Python in {function.anchor}")
    tests = tuple(f"tests/{name}" for name in entry["tests"])
    if absent := [test for test in tests if not (root / test).is_file()]:
        raise AnchorError(f"{entry['name']!r}: there is no {', '.join(absent)}")
    return Mutant(entry["name"], function, before, after, source, tests)
