"""The data file that is shipped inside the package."""

import gzip
from importlib.resources import files

import numpy as np

from fkd.core.arrays import Array
from fkd.problems.crimes import CRIMES
from tasks.adapters.files import sha256

CRIMES_SHA256 = "11fbb358474eef8cea910263b6723b4d9beeb9dadcc4d2485eb2f06e8a306757"
NAME = "crimes.csv.gz"


class DamagedPackageError(Exception):
    """A file of the installed package is not the one that was shipped."""


def read_crimes() -> dict[str, Array]:
    """Return the columns of the embedded Communities and Crime by name, checksum verified."""
    content = files("tasks").joinpath("data", NAME).read_bytes()
    found = sha256(content)
    if found != CRIMES_SHA256:
        raise DamagedPackageError(
            f"tasks/data/{NAME} must have the sha256 {CRIMES_SHA256}, got {found}; "
            "reinstall the package"
        )
    # Only verified bytes are unpacked.
    header, *lines = gzip.decompress(content).decode("ascii").splitlines()
    values = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    return dict(zip(header.split(","), values.T, strict=True))


def datasheet() -> str:
    """Return the problem's datasheet with the notes on this copy of it."""
    notes = files("tasks").joinpath("data", "crimes.md").read_text(encoding="utf-8")
    return f"{CRIMES.datasheet}\n{notes}"
