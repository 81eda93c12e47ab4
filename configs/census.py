"""The person files that the Census Bureau publishes, by state, year, horizon."""

from typing import Literal

from configs.nearest import check_name

Horizon = Literal["1-Year", "3-Year", "5-Year"]

# Postal code and FIPS number of the states with the District of Columbia, then Puerto Rico.
_CODES = """
AL 01 AK 02 AZ 04 AR 05 CA 06 CO 08 CT 09 DE 10 DC 11 FL 12 GA 13 HI 15 ID 16 IL 17 IN 18 IA 19
KS 20 KY 21 LA 22 ME 23 MD 24 MA 25 MI 26 MN 27 MS 28 MO 29 MT 30 NE 31 NV 32 NH 33 NJ 34 NM 35
NY 36 NC 37 ND 38 OH 39 OK 40 OR 41 PA 42 RI 44 SC 45 SD 46 TN 47 TX 48 UT 49 VT 50 VA 51 WA 53
WV 54 WI 55 WY 56 PR 72
"""
_WORDS = _CODES.split()
FIPS = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))

# First and last year of each horizon; the 3-Year files ended with 2013.
_YEARS: dict[Horizon, tuple[int, int | None]] = {
    "1-Year": (2005, None),
    "3-Year": (2007, 2013),
    "5-Year": (2009, None),
}


def expand_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return postal codes in capitals; "all" means every state with the District of Columbia."""
    if [state.lower() for state in states] == ["all"]:
        return tuple(state for state in FIPS if state != "PR")
    codes = tuple(check_name(state.upper(), FIPS, key="data.states") for state in states)
    if len(set(codes)) < len(codes):
        raise ValueError(f"data.states must name each state once, got {list(states)}")
    return codes


def later_releases(year: int, horizon: Horizon, until: int) -> tuple[int, ...]:
    """Return the years after one in which there is, or will be, a release."""
    found = []
    for later in range(year + 1, until + 1):
        try:
            check_release(later, horizon)
        except ValueError:
            continue
        found.append(later)
    return tuple(found)


def other_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return the states that are not among these, those behind the last one first."""
    chosen = expand_states(states)
    every = expand_states(("all",))
    start = list(FIPS).index(chosen[-1]) + 1
    around = [*list(FIPS)[start:], *list(FIPS)[:start]]
    return tuple(state for state in around if state in every and state not in chosen)


def check_release(year: int, horizon: Horizon) -> None:
    """Raise ValueError for a release that does not exist."""
    if (year, horizon) == (2020, "1-Year"):
        raise ValueError(
            "data.year 2020 has no standard 1-Year release (the pandemic broke the survey off, the "
            "Census Bureau published experimental weights only); take 2019, 2021 or horizon 5-Year"
        )
    first, last = _YEARS[horizon]
    if year < first or (last is not None and year > last):
        span = f"from {first} on" if last is None else f"{first} to {last}"
        raise ValueError(f"data.year must lie in the {horizon} releases, {span}, got {year}")
