"""Data sets for examples, tests and scale runs, in the manner of `sklearn.datasets`.

`load_crimes` returns the Communities and Crime table that is shipped with the library.
`make_census` draws a synthetic census table of any size.
"""

import gzip
import hashlib
from importlib.resources import files

import numpy as np
from sklearn.utils import Bunch

from fkd.core.arrays import Array
from fkd.core.validation import choice, whole
from fkd.problems import PROBLEMS
from fkd.problems.crimes import CRIMES
from fkd.problems.declaration import Problem

__all__ = ["load_crimes", "make_census"]

CRIMES_FILE = "crimes.csv.gz"
CRIMES_SHA256 = "11fbb358474eef8cea910263b6723b4d9beeb9dadcc4d2485eb2f06e8a306757"
# FIPS number of the state in which `make_census` draws persons: Montana.
_STATE = 30
# Shares of Montana's person file of 2018, rounded: decades of age, races, citizenship, classes of
# workers, means of travel, relations to the reference person.
_DECADES = [0.11, 0.12, 0.12, 0.12, 0.11, 0.13, 0.15, 0.09, 0.05]
_RACES = [0.79, 0.09, 0.04, 0.002, 0.003, 0.03, 0.002, 0.02, 0.023]
_CITIZENS = [0.92, 0.005, 0.01, 0.035, 0.03]
_CLASSES = [0.53, 0.09, 0.08, 0.05, 0.05, 0.11, 0.07, 0.015, 0.005]
_TRAVEL = {1: 0.82, 2: 0.01, 4: 0.005, 8: 0.005, 9: 0.01, 10: 0.06, 11: 0.08, 12: 0.01}
_AT_HOME = 11
_RELATIONS = np.array(
    [0.46, 0.25, 0.0, 0.01, 0.02, 0.01, 0.01, 0.03, 0.01, 0.01, 0.02, 0.01, 0.03, 0.06, 0]
)
_JOBS = 440
# Thresholds of the degrees 13 to 24; high school, some college and bachelor are the most frequent.
_DEGREES = [-1.9, -1.6, -1.4, -0.4, -0.25, 0.0, 0.45, 0.7, 1.35, 1.9, 2.3]


def load_crimes(*, as_frame: bool = False) -> Bunch:
    """Return the Communities and Crime table: 1993 communities of the United States.

    The target is the number of violent crimes per population, the sensitive attribute is the share
    of Black residents. All columns are in [0, 1]. Source: M. Redmond, UCI Machine Learning
    Repository, 2002, https://doi.org/10.24432/C53W3X, licence CC BY 4.0.

    Parameters
    ----------
    as_frame
        Return pandas objects instead of arrays. Needs pandas.

    Returns
    -------
    Bunch
        `data` (1993, 98), `target` (1993,), `sensitive` (1993,), `feature_names`, `target_names`,
        `sensitive_names`, `categorical_names` (empty), `fold` (UCI's own ten folds, 1 to 10),
        `DESCR` (the datasheet), and `frame` (all columns if `as_frame`, otherwise None).

    Examples
    --------
    >>> from fkd.datasets import load_crimes
    >>> crimes = load_crimes()
    >>> crimes.data.shape, crimes.sensitive_names
    ((1993, 98), ['racepctblack'])
    """
    columns = read_crimes()
    bunch = _bunch(CRIMES, columns, as_frame)
    return Bunch(**bunch, fold=columns["fold"].astype(np.int64), DESCR=crimes_datasheet())


def read_crimes() -> dict[str, Array]:
    """Return the columns of the shipped Communities and Crime file by name."""
    content = files("fkd").joinpath("data", CRIMES_FILE).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != CRIMES_SHA256:
        raise RuntimeError(
            f"{CRIMES_FILE} must have the sha256 {CRIMES_SHA256}, got {found}. "
            "Reinstall the package."
        )
    # Decompress verified bytes only.
    header, *lines = gzip.decompress(content).decode("ascii").splitlines()
    values = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    return dict(zip(header.split(","), values.T, strict=True))


def crimes_datasheet() -> str:
    """Return the datasheet of Communities and Crime with notes on the shipped copy."""
    notes = files("fkd").joinpath("data", "crimes.md").read_text(encoding="utf-8")
    return f"{CRIMES.datasheet}\n{notes}"


