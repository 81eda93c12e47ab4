"""Strengths to try where the paper has none: short, geometric, longer as long as it pays."""

from collections.abc import Sequence
from dataclasses import Field
from typing import Any

# Whole numbers of iterations double, prices are multiplied by ten, shares end at one.
_ITERATIONS = (0, 1, 2, 4, 8, 16)
_PRICES = (0.0, 0.01, 0.1, 1.0, 10.0)
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_MOST_ITERATIONS, _HIGHEST_PRICE = 512, 1e4


def first_strengths(strength: "Field[Any]") -> Sequence[float]:
    """Return the strengths of a first round, from the declared parameter."""
    if isinstance(strength.default, int):
        return _ITERATIONS
    return _SHARES if strength.metadata.get("le") == 1 else _PRICES


def next_strength(strength: "Field[Any]", last: float) -> float | None:
    """Return the strength after the last one, None at the end of the ladder."""
    if isinstance(strength.default, int):
        return 2 * int(last) if 2 * last <= _MOST_ITERATIONS else None
    if strength.metadata.get("le") == 1:
        return None
    return 10 * last if 10 * last <= _HIGHEST_PRICE else None
