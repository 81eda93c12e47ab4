"""Ends of intervals of a fit's numbers, where its test rows are very many."""

from collections.abc import Mapping

import numpy as np
from scipy.special import ndtri, stdtrit

from fkd.core.arrays import Array
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import BINNED_FROM, SharedSubsamples, quarter

# Every fit of a run is drawn for: enough that the width of its interval is known to a seventh.
DRAWS = 25
_BINNED = tuple(m.scaled() for m in REPORTED.values() if m.interval == "binned")
# Deviations within which 95 % lie: of a normal distribution, and where so few draws tell them.
_KNOWN, _DRAWN = float(ndtri(0.975)), float(stdtrit(DRAWS - 1, 0.975))
# Sets the draws apart from others of the same seed.
_ENDS = 3


def is_counted(n: int, w: Array | None) -> bool:
    """Return whether n rows are so many that draws are counted in cells.

    There rows that weigh differently are alike.
    """
    return w is None and n >= BINNED_FROM


def end_names(measure: str) -> tuple[str, str]:
    """Return as what a record has both ends.

    Older records have `_low` and `_high`, quantiles of other draws: the two kinds do not mix.
    """
    return f"{measure}_lower", f"{measure}_upper"


class CountedEnds:
    """Both ends of the 95 % intervals of the error and of measures that can be binned.

    Parameters
    ----------
    y
        Targets of the test rows.
    columns
        The measured columns of these rows.
    seed
        Of the run: all its fits see draws of the same numbers.
    """

    def __init__(self, y: Array, columns: Mapping[str, Array], seed: int) -> None:
        rng = np.random.default_rng([seed, _ENDS])
        quarters = [quarter(len(y), rng) for _ in range(DRAWS)]
        self.y = y
        self.drawn = {name: SharedSubsamples(s, quarters) for name, s in columns.items()}

    def around(
        self, y_pred: Array, found: Mapping[str, Mapping[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Return the ends by measured column.

        Parameters
        ----------
        y_pred
            Predictions of the test rows.
        found
            Their measures, by column.
        """
        errors = np.abs(y_pred - self.y)
        mean, rows = float(errors.mean(axis=0)), len(errors)
        half = _KNOWN * float(errors.std(axis=0)) / np.sqrt(rows)
        by_column = {}
        for column, drawn in self.drawn.items():
            by_column[column] = _around("mae", mean, half, np.inf)
            for name, spread in drawn.deviations(_BINNED, y_pred).items():
                value, most = found[column][name], REPORTED[name].range[1]
                by_column[column] |= _around(name, value, _DRAWN * spread, most)
        return by_column


def _around(name: str, value: float, half: float, most: float) -> dict[str, float]:
    """Return both ends by name, within what the measure can be."""
    lower, upper = end_names(name)
    return {lower: max(0.0, value - half), upper: min(most, value + half)}
