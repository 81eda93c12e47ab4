"""Public files by the name under which mirrors, hosts or caches keep them."""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from configs.census import FIPS, Horizon

_CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"
# The address of single files, whose checksum is known; newer pages offer an archive of them.
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/communities"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a public host.

    Parameters
    ----------
    name
        Its path in a mirror, which is its name in the cache too.
    url
        Where the publisher keeps it.
    member
        For a zip: a pattern of the name of the table in it.
    """

    name: str
    url: str
    member: str | None = None

    @property
    def pinned(self) -> str | None:
        """The sha256 that the file must have, where it is known in advance."""
        return _manifest().get(self.name)


def person_file(state: str, year: int, horizon: Horizon) -> RemoteFile:
    """Return the census file of one state's persons.

    Until 2006 the files lie in the year's folder; until 2016 the table in the zip is named by year
    with the postal code (ss16pmt.csv), since then by the FIPS number alone (psam_p30.csv).
    """
    short = f"csv_p{state.lower()}.zip"
    # The cache keeps one layout for all years, whatever the host does.
    folder = f"{year}" if year < 2007 else f"{year}/{horizon}"
    old = rf"ss{year % 100:02d}p{state.lower()}"
    return RemoteFile(
        name=f"census/{year}/{horizon}/{short}",
        url=f"{_CENSUS}/{folder}/{short}",
        member=rf"(psam_p{FIPS[state]}|{old})\.csv",
    )


COMMUNITIES = RemoteFile(name="uci/communities.data", url=f"{_UCI}/communities.data")


def matches_member(file: RemoteFile, name: str) -> bool:
    """Tell whether a name inside the zip is that of the table."""
    return re.fullmatch(file.member or "", name, flags=re.IGNORECASE) is not None


@cache
def _manifest() -> dict[str, str]:
    """Read the shipped list of known checksums."""
    text = files("tasks").joinpath("data", "manifest.json").read_text(encoding="utf-8")
    pinned: dict[str, str] = json.loads(text)
    return pinned
