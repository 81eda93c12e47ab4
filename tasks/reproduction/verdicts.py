"""Claims judged by their numbers on draws of the pooled test rows, paired over methods."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from configs.claims import Agree, Claim, Error
from configs.experiment import ExperimentConfig
from fkd.measures.resampling import ends
from tasks.reproduction.curves import Curves, distances
from tasks.reproduction.evidence import fold_scores, resampled_scores, resamplings
from tasks.reproduction.front_rules import errors_of
from tasks.reproduction.fronts import DUMMY, CurveScores
from tasks.reproduction.region import NotJudgedError, Rule
from tasks.reproduction.resample import Resampling
from tasks.reproduction.rules import curves_needed, rule_of, scores_needed
from tasks.reproduction.seeds import by_seed, word_over_seeds
from tasks.reproduction.verdict import Verdict, Word

DRAWS = 300
_LEVEL = 0.95

Compute = Callable[[Sequence[Resampling]], None]


class _Seed(NamedTuple):
    """What is known under one seed: curves, scores on all rows with draws, scores of each fold."""

    curves: Curves
    rows: list[CurveScores]
    folds: list[CurveScores]


def verdicts_on(
    experiment: ExperimentConfig,
    curves: Mapping[str, Curves],
    absent: Mapping[str, str],
    compute: Compute,
    draws: int = DRAWS,
) -> list[Verdict]:
    """Return one verdict per claim and run.

    Parameters
    ----------
    curves
        Those of the runs that were computed.
    absent
        Why the other runs were not.
    compute
        Runs resamplings wherever there is room, leaving each one's values on disk.
    draws
        Quarters of the pooled test rows on which scores are taken.
    """
    cases = [(claim, run) for claim in experiment.claims for run in claim.runs or experiment.runs]
    jobs = [
        job
        for claim, run in cases
        if not isinstance(claim, Agree) and not _lacking(claim, curves.get(run, {}), experiment)
        for alone in by_seed(curves[run], scores_needed(claim))
        for by_score in resamplings(claim, alone, draws).values()
        for found in by_score.values()
        for job in found
    ]
    compute([job for job in dict.fromkeys(jobs) if job.read() is None])
    return [_verdict(claim, run, experiment, curves, absent, draws) for claim, run in cases]


def _verdict(
    claim: Claim,
    run: str,
    experiment: ExperimentConfig,
    curves: Mapping[str, Curves],
    absent: Mapping[str, str],
    draws: int,
) -> Verdict:
    """Return the verdict on one claim, or why there is none."""
    told: dict[str, Any] = {
        "run": run,
        "says": claim.says.replace("{run}", experiment.runs[run].title),
        "source": claim.source,
    }
    if run not in curves:
        return Verdict(**told, verdict="not run", reason=absent.get(run, "it was not computed"))
    if reason := _lacking(claim, curves[run], experiment):
        return Verdict(**told, verdict="not run", reason=reason)
    try:
        if isinstance(claim, Agree):
            return _agreement(claim, curves[run], told)
        return _by_draws(claim, curves[run], draws, told)
    except NotJudgedError as error:
        return Verdict(**told, verdict="not run", reason=str(error))


def _lacking(claim: Claim, curves: Curves, experiment: ExperimentConfig) -> str:
    """Return what a claim needs and has not; half a curve is no evidence for a whole one."""
    known = {label for run in experiment.runs.values() for label in run.curves}
    for label in scores_needed(claim):
        if label == DUMMY and label not in known:
            continue  # fronts end where their points do
        if label not in curves:
            return experiment.left_out.get(label, f"{label} gave no result")
        if curves[label].missing:
            return f"{curves[label].missing} settings of {label} failed"
    return ""


def _by_draws(claim: Claim, curves: Curves, draws: int, told: dict[str, Any]) -> Verdict:
    """Return the verdict by the interval of the claim's number over draws of its scores."""
    seeds = [
        _Seed(alone, resampled_scores(claim, alone, draws), fold_scores(claim, alone))
        for alone in by_seed(curves, scores_needed(claim))
    ]
    labels = [label for label in curves_needed(claim) if curves[label].collapsed]
    rule = rule_of(claim, seeds[0].curves, seeds[0].rows[0])
    second: dict[str, Any] = {}
    if "rmse" in errors_of(claim):
        try:
            second = _judged(claim, seeds, "rmse")
        except NotJudgedError as error:
            # What is known by the paper's error stays known.
            second = {"verdict": "not run", "reason": str(error)}
    return Verdict(
        **told,
        **_judged(claim, seeds, "mae"),
        **{f"rmse_{key}": value for key, value in second.items()},
        unit=rule.unit,
        folds=sum(len(seed.folds) for seed in seeds),
        seeds=len(seeds) if len(seeds) > 1 else None,
        true_above=_finite(rule.low),
        true_below=_finite(rule.high),
        collapsed=", ".join(labels),
    )


