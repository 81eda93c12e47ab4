"""The least strength at which a model keeps a bound on its dependence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import not_negative
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import Interval, interval

FOLDS = 5
_FEWEST_ROWS = 50
_REPLICATES = 200
# Prices tried, from where hardly anything changes to where hardly anything is left.
_PRICES = (0.0, *(10.0 ** (k / 3) for k in range(-3, 13)))
_LENGTHS = 16


@dataclass(frozen=True)
class KeptBound:
    """What inner folds say of the strength that was chosen.

    Every row is predicted by a model that was fitted without it; GDP is in units of the training
    target's range.
    """

    strength: float
    values: Mapping[str, Interval]  # of each bounded measure, at this strength
    tried: Mapping[float, Mapping[str, float]]  # each measure at each strength, weakest first


def strengths_to_try(*, shrinks: bool, iterations: int) -> list[float]:
    """Return the strengths among which a bound chooses, 0 first."""
    if shrinks:
        return list(_PRICES)
    lengths = np.unique(np.geomspace(1, max(iterations, 1), num=_LENGTHS).round().astype(int))
    return [0, *(int(m) for m in lengths if m <= iterations)]


def checked_bounds(unfairness: Any) -> dict[str, float]:
    """Return the bounds by measure."""
    if not isinstance(unfairness, Mapping) or not unfairness:
        raise ValueError(
            "unfairness must map a measure to its bound, such as {'gdp': 0.01}, "
            f"got {unfairness!r}; None sets none"
        )
    if unknown := [name for name in unfairness if name not in REPORTED]:
        raise ValueError(f"unfairness must name {', '.join(REPORTED)}, got {unknown[0]!r}")
    return {name: not_negative(f"unfairness of {name}", b) for name, b in unfairness.items()}


def inner_folds(n: int) -> list[tuple[IntArray, IntArray]]:
    """Return training rows with held-out rows, each row held out once."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"unfairness needs at least {_FEWEST_ROWS} training rows to choose a strength on "
            f"folds of them, got {n}; name a strength instead"
        )
    return list(KFold(FOLDS, shuffle=True, random_state=0).split(np.empty(n)))


def choose_strength(
    bounds: Mapping[str, float], strengths: Sequence[float], scores: Array, y: Array, S: Array
) -> KeptBound:
    """Return the first of the strengths at which every measured value is within its bound.

    Measures need not fall with the strength: a greater one may break a bound again.

    Parameters
    ----------
    bounds
        By measure.
    strengths, scores
        Rising; of each the predictions of held-out rows, (n, k, c).
    y, S
        Target (n,), sensitive columns (n, l) of the same rows.
    """
    unit = float(np.ptp(y)) or 1.0
    tried = {
        strength: {name: _worst(name, scores[:, i] / unit, y, S) for name in bounds}
        for i, strength in enumerate(strengths)
    }
    for i, (strength, found) in enumerate(tried.items()):
        if all(found[name] <= bound for name, bound in bounds.items()):
            values = {name: _interval(name, scores[:, i] / unit, y, S) for name in bounds}
            return KeptBound(strength, values, tried)
    raise ValueError(_unreachable(bounds, tried))


def _unreachable(bounds: Mapping[str, float], tried: Mapping[float, Mapping[str, float]]) -> str:
    """Return why no strength will do, with the least that can be had."""
    least = {name: min(found[name] for found in tried.values()) for name in bounds}
    name = max(bounds, key=lambda name: least[name] - bounds[name])
    if least[name] <= bounds[name]:
        return (
            f"unfairness must have bounds that one strength keeps together, got {dict(bounds)}: "
            "each is kept by some, all by none; raise one of them"
        )
    return (
        f"unfairness of {name} must be at least {least[name]:.3g}, the least that any of "
        f"{len(tried)} strengths up to {max(tried):g} reaches on held-out rows, got "
        f"{bounds[name]:g}; raise it, change the basis, or allow a path more iterations"
    )


def _measured(name: str, f: Array, y: Array, s: Array) -> float:
    """Return one measure of one score on one column."""
    return float(REPORTED[name](*REPORTED[name].columns(y, f, s)))


def _pairs(scores: Array, S: Array) -> list[tuple[Array, Array]]:
    return [(f, s) for f in scores.T for s in S.T]


def _worst(name: str, scores: Array, y: Array, S: Array) -> float:
    """Return the largest value of a measure among scores and sensitive columns."""
    return max(_measured(name, f, y, s) for f, s in _pairs(scores, S))


def _interval(name: str, scores: Array, y: Array, S: Array) -> Interval:
    """Return the largest value with its interval."""
    f, s = max(_pairs(scores, S), key=lambda pair: _measured(name, pair[0], y, pair[1]))
    columns = REPORTED[name].columns(y, f, s)
    rng = np.random.default_rng(0)
    return interval(REPORTED[name], *columns, rng=rng, replicates=_REPLICATES)
