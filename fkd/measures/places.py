"""Where along a sensitive column a curve is looked at, with how much each row counts there."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.control_groups import MOST_LEVELS
from fkd.measures.gdp import rate
from fkd.measures.margins import by_rank
from fkd.measures.repeated_rows import in_order, rows_in_all

# Rows farther than so many windows do not count: a trace of them would be a mean told for sure.
_REACH = 3.0
# A level with fewer rows has no spread to tell an interval from.
LEAST_AT_LEVEL = 2
# Half of the window that GDP smooths by: ranks, spread evenly over (0, 1), deviate by sqrt(1/12).
# A curve is looked at in detail, while GDP is one number.
_WINDOW = 0.5 * float(np.sqrt(1 / 12))


@dataclass(frozen=True)
class Places:
    """Points of s with the rank of each row, or its level where levels are few."""

    points: Array  # (g,)
    at: Array  # (g,), the rank or level of each point
    of_rows: Array  # (n,)
    window: float  # 0.0 where rows count at their own level alone
    w: Array | None = None  # (n,), how many rows each row stands for

    @classmethod
    def of(cls, s: Array, points: int, w: Array | None = None) -> "Places":
        """Return at most so many points of a column that varies."""
        levels, counts = np.unique(s, return_counts=True)
        if len(levels) <= MOST_LEVELS:
            drawn = levels[counts >= LEAST_AT_LEVEL]
            if not len(drawn):
                raise ValueError(
                    f"sensitive must have a value that {LEAST_AT_LEVEL} rows share, or more than "
                    f"{MOST_LEVELS} values, got {len(s)} rows; more rows are needed"
                )
            return cls(drawn, drawn, s, 0.0, w)
        ranks, n = by_rank(s, w), rows_in_all(w, len(s))
        # Of rows in order, those at equal steps: many equal rows are one point.
        steps = np.linspace(0, n - 1, points).round()
        chosen = np.sort(s)[steps.astype(np.intp)] if w is None else in_order(s, w, steps)
        drawn, first = np.unique(chosen), np.argsort(s, kind="stable")
        at = ranks[first][np.searchsorted(s[first], drawn)]
        return cls(drawn, at, ranks, rate(n) * _WINDOW, w)

    def weights(self, rows: slice) -> Array:
        """Return how much a row that is there once counts at each point, (g, rows)."""
        if not self.window:
            return np.asarray(self.at[:, None] == self.of_rows[rows], dtype=np.float64)
        z = (self.at[:, None] - self.of_rows[rows]) / self.window
        return np.where(np.abs(z) <= _REACH, np.exp(-0.5 * z**2), 0.0)
