"""Ends of intervals of a fit's numbers, where its test rows are very many."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.measures.counted_deviations import counted_deviations
from fkd.measures.counted_intervals import CountedMeasure
from fkd.measures.subsamples import quarter

# Held-out rows from which on draws are counted in cells: their rounding is far below the noise.
COUNTED_ROWS = 100_000
# Every fit of a run is drawn for: enough that the width of its interval is known to a seventh.
DRAWS = 25
COUNTED: tuple[CountedMeasure, ...] = ("hgr", "gdp")
_MOST = {"hgr": 1.0}
# Of a normal distribution, the deviations within which 95 % lie.
_DEVIATIONS = 1.959964
# Sets the draws apart from others of the same seed.
_ENDS = 3


def is_counted(n: int, w: Array | None) -> bool:
    """Return whether n rows are so many that draws are counted in cells.

    There rows that weigh differently are alike.
    """
    return w is None and n >= COUNTED_ROWS


def counted_ends(
    y_pred: Array,
    y: Array,
    columns: Mapping[str, Array],
    found: Mapping[str, Mapping[str, float]],
    seed: int,
) -> dict[str, dict[str, float]]:
    """Return both ends of the 95 % intervals of error, HGR and GDP, by measured column.

    Parameters
    ----------
    y_pred, y
        Predictions of the test rows, their targets.
    columns
        The measured columns of these rows.
    found
        The measures of all rows, by column.
    seed
        Of the run: all its fits see draws of the same numbers.
    """
    errors = np.abs(y_pred - y)
    mean, deviation = float(errors.mean(axis=0)), float(errors.std(axis=0)) / np.sqrt(len(y))
    by_column = {}
    for column, s in columns.items():
        drawn = counted_deviations(COUNTED, y_pred, s, _quarters(len(y), seed), margins="given")
        ends = _around("mae", mean, deviation)
        for name, spread in drawn.items():
            ends |= _around(name, found[column][name], spread)
        by_column[column] = ends
    return by_column


def _around(name: str, value: float, deviation: float) -> dict[str, float]:
    """Return both ends by name, within what the measure can be."""
    half = _DEVIATIONS * deviation
    most = _MOST.get(name, np.inf)
    return {f"{name}_low": max(0.0, value - half), f"{name}_high": min(most, value + half)}


@lru_cache(maxsize=1)
def _quarters(n: int, seed: int) -> list[NDArray[np.intp]]:
    """Return the draws that all fits of a split see: one numbers as many rows as another."""
    rng = np.random.default_rng([seed, _ENDS])
    return [quarter(n, rng) for _ in range(DRAWS)]