def make_census(
    n_samples: int = 1000,
    *,
    problem: str = "acs_income",
    random_state: int | np.random.Generator | None = 0,
    as_frame: bool = False,
) -> Bunch:
    """Return a synthetic census table with the columns of the real one, and codes in its ranges.

    The sensitive attribute is age. Income, travel time and most inputs depend on it. No row is a
    real person. Distributions are roughly those of Montana's person file of 2018. Encode the codes
    and scale the numbers before a fit.

    Parameters
    ----------
    n_samples
        Number of rows.
    problem
        "acs_income" (target: yearly income in dollars) or "acs_travel_time" (target: minutes to
        work).
    random_state
        Seed or generator. The same seed gives the same table.
    as_frame
        Return pandas objects instead of arrays; categorical columns get the dtype category. Needs
        pandas.

    Returns
    -------
    Bunch
        `data` (n_samples, p), `target` and `sensitive` (n_samples,), `feature_names`,
        `target_names`, `sensitive_names`, `categorical_names` (columns of `data` that hold codes;
        a missing code is NaN), `sample_weight` (the survey weight), `DESCR` (the datasheet), and
        `frame` (all columns if `as_frame`, otherwise None).

    Examples
    --------
    >>> from fkd.datasets import make_census
    >>> census = make_census(500)
    >>> census.data.shape, census.target_names
    ((500, 9), ['PINCP'])
    """
    n = whole("n_samples", n_samples, low=1)
    census = [name for name, declared in PROBLEMS.items() if "synthetic" in declared.sources]
    declared = PROBLEMS[choice("problem", problem, census)]
    rng = np.random.default_rng(random_state)
    columns: dict[str, Array] = {}
    while not columns or len(columns["AGEP"]) < n:
        persons = draw_persons(n, rng, state=_STATE)
        keep = ~np.isnan(persons[declared.target])
        if declared.rows is not None:
            keep &= declared.rows.keep(persons)
        columns = {
            name: np.concatenate([columns.get(name, np.empty(0)), values[keep]])
            for name, values in persons.items()
        }
    columns = {name: values[:n] for name, values in columns.items()}
    bunch = _bunch(declared, columns, as_frame)
    return Bunch(
        **bunch, sample_weight=columns["PWGTP"], DESCR=synthetic_datasheet(declared.datasheet)
    )


def synthetic_datasheet(datasheet: str) -> str:
    """Return the datasheet with a first line that marks the data as synthetic."""
    warning = "**Synthetic data: made up by a generator; no row is a person, no figure a finding.**"
    return f"{warning}\n\n{datasheet}"


def _bunch(problem: Problem, columns: dict[str, Array], as_frame: bool) -> Bunch:
    """Return inputs, target and sensitive attribute of a problem with their names."""
    (sensitive,), target = problem.sensitive, problem.target
    # A column that is constant within one state, such as the state itself, is not drawn.
    names = [name for name in problem.predictors if name in columns and name != sensitive]
    categorical = [name for name in names if name in problem.categorical]
    table = {name: columns[name] for name in (*names, sensitive, target)}
    for name in problem.fills.keys() & table.keys():
        table[name] = np.nan_to_num(table[name], nan=problem.fills[name])
    bunch = Bunch(
        data=np.column_stack([table[name] for name in names]),
        target=table[target],
        sensitive=table[sensitive],
        frame=None,
        feature_names=names,
        target_names=[target],
        sensitive_names=[sensitive],
        categorical_names=categorical,
    )
    if as_frame:
        import pandas as pd

        frame = pd.DataFrame(table)
        frame[categorical] = frame[categorical].astype("Int64").astype("category")
        bunch.update(
            data=frame[names], target=frame[target], sensitive=frame[sensitive], frame=frame
        )
    return bunch


