"""Marks for tests that need something that `make test` does not install."""

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from fkd.baselines.base import Extra
from fkd.methods import method

MODULES = ("torch", "concept_erasure", "fairlearn", "maxcorr", "numba")


def absence(name: str) -> str:
    """Return why a requirement is not met, with the remedy; an empty string if it is met."""
    if name in MODULES:
        return "" if find_spec(name) else f"{name} is not installed (make neural)"
    if name == "chromium":
        return "" if shutil.which("chromium") else "chromium is not installed (make system)"
    if name == "postgresql":
        found = shutil.which("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        return "" if found else "PostgreSQL is not installed (make system)"
    if name == "mirror":
        return "" if mirror() else "no mirror of the real data files (set FKD_DATA_MIRROR)"
    raise ValueError(f"a test cannot need {name!r}; tests/optional.py lists what it can")


def mirror() -> Path | None:
    """Return the folder FKD_DATA_MIRROR, or one beside the project, if it holds data."""
    named = os.environ.get("FKD_DATA_MIRROR", "")
    place = Path(named) if named else Path(__file__, "../../../shared/data").resolve()
    return place if (place / "census").is_dir() else None


def needs(extra: Extra | None) -> list[pytest.MarkDecorator]:
    """Return the marks of a case that needs the packages of an extra."""
    return [] if extra is None else [pytest.mark.needs(*extra.packages)]


def marked(names: Iterable[str]) -> list:
    """Return method names as parameters; methods with optional packages are marked."""
    return [pytest.param(name, marks=needs(method(name).extra), id=name) for name in names]
