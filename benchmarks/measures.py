"""Time of HGR, GDP with pairwise fairness for one model on up to 1.66 million predictions.

`FKD_BENCH_ROWS=300000` takes fewer.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each
from fkd.core.arrays import Array, row_blocks
from fkd.measures import PairwiseRows, gdp, hgr
from fkd.measures.gdp import level_totals, smooth

MOST, REPEATS = 1_664_500, 3
SLOPE_ROWS = (10_000, 100_000, 1_000_000)
DIRECT_ROWS = 20_000  # where comparing each row with each is still bearable
KINDS = ("ages", "different values")
SECONDS = 5.0


def run() -> Record:
    """Return the seconds of each measure by rows, and what they cost in the direct form."""
    most = int(os.environ.get("FKD_BENCH_ROWS", MOST))
    sizes = [n for n in (*SLOPE_ROWS, most) if n <= most]
    with threadpool_limits(1):
        rows = [_row(kind, n) for kind in KINDS for n in sorted(set(sizes))]
        goals = [
            Goal(
                f"seconds of HGR, GDP, PF, {row['rows']} rows, s of {row['s']}", row["all"], SECONDS
            )
            for row in rows
            if row["rows"] == most
        ]
        ratios = _direct_ratios()
    return Record(
        rows=rows,
        goals=[*goals, *_slopes(rows)],
        remarks=[
            "CPU seconds with one BLAS thread; truth and attribute ordered before, compiled before",
            "HGR and GDP change their ways between the sizes: "
            "see docs/explanation/measures.md, Very many rows",
            f"pairs counted by {'numba' if find_spec('numba') else 'numpy'}",
            *(f"{name}: direct form / ours = {ratio:.1f}" for name, ratio in ratios.items()),
        ],
    )


def sample(kind: str, n: int) -> tuple[Array, Array, Array]:
    """Return truth with ties, predictions, an attribute: 77 ages, or n different values."""
    rng = np.random.default_rng(0)
    s = rng.integers(17, 94, size=n) / 1.0 if kind == "ages" else rng.gamma(2.0, size=n)
    y = np.round(rng.lognormal(10, 1, size=n), -1)
    return y, 0.5 * np.log(y) + 0.3 * s / s.std() + 0.2 * rng.normal(size=n), s


def calls(y: Array, f: Array, s: Array) -> Mapping[str, Callable[[], object]]:
    """Return the measures of one model of a split whose truth and attribute are known."""
    pairs = PairwiseRows(y, s)
    pairs.fairness(-f)
    return {
        "hgr": partial(hgr, f, s, margins="standard"),
        "gdp": partial(gdp, f, s, margins="range"),
        "gdp plug-in": partial(gdp, f, s, estimator="plugin", margins="range"),
        "pf": partial(pairs.fairness, f),
    }


def _row(kind: str, n: int) -> dict[str, object]:
    """Return the seconds of all measures on n rows."""
    seconds = best_of_each(REPEATS, calls(*sample(kind, n)), clock=time.process_time)
    return {"s": kind, "rows": n, **seconds, "all": sum(seconds.values())}


def _slopes(rows: list[dict[str, object]]) -> list[Goal]:
    """Return how the time grows with rows, as an exponent between the ends of each column."""
    goals = []
    for kind in KINDS:
        mine = [row for row in rows if row["s"] == kind and row["rows"] in SLOPE_ROWS]
        if len(mine) > 1:
            first, last = mine[0], mine[-1]
            times, sizes = ([float(str(r[key])) for r in (first, last)] for key in ("all", "rows"))
            slope = float(np.log(times[1] / times[0]) / np.log(sizes[1] / sizes[0]))
            name = f"exponent of the rows, {first['rows']} to {last['rows']}, s of {kind}"
            goals.append(Goal(name, slope, 1.15))
    return goals


def _direct_ratios() -> dict[str, float]:
    """Return how much longer the direct forms take on a few rows."""
    y, f, s = sample(KINDS[1], DIRECT_ROWS)
    levels, totals = level_totals(f - f.mean(), s)
    h = float(s.std()) * (3 * len(s) / 4) ** (-1 / 5)
    ours = calls(y, f, s)
    direct = {
        "direct pf": partial(_pairs_by_comparison, y, f, s),
        "direct gdp plug-in": partial(smooth, levels, levels, totals, h),
    }
    both = {**direct, "pf": ours["pf"], "gdp plug-in": ours["gdp plug-in"]}
    seconds = best_of_each(1, both, clock=time.process_time)
    return {
        f"{name}, {DIRECT_ROWS} rows": seconds[f"direct {name}"] / seconds[name]
        for name in ("pf", "gdp plug-in")
    }


def _pairs_by_comparison(y: Array, f: Array, s: Array) -> list[float]:
    """Return both rates of pairwise fairness by comparing each row with each."""
    counts = np.zeros((2, 2))
    for rows in row_blocks(len(y), 16):
        larger, right = y[rows, None] > y, f[rows, None] > f
        for i, condition in enumerate((s[rows, None] > s, s[rows, None] < s)):
            pairs = larger & condition
            counts[i] += np.count_nonzero(pairs), np.count_nonzero(pairs & right)
    return [float(right / pairs) for pairs, right in counts]