def _judged(claim: Claim, seeds: Sequence[_Seed], error: Error) -> dict[str, Any]:
    """Return number, interval, word and true folds of a claim by one of the errors.

    Draws are of the same rows under every seed: the mean over seeds is taken draw by draw, so that
    rows that are predicted five times are not counted as five times as many.
    """
    rules = [rule_of(claim, seed.curves, seed.rows[0], error) for seed in seeds]
    numbers = np.array(
        [
            [rule.statistic(row) for row in seed.rows]
            for rule, seed in zip(rules, seeds, strict=True)
        ]
    )
    rule, (value, *others) = rules[0], numbers.mean(axis=0).tolist()
    low, high = interval_of(rule, value, others)
    word = word_of(rule, value, low, high)
    found = {
        "value": value,
        "low": low,
        "high": high,
        "folds_true": sum(
            _is_true(claim, seed.curves, row, error) for seed in seeds for row in seed.folds
        ),
    }
    if len(seeds) == 1:
        return {"verdict": word, **found}
    values = numbers[:, 0].tolist()
    true = sum(rule.low < number < rule.high for number in values)
    return {**found, **_over_seeds(word, values, true)}


def _over_seeds(word: Word, values: Sequence[float], true: int) -> dict[str, Any]:
    """Return the word that all seeds allow, with the spread of the number over them."""
    return {
        "verdict": word_over_seeds(word, true, len(values)),
        "seeds_true": true,
        "seeds_low": min(values),
        "seeds_high": max(values),
    }


def _is_true(claim: Claim, curves: Curves, row: CurveScores, error: Error) -> bool:
    """Return whether a claim's number lies in its region on these rows alone."""
    try:
        rule = rule_of(claim, curves, row, error)
    except NotJudgedError:
        return False
    return rule.low < rule.statistic(row) < rule.high


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def interval_of(rule: Rule, value: float, draws: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a number from its values on draws of the scores.

    Draws of a score lie around the score. Those of a number need not lie around the number: the
    greatest of many distances grows with any noise, which is in the number once, in its draws
    twice. So they are shifted by their own mean, as draws of a score are, but where the number has
    a bound that a shift would pass.
    """
    numbers = np.array(draws)
    if not rule.bounded:
        numbers += value - numbers.mean(axis=0)
    low, high = ends(value, numbers, _LEVEL)
    if not np.isfinite([low, high]).all():
        raise NotJudgedError("its number is not defined on these rows")
    return max(float(low), rule.least), max(float(high), rule.least)


def word_of(rule: Rule, value: float, low: float, high: float) -> Word:
    """Return holds where number and interval are in the claim's region, fails where none is."""
    inside = rule.low < value < rule.high
    if inside and rule.low < low and high < rule.high:
        return "holds"
    outside = high <= rule.low or low >= rule.high
    return "fails" if outside and not inside else "unclear"


def _agreement(claim: Agree, curves: Curves, told: dict[str, Any]) -> Verdict:
    """Return whether two curves predict the same numbers, row by row."""
    worst = [_worst(claim, alone) for alone in by_seed(curves, curves_needed(claim))]
    word: Word = "holds" if max(worst) <= claim.tolerance else "fails"
    true, several = sum(gap <= claim.tolerance for gap in worst), len(worst) > 1
    return Verdict(
        **told,
        **(_over_seeds(word, worst, true) if several else {"verdict": word}),
        seeds=len(worst) if several else None,
        unit="greatest difference of two predictions of one row, in units of the target's range",
        value=max(worst),
        true_below=claim.tolerance,
    )


def _worst(claim: Agree, curves: Curves) -> float:
    """Return the greatest difference of two curves' predictions up to a strength."""
    one, other = curves[claim.curve], curves[claim.to]
    for curve in (one, other):
        if curve.at(claim.up_to) is None:
            raise NotJudgedError(f"{curve.label} was not computed at {claim.up_to:g}")
    return max(gap for strength, gap in distances(one, other) if strength <= claim.up_to)
