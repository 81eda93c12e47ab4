"""Made-up persons with roughly the marginals of a census file."""

import numpy as np

from fkd.core.arrays import Array

# Shares of Montana's 2018 file, rounded; what matters is the shape, not the digits.
_DECADES = [0.11, 0.12, 0.12, 0.12, 0.11, 0.13, 0.15, 0.09, 0.05]
_RACES = [0.79, 0.09, 0.04, 0.002, 0.003, 0.03, 0.002, 0.02, 0.023]
_CITIZENS = [0.92, 0.005, 0.01, 0.035, 0.03]
_CLASSES = [0.53, 0.09, 0.08, 0.05, 0.05, 0.11, 0.07, 0.015, 0.005]
_TRAVEL = {1: 0.82, 2: 0.01, 4: 0.005, 8: 0.005, 9: 0.01, 10: 0.06, 11: 0.08, 12: 0.01}
_RELATIONS = [0.46, 0.25, 0.0, 0.01, 0.02, 0.01, 0.01, 0.03, 0.01, 0.01, 0.02, 0.01, 0.03, 0.06, 0]
_JOBS = 440


def draw_persons(n: int, rng: np.random.Generator, *, state: int) -> dict[str, Array]:
    """Return columns of n persons by their census names, NaN where a question does not apply.

    Income, hours, travel, marriage depend on age; age shows through all of them, so that removing
    it is a real task.

    Parameters
    ----------
    n
        Number of persons.
    rng
        Source of randomness.
    state
        FIPS number, the usual place of birth.
    """
    age = np.minimum(10 * rng.choice(9, n, p=_DECADES) + rng.integers(0, 10, n), 94).astype(float)
    adult = age > 16
    # Older cohorts went to school for fewer years, so that schooling gives age away.
    learning = rng.normal(size=n) - 0.008 * (age - 45)
    persons = {
        "AGEP": age,
        "PWGTP": np.ceil(rng.gamma(1.3, 80.0, n)),
        "SEX": 1.0 + rng.integers(0, 2, n),
        "RAC1P": 1.0 + rng.choice(9, n, p=_RACES),
        "CIT": 1.0 + rng.choice(5, n, p=_CITIZENS),
        "MAR": _marriage(age, rng),
        "SCHL": np.where(
            age < 3, np.nan, np.where(adult, _schooling(learning), np.floor(age * 0.8))
        ),
        "DIS": 2.0 - (rng.random(n) < 0.04 + 0.004 * age),
        "MIG": np.where(age < 1, np.nan, rng.choice([1.0, 2.0, 3.0], n, p=[0.87, 0.005, 0.125])),
        "ESP": np.where(age < 18, 1.0 + rng.integers(0, 8, n), np.nan),
        "RELP": np.where(adult, _relation(n, rng), 2.0),
        "POBP": np.where(rng.random(n) < 0.55, state, _birthplace(n, rng)),
        "PUMA": 100.0 * (1 + rng.choice(7, n)),
    }
    return persons | _working_life(persons, learning, rng)


def _working_life(
    persons: dict[str, Array], learning: Array, rng: np.random.Generator
) -> dict[str, Array]:
    """Return job, hours, income, way to work."""
    age, n = persons["AGEP"], len(learning)
    # Most work and most pay in the middle of life: the dependence that fairness has to remove.
    peak = np.exp(-(((age - 46) / 19) ** 2))
    works = (age > 15) & (rng.random(n) < 0.92 * np.exp(-(((age - 42) / 28) ** 4)))
    hours = np.clip(np.rint(rng.normal(28 + 13 * peak, 11)), 1, 99)
    job = np.floor(_JOBS * _between(0.5 + 0.13 * learning + 0.2 * rng.normal(size=n)))
    earned = np.exp(8.6 + 1.5 * peak + 0.35 * learning + 0.02 * hours + 0.6 * rng.normal(size=n))
    pension = np.exp(6.0 + 0.05 * age + 0.8 * rng.normal(size=n))
    income = np.where(age < 15, np.nan, 10 * np.rint(np.where(works, earned, pension) / 10))
    home = rng.choice(list(_TRAVEL), n, p=list(_TRAVEL.values())).astype(float)
    way = np.ceil(rng.gamma(1.4, 11 + 4 * peak + persons["PUMA"] / 200, n))
    ratio = np.clip(np.rint(income / 150 + 60 * rng.random(n)), 0, 501)
    return {
        "ESR": np.where(age < 16, np.nan, np.where(works, 1.0, 6.0)),
        "WKHP": np.where(works, hours, np.nan),
        "COW": np.where(works, 1.0 + rng.choice(9, n, p=_CLASSES), np.nan),
        "OCCP": np.where(works, 10 + 22 * job, np.nan),
        "PINCP": np.minimum(income, 900_000),
        "JWTR": np.where(works, home, np.nan),
        "JWMNP": np.where(works & (home != 11), np.clip(way, 1, 148), np.nan),
        "POWPUMA": np.where(works, np.where(rng.random(n) < 0.8, persons["PUMA"], 1.0), np.nan),
        "POVPIP": np.where(rng.random(n) < 0.01, np.nan, ratio),
    }


def _between(values: Array) -> Array:
    """Return values folded into [0, 1)."""
    folded: Array = np.clip(values, 0.0, np.nextafter(1.0, 0.0))
    return folded


def _schooling(learning: Array) -> Array:
    """Return degrees 13 to 24 by thresholds, mostly high school, some college, bachelor."""
    edges = [-1.9, -1.6, -1.4, -0.4, -0.25, 0.0, 0.45, 0.7, 1.35, 1.9, 2.3]
    return (13 + np.digitize(learning, edges)).astype(np.float64)


def _marriage(age: Array, rng: np.random.Generator) -> Array:
    """Return 5 never, 1 married, 3 divorced, 2 widowed, by age."""
    chance = rng.random(len(age))
    single = np.where(age < 18, 1.0, np.exp(-(age - 18) / 12))
    widowed = 0.5 * np.clip((age - 55) / 40, 0, 1)
    status = np.where(chance < single, 5.0, 1.0)
    status = np.where((chance >= single) & (chance < single + 0.13), 3.0, status)
    return np.where(chance > 1 - widowed, np.where(age < 18, 5.0, 2.0), status)


def _relation(n: int, rng: np.random.Generator) -> Array:
    shares = np.array(_RELATIONS)
    return rng.choice(len(shares), n, p=shares / shares.sum()).astype(float)


def _birthplace(n: int, rng: np.random.Generator) -> Array:
    """Return another state, or in one of ten cases a country."""
    return np.where(rng.random(n) < 0.9, rng.integers(1, 57, n), rng.integers(100, 555, n)).astype(
        float
    )
