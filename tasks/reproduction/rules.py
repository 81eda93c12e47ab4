"""The rules by which claims are decided: a number with the region in which the claim is true."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from configs.claims import (
    Change,
    Claim,
    Equal,
    Error,
    Faster,
    LessError,
    Near,
    Optimal,
    Trend,
)
from fkd.core.arrays import Array
from tasks.reproduction.curves import Curve, Curves
from tasks.reproduction.front_rules import FRONT_CLAIMS, errors_of, front_rule_of
from tasks.reproduction.fronts import DUMMY, CurveScores
from tasks.reproduction.region import NotJudgedError, Rule


def curves_needed(claim: Claim) -> tuple[str, ...]:
    """Return the labels that a claim names."""
    named = [getattr(claim, key, None) for key in ("curve", "than", "to")]
    return tuple(dict.fromkeys(filter(None, named)))


def scores_needed(claim: Claim) -> dict[str, tuple[str, ...]]:
    """Return which scores of which curves a claim looks at."""
    named = [getattr(claim, key, None) for key in ("measure", "beside", "of", "by")]
    errors = errors_of(claim)
    wanted = tuple(dict.fromkeys([*errors, *filter(None, named)]))
    found = dict.fromkeys(curves_needed(claim), wanted)
    if isinstance(claim, FRONT_CLAIMS):
        # The constant prediction ends every front.
        found.setdefault(DUMMY, errors)
    return found


def rule_of(claim: Claim, curves: Curves, scores: CurveScores, error: Error = "mae") -> Rule:
    """Return how a claim is decided; `scores` fix what is compared: levels, ranges, effects."""
    if isinstance(claim, FRONT_CLAIMS):
        return front_rule_of(claim, curves, scores, error)
    return _RULES[type(claim)](claim, curves, scores)


def _equal(claim: Equal, curves: Curves, scores: CurveScores) -> Rule:
    return Rule(*_ratio_of(claim, curves), -claim.margin, claim.margin)


def _less_error(claim: LessError, curves: Curves, scores: CurveScores) -> Rule:
    return Rule(*_ratio_of(claim, curves), -math.inf, 0.0)


def _ratio_of(
    claim: Equal | LessError, curves: Curves
) -> tuple[Callable[[CurveScores], float], str]:
    """Return an error relative to another curve's least, what it is."""
    if claim.at is None:
        return _least_ratio(claim.curve, claim.than), "least MAE relative to the other's"
    curve = curves[claim.curve]
    place = _setting(curve, claim.at)
    unit = f"MAE at {curve.words(place)} relative to the other's least"
    return _least_ratio(claim.curve, claim.than, place), unit


def _least_ratio(
    first: str, second: str, place: int | None = None
) -> Callable[[CurveScores], float]:
    """Return the ratio of two curves' least errors, or of one setting's to it, less one."""

    def statistic(row: CurveScores) -> float:
        errors = row[first]["mae"]
        error = errors.min() if place is None else errors[place]
        return float(error / row[second]["mae"].min() - 1)

    return statistic


def _near(claim: Near, curves: Curves, scores: CurveScores) -> Rule:
    ours, theirs = curves[claim.curve], curves[claim.to]
    pairs = [(i, j) for i, s in enumerate(ours.strengths) if (j := theirs.at(s)) is not None]
    if not pairs:
        raise NotJudgedError("no common setting was computed")
    left, right = map(list, zip(*pairs, strict=True))
    names = ("mae", claim.measure)
    spans = {name: float(np.ptp(scores[claim.to][name])) or 1.0 for name in names}

    def statistic(row: CurveScores) -> float:
        apart = [
            np.abs(row[claim.curve][name][left] - row[claim.to][name][right]) / spans[name]
            for name in names
        ]
        return float(np.max(apart))

    unit = f"greatest distance in MAE or {claim.measure.upper()} as a share of the other's range"
    return Rule(statistic, unit, -math.inf, claim.margin, least=0.0)


def _trend(claim: Trend, curves: Curves, scores: CurveScores) -> Rule:
    def statistic(row: CurveScores) -> float:
        values = row[claim.curve][claim.of]
        # Constant values have no order, hence no trend.
        return float(np.nan_to_num(kendalltau(np.arange(len(values)), values).statistic))

    region = (0.0, math.inf) if claim.direction == "up" else (-math.inf, 0.0)
    unit = f"Kendall's tau of {claim.of.upper()} along the curve"
    return Rule(statistic, unit, *region, bounded=True)


def _change(claim: Change, curves: Curves, scores: CurveScores) -> Rule:
    start = _setting(curves[claim.curve], claim.start)
    stop = _setting(curves[claim.curve], claim.stop)
    regions = {
        "up": (0.0, math.inf),
        "down": (-math.inf, 0.0),
        "not_down": (-claim.margin, math.inf),
    }

    # Not of the value at the start: where it is nearly zero, a ratio says nothing.
    greatest = float(scores[claim.curve][claim.of].max()) or 1.0

    def statistic(row: CurveScores) -> float:
        values = row[claim.curve][claim.of]
        return float(values[stop] - values[start]) / greatest

    unit = (
        f"change of {claim.of.upper()} from {claim.start:g} to {claim.stop:g}, as a share of its "
        "greatest value"
    )
    return Rule(statistic, unit, *regions[claim.direction])


def _faster(claim: Faster, curves: Curves, scores: CurveScores) -> Rule:
    ends = {
        label: (_setting(curves[label], 0.0), _setting(curves[label], claim.at))
        for label in (claim.curve, claim.than)
    }

    def fall(row: CurveScores, label: str) -> float:
        start, stop = ends[label]
        return float(row[label][claim.measure][start] - row[label][claim.measure][stop])

    return Rule(
        lambda row: fall(row, claim.curve) - fall(row, claim.than),
        f"how much further {claim.measure.upper()} has fallen at m = {claim.at:g}",
        0.0,
        math.inf,
    )


def _optimal(claim: Optimal, curves: Curves, scores: CurveScores) -> Rule:
    curve = curves[claim.curve]
    chosen = curve.index(claim.at)
    if chosen is None or len(curve.strengths) < 2:
        raise NotJudgedError("the published setting, or every other one, was not computed")

    def statistic(row: CurveScores) -> float:
        values: Array = row[claim.curve][claim.by]
        return float(values[chosen] / np.delete(values, chosen).min() - 1)

    others = np.array(scores[claim.curve][claim.by])
    others[chosen] = math.inf
    best = curve.words(int(others.argmin()))
    unit = f"{claim.by.upper()} of the published setting relative to the best other one, {best}"
    return Rule(statistic, unit, -math.inf, claim.margin)


def _setting(curve: Curve, strength: float) -> int:
    """Return the place of a strength on a curve."""
    found = curve.at(strength)
    if found is None:
        raise NotJudgedError(f"{curve.label} was not computed at {strength:g}")
    return found


_RULES: Mapping[type, Callable[[Any, Curves, CurveScores], Rule]] = {
    Equal: _equal,
    LessError: _less_error,
    Near: _near,
    Trend: _trend,
    Change: _change,
    Faster: _faster,
    Optimal: _optimal,
}
