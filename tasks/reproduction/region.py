"""A claim's number with the region in which the claim is true."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tasks.reproduction.fronts import CurveScores


class NotJudgedError(Exception):
    """A claim cannot be judged, for the reason given."""


@dataclass(frozen=True)
class Rule:
    """A number from the scores on some rows; the claim is true where low < number < high."""

    statistic: Callable[[CurveScores], float]
    unit: str  # what the number is
    low: float
    high: float
    bounded: bool = False  # whether a shift of its draws could pass a bound of the number
    least: float = -math.inf  # below which no number can be
