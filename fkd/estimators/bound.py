"""The smallest strength at which held-out predictions satisfy a bound on a fairness measure."""

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
# Penalties to try: the first ones change hardly anything, the last ones leave hardly anything.
_PENALTIES = (0.0, *(10.0 ** (k / 3) for k in range(-3, 13)))
_LENGTHS = 16


@dataclass(frozen=True)
class KeptBound:
    """The strength that a bound chose, with the measures on held-out predictions.

    Every row is predicted by a model that was fitted without it. GDP is in units of the range of
    the training target.
    """

    strength: float
    values: Mapping[str, Interval]  # of each bounded measure, at this strength
    tried: Mapping[float, Mapping[str, float]]  # each measure at each strength, weakest first


def strengths_to_try(iterations: int | None) -> list[float]:
    """Return ascending lengths of a path up to `iterations`, or penalties if it is None."""
    if iterations is None:
        return list(_PENALTIES)
    lengths = np.unique(np.geomspace(1, max(iterations, 1), num=_LENGTHS).round().astype(int))
    return [0, *(int(m) for m in lengths if m <= iterations)]


def validate_bounds(unfairness: Any) -> dict[str, float]:
    """Return the parameter `unfairness` as bounds by measure."""
    if not isinstance(unfairness, Mapping) or not unfairness:
        raise ValueError(
            "unfairness must map a measure to its bound, such as {'gdp': 0.01}, "
            f"got {unfairness!r}. None is no bound"
        )
    if unknown := [name for name in unfairness if name not in REPORTED]:
        raise ValueError(f"unfairness must name {', '.join(REPORTED)}, got {unknown[0]!r}")
    return {name: not_negative(f"unfairness of {name}", b) for name, b in unfairness.items()}


def inner_folds(n: int) -> list[tuple[IntArray, IntArray]]:
    """Return training rows and held-out rows of each fold; every row is held out once."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"unfairness needs at least {_FEWEST_ROWS} training rows to choose a strength on "
            f"folds of them, got {n}. Set a strength instead"
        )
    return list(KFold(FOLDS, shuffle=True, random_state=0).split(np.empty(n)))


def choose_strength(
    bounds: Mapping[str, float], strengths: Sequence[float], scores: Array, y: Array, S: Array
) -> KeptBound:
    """Return the first strength at which every measure is within its bound.

    Measures are not monotone in the strength: a larger one may violate a bound again.

    Parameters
    ----------
    bounds
        Bounds by measure.
    strengths, scores
        Strengths in ascending order, scores of the held-out rows (n, strengths, c).
    y, S
        Target (n,), sensitive columns (n, l).
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
    raise ValueError(_unreachable_message(bounds, tried))


def _unreachable_message(
    bounds: Mapping[str, float], tried: Mapping[float, Mapping[str, float]]
) -> str:
    """Return an error message with the smallest value that any strength reaches."""
    least = {name: min(found[name] for found in tried.values()) for name in bounds}
    name = max(bounds, key=lambda name: least[name] - bounds[name])
    if least[name] <= bounds[name]:
        return (
            f"unfairness must have bounds that one strength satisfies, got {dict(bounds)}. Each "
            "is satisfied by some strength, but no strength satisfies all. Raise one of them"
        )
    return (
        f"unfairness of {name} must be at least {least[name]:.3g}, the smallest value of "
        f"{len(tried)} strengths up to {max(tried):g} on held-out rows, got {bounds[name]:g}. "
        "Raise it, change the basis, or allow a path more iterations"
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
