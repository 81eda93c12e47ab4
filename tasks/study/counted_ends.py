"""Ends of intervals of a fit's numbers, where its test rows are very many."""

from collections.abc import Mapping

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.counted_intervals import CountedMeasure, intervals_around

# Held-out rows from which on draws are counted in cells: their rounding is far below the noise.
COUNTED_ROWS = 100_000
# Every fit of a run is drawn for: enough that the width of its interval is known to a seventh.
DRAWS = 50
COUNTED: tuple[CountedMeasure, ...] = ("hgr", "gdp")
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
    mean = float(errors.mean(axis=0))
    half = _DEVIATIONS * float(errors.std(axis=0)) / np.sqrt(len(y))
    by_column = {}
    for column, s in columns.items():
        rng = np.random.default_rng([seed, _ENDS])
        known = {name: found[column][name] for name in COUNTED}
        drawn = intervals_around(known, y_pred, s, rng=rng, margins="given", replicates=DRAWS)
        ends = {"mae_low": mean - half, "mae_high": mean + half}
        for name, interval in drawn.items():
            ends |= {f"{name}_low": float(interval.low), f"{name}_high": float(interval.high)}
        by_column[column] = ends
    return by_column
