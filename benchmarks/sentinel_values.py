"""False alarms among honest columns and detected codes of `fkd.core.sentinel_values`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.record import Goal, Record
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values

Draw = Callable[[np.random.Generator, int], Any]
DRAWS = {20: 8000, 60: 8000, 300: 4000, 600: 2000, 3000: 1000}  # honest columns by rows
TIMES = 400  # columns with codes, of each number of rows


def _zeros(rng: np.random.Generator, n: int, share: float, values: Array) -> Array:
    """Return the values, a share of them replaced by 0."""
    return np.where(rng.random(n) < share, 0, values)


HONEST: dict[str, Draw] = {
    "log-normal, sigma 2": lambda r, n: r.lognormal(0, 2, n),
    "log-normal, sigma 1, hundredths": lambda r, n: np.round(r.lognormal(3, 1, n), 2),
    "log-normal, sigma 1, tenths": lambda r, n: np.round(r.lognormal(3, 1, n), 1),
    "incomes": lambda r, n: np.round(r.lognormal(10.5, 0.9, n), -2),
    "incomes with zeros": lambda r, n: _zeros(r, n, 0.1, np.round(r.lognormal(10.5, 0.9, n), -2)),
    "like incomes with zeros": lambda r, n: _zeros(
        r, n, 0.03, np.round(r.lognormal(10.5, 0.3, n), -2)
    ),
    "wages with zeros": lambda r, n: _zeros(r, n, 0.03, np.round(r.uniform(800, 1200, n))),
    "rents with zeros": lambda r, n: _zeros(r, n, 0.05, np.round(r.normal(900, 150, n), 2)),
    "Pareto, index 1": lambda r, n: r.pareto(1, n) + 1,
    "whole Pareto, index 1": lambda r, n: np.floor(5 * (r.pareto(1, n) + 1)),
    "Cauchy": lambda r, n: r.standard_cauchy(n),
    "Poisson mixture": lambda r, n: r.poisson(np.where(r.random(n) < 0.95, 2, 30)),
    "rare large counts": lambda r, n: r.poisson(np.where(r.random(n) < 0.99, 2, 100)),
    "counts": lambda r, n: r.poisson(4, n),
    "negative binomial": lambda r, n: r.negative_binomial(0.1, 0.01, n),
    "90 % zeros": lambda r, n: _zeros(r, n, 0.9, np.floor(r.lognormal(3, 2, n))),
    "50 % zeros": lambda r, n: _zeros(r, n, 0.5, r.gamma(2, 50, n)),
    "ages": lambda r, n: r.integers(0, 111, n),
    "few old": lambda r, n: np.where(
        r.random(n) < 0.01, r.integers(90, 116, n), r.integers(18, 66, n)
    ),
    "shares": lambda r, n: r.beta(0.05, 5, n),
    "percentages": lambda r, n: np.round(100 * r.beta(2, 5, n), 1),
    "years": lambda r, n: r.integers(1900, 2025, n),
    "birth years": lambda r, n: r.integers(1940, 2006, n),
    "temperatures": lambda r, n: np.round(r.normal(15, 8, n)),
    "temperatures, halves": lambda r, n: np.round(2 * r.normal(10, 5, n)) / 2,
    "temperatures, tenths": lambda r, n: np.round(r.normal(10, 5, n), 1),
    "z-scores": lambda r, n: r.normal(0, 1, n),
    "z-scores, hundredths": lambda r, n: np.round(r.normal(0, 1, n), 2),
    "profits": lambda r, n: np.round(r.normal(300, 120, n)),
    "two values": lambda r, n: r.integers(0, 2, n),
    "Likert": lambda r, n: r.integers(1, 6, n),
    "marks": lambda r, n: r.integers(1, 11, n),
}
CODED: dict[str, Draw] = {
    "ages": lambda r, n: r.integers(18, 81, n).astype(float),
    "shares": lambda r, n: r.beta(2, 5, n),
    "birth years": lambda r, n: r.integers(1940, 2006, n).astype(float),
    "temperatures": lambda r, n: np.round(r.normal(10, 5, n), 1),
}
_COMMON = (999, 9999, 99999, -99, -999, -9999, 99999999, 1e6, 999.9, 9999.99, -99.9, 1111)
CODES: dict[str, list[tuple[float, ...]]] = {
    "ages": [*((code,) for code in _COMMON), (996, 997, 998, 999), tuple(range(9994, 10000))],
    "shares": [*((code,) for code in (99, 99.9, *_COMMON)), (996, 997, 998, 999)],
    "birth years": [(0,), (9999,)],
    "temperatures": [(99.9,), (-99,), (-99.9,)],
}


def run() -> Record:
    """Return alarms per 1,000 honest columns, and the share of codes that were found."""
    alarms = [_alarms(name) for name in HONEST]
    columns = sum(DRAWS.values())
    mean = float(np.mean([row["all"] for row in alarms]))
    worst = max(row["all"] for row in alarms)
    found = [_found(name, codes) for name, known in CODES.items() for codes in known]
    return Record(
        timed=False,
        rows=[*alarms, *found],
        goals=[
            Goal("alarms in 1,000 honest columns, mean over families", mean, 0.1),
            Goal("alarms in 1,000 honest columns, worst family", worst, 1.0),
        ],
        remarks=[
            f"honest: alarms in 1,000 columns by rows, {columns:,} columns of each family",
            f"codes: percentage of {TIMES} columns in which exactly these were found; three rows "
            "hold one code, or one row each of a series",
        ],
    )


def _alarms(name: str) -> dict[str, Any]:
    """Return the alarms of one family by rows, in 1,000 columns."""
    rng = np.random.default_rng([11, *name.encode()])
    counts = {
        n: sum(len(sentinel_values(HONEST[name](rng, n))[0]) > 0 for _ in range(times))
        for n, times in DRAWS.items()
    }
    rates = {str(n): 1000 * count / DRAWS[n] for n, count in counts.items()}
    mean = 1000 * sum(counts.values()) / sum(DRAWS.values())
    return {"column": name, "codes": "", **rates, "all": mean}


def _found(name: str, codes: tuple[float, ...]) -> dict[str, Any]:
    """Return the percentage of columns by rows in which exactly the codes were found."""
    hits = dict.fromkeys(DRAWS, 0)
    for n in DRAWS:
        rng = np.random.default_rng([7, n, *name.encode()])
        for _ in range(TIMES):
            values = CODED[name](rng, n)
            rows = rng.choice(n, max(3, len(codes)), replace=False)
            values[rows] = np.resize(codes, len(rows))
            hits[n] += np.array_equal(sentinel_values(values)[0], np.sort(codes))
    rates = {str(n): 100 * count / TIMES for n, count in hits.items()}
    written = " ".join(f"{code:.12g}" for code in codes)
    return {"column": name, "codes": written, **rates, "all": float(np.mean([*rates.values()]))}