def draw_persons(n: int, rng: np.random.Generator, *, state: int) -> dict[str, Array]:
    """Return columns of n synthetic persons by their census names.

    A value is NaN if the question does not apply to the person. Income, hours, travel time,
    schooling and marital status depend on age.

    Parameters
    ----------
    n
        Number of persons.
    rng
        Source of randomness.
    state
        FIPS number, the most frequent place of birth.
    """
    age = np.minimum(10 * rng.choice(9, n, p=_DECADES) + rng.integers(0, 10, n), 94).astype(float)
    adult = age > 16
    # Older cohorts went to school for fewer years, so that schooling depends on age.
    learning = rng.normal(size=n) - 0.008 * (age - 45)
    degree = (13 + np.digitize(learning, _DEGREES)).astype(np.float64)
    persons = {
        "AGEP": age,
        "PWGTP": np.ceil(rng.gamma(1.3, 80.0, n)),
        "SEX": 1.0 + rng.integers(0, 2, n),
        "RAC1P": 1.0 + rng.choice(9, n, p=_RACES),
        "CIT": 1.0 + rng.choice(5, n, p=_CITIZENS),
        "MAR": _marital_status(age, rng),
        "SCHL": np.where(age < 3, np.nan, np.where(adult, degree, np.floor(age * 0.8))),
        "DIS": 2.0 - (rng.random(n) < 0.04 + 0.004 * age),
        "MIG": np.where(age < 1, np.nan, rng.choice([1.0, 2.0, 3.0], n, p=[0.87, 0.005, 0.125])),
        "ESP": np.where(age < 18, 1.0 + rng.integers(0, 8, n), np.nan),
        "RELP": np.where(adult, rng.choice(15, n, p=_RELATIONS / _RELATIONS.sum()), 2.0),
        "POBP": _birthplace(n, rng, state),
        "PUMA": 100.0 * (1 + rng.choice(7, n)),
    }
    return persons | _working_life(age, learning, persons["PUMA"], rng)


def _marital_status(age: Array, rng: np.random.Generator) -> Array:
    """Return 1 for married, 2 for widowed, 3 for divorced, 5 for never married."""
    chance = rng.random(len(age))
    single = np.where(age < 18, 1.0, np.exp(-(age - 18) / 12))
    widowed = 0.5 * np.clip((age - 55) / 40, 0, 1)
    status = np.where(chance < single, 5.0, 1.0)
    status = np.where((chance >= single) & (chance < single + 0.13), 3.0, status)
    return np.where(chance > 1 - widowed, np.where(age < 18, 5.0, 2.0), status)


def _birthplace(n: int, rng: np.random.Generator, state: int) -> Array:
    """Return the own state, another state, or (5 % of the persons) a country."""
    own, american = rng.random(n) < 0.55, rng.random(n) < 0.9
    other = np.where(american, rng.integers(1, 57, n), rng.integers(100, 555, n))
    return np.where(own, state, other).astype(np.float64)


def _working_life(
    age: Array, learning: Array, area: Array, rng: np.random.Generator
) -> dict[str, Array]:
    """Return the columns on job, hours, income and travel to work."""
    n = len(age)
    # Employment and pay are highest in the middle of life.
    peak = np.exp(-(((age - 46) / 19) ** 2))
    works = (age > 15) & (rng.random(n) < 0.92 * np.exp(-(((age - 42) / 28) ** 4)))
    hours = np.clip(np.rint(rng.normal(28 + 13 * peak, 11)), 1, 99)
    rank = np.clip(0.5 + 0.13 * learning + 0.2 * rng.normal(size=n), 0.0, np.nextafter(1.0, 0.0))
    earned = np.exp(8.6 + 1.5 * peak + 0.35 * learning + 0.02 * hours + 0.6 * rng.normal(size=n))
    pension = np.exp(6.0 + 0.05 * age + 0.8 * rng.normal(size=n))
    income = np.where(age < 15, np.nan, 10 * np.rint(np.where(works, earned, pension) / 10))
    means = rng.choice(list(_TRAVEL), n, p=list(_TRAVEL.values())).astype(float)
    minutes = np.ceil(rng.gamma(1.4, 11 + 4 * peak + area / 200, n))
    ratio = np.clip(np.rint(income / 150 + 60 * rng.random(n)), 0, 501)
    return {
        "ESR": np.where(age < 16, np.nan, np.where(works, 1.0, 6.0)),
        "WKHP": np.where(works, hours, np.nan),
        "COW": np.where(works, 1.0 + rng.choice(9, n, p=_CLASSES), np.nan),
        "OCCP": np.where(works, 10 + 22 * np.floor(_JOBS * rank), np.nan),
        "PINCP": np.minimum(income, 900_000),
        "JWTR": np.where(works, means, np.nan),
        "JWMNP": np.where(works & (means != _AT_HOME), np.clip(minutes, 1, 148), np.nan),
        "POWPUMA": np.where(works, np.where(rng.random(n) < 0.8, area, 1.0), np.nan),
        "POVPIP": np.where(rng.random(n) < 0.01, np.nan, ratio),
    }
