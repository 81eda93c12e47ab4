"""Rules that compare the errors of two curves at equal values of a measure."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from configs.claims import Better, Claim, Error, MorePronounced, NotBetter
from tasks.reproduction.curves import Curves
from tasks.reproduction.fronts import DUMMY, CurveScores, gap, levels_of
from tasks.reproduction.region import NotJudgedError, Rule

FRONT_CLAIMS = (Better, NotBetter, MorePronounced)


def errors_of(claim: Claim) -> tuple[Error, ...]:
    """Return the errors by which a claim is judged, the paper's first.

    A method that fits medians wins by absolute errors what it loses by squared ones: who is better
    at equal dependence is said by both.
    """
    return ("mae", "rmse") if isinstance(claim, FRONT_CLAIMS) else ("mae",)


def front_rule_of(claim: Claim, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    """Return how a claim on two fronts is decided by one of the errors."""
    return _RULES[type(claim)](claim, curves, scores, error)


def _better(claim: Better, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    return Rule(*_gap_of(claim, scores, error), -math.inf, 0.0)


def _not_better(claim: NotBetter, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    difference, unit = _gap_of(claim, scores, error)
    effect, whose = _effect(claim, curves, scores, error)
    return Rule(
        lambda row: difference(row) / effect,
        f"{unit}, as a share of {whose}",
        -claim.margin,
        math.inf,
    )


def _gap_of(
    claim: Better | NotBetter, scores: CurveScores, error: Error
) -> tuple[Callable[[CurveScores], float], str]:
    """Return the difference of two fronts, what it is."""
    pair = claim.curve, claim.than
    levels = levels_of(scores, *pair, claim.measure, claim.part)
    unit = f"mean difference in {error.upper()} at equal {claim.measure.upper()}"
    return lambda row: gap(row, *pair, claim.measure, levels, error), unit


def _effect(
    claim: NotBetter, curves: Curves, scores: CurveScores, error: Error
) -> tuple[float, str]:
    """Return what a difference of two fronts is a share of: all that there is to lose.

    That is by how much the better curve's least error lies below the constant prediction's, from
    where every front starts and to which it falls back.
    """
    pair = claim.curve, claim.than
    if DUMMY not in scores:
        raise NotJudgedError("without a dummy there is no effect of which to take a share")
    dummy = float(scores[DUMMY][error][0])
    if all(curves[label].constant for label in pair):
        # Two constants have no effect; how close they are is told as of any two errors.
        return dummy, "the dummy's"
    gain = dummy - min(float(scores[label][error].min()) for label in pair)
    if gain <= 0:
        raise NotJudgedError(f"neither has less {error.upper()} than the dummy: there is no effect")
    return gain, "what the better one gains on the dummy"


def _more_pronounced(
    claim: MorePronounced, curves: Curves, scores: CurveScores, error: Error
) -> Rule:
    pair = claim.curve, claim.than
    levels = {
        measure: levels_of(scores, *pair, measure, claim.part)
        for measure in (claim.measure, claim.beside)
    }

    def statistic(row: CurveScores) -> float:
        one, other = (gap(row, *pair, measure, at, error) for measure, at in levels.items())
        # Without a lead there is none to be greater.
        return max(one, one - other)

    first, second = claim.measure.upper(), claim.beside.upper()
    unit = (
        f"difference in {error.upper()} at equal {first}, or that minus the one at equal {second} "
        "if larger"
    )
    return Rule(statistic, unit, -math.inf, 0.0)


_RULES: Mapping[type, Callable[[Any, Curves, CurveScores, Error], Rule]] = {
    Better: _better,
    NotBetter: _not_better,
    MorePronounced: _more_pronounced,
}
