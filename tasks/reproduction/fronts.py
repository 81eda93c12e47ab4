"""Two fronts compared at equal values of a measure."""

from collections.abc import Mapping

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.pareto import non_dominated

CurveScores = Mapping[str, Mapping[str, Array]]  # by curve, by score: one value per setting
DUMMY = "Dummy"
_LEVELS = 40


def front_error(measure: Array, error: Array, dummy: float | None, levels: Array) -> Array:
    """Return the least error along a front at given levels of a measure.

    Between neighbouring points of the front it is interpolated; a constant prediction, which
    depends on nothing, belongs to every front.
    """
    if dummy is not None:
        measure, error = np.append(measure, 0.0), np.append(error, dummy)
    keep = non_dominated(np.stack([measure, error], axis=1))
    order = np.argsort(measure[keep])
    return np.asarray(np.interp(levels, measure[keep][order], error[keep][order]))


def gap(
    scores: CurveScores, first: str, second: str, measure: str, levels: Array, error: str = "mae"
) -> float:
    """Return the mean difference of two fronts' errors over the levels."""
    dummy = float(scores[DUMMY][error][0]) if DUMMY in scores else None
    one, other = (
        front_error(scores[label][measure], scores[label][error], dummy, levels)
        for label in (first, second)
    )
    return float(np.mean(one - other))


def levels_of(scores: CurveScores, first: str, second: str, measure: str, part: str) -> Array:
    """Return values of a measure over the range that two curves have, all or one half of them.

    A level is a limit: below its own points a curve's front goes straight to the constant
    prediction, above them its least error stays what it is.
    """
    both = np.concatenate([scores[label][measure] for label in (first, second)])
    levels = np.linspace(both.min(), both.max(), _LEVELS)
    halves = {"strong": levels[: _LEVELS // 2], "weak": levels[_LEVELS // 2 :], "all": levels}
    return halves[part]
