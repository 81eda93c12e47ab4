"""Judge the claims of the paper by stored results, with intervals from resampled test rows.

A claim is a rule on a statistic of the scores of some curves. The statistic is computed on the
pooled test rows, on draws of them, and on every fold.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.stats import kendalltau

from configs.reproduction import (
    Agree,
    Better,
    Change,
    Claim,
    Equal,
    Error,
    ExperimentConfig,
    Faster,
    LessError,
    MorePronounced,
    Near,
    NotBetter,
    Optimal,
    Trend,
)
from fkd.core.arrays import Array
from fkd.measures.pareto import non_dominated
from fkd.measures.resampling import ends
from tasks.reproduce.curves import Curve, Curves, by_seed, distances
from tasks.reproduce.resample import Resampling

CurveScores = Mapping[str, Mapping[str, Array]]  # by curve, then score: one value per setting
Word = Literal["holds", "fails", "unclear", "not run"]
Count = Literal["holds", "holds against a constant", "fails", "unclear", "not run"]
COUNTS: tuple[Count, ...] = get_args(Count)
OURS = "ours"  # the source of claims that the paper does not make
DUMMY = "Dummy"
DRAWS = 300
FRONT_CLAIMS = (Better, NotBetter, MorePronounced)
_LEVELS = 40
_CONFIDENCE = 0.95


class NotJudgedError(Exception):
    """A claim cannot be judged, for the given reason."""


@dataclass(frozen=True)
class Rule:
    """A statistic of the scores; the claim is true if it is between `low` and `high`.

    Parameters
    ----------
    statistic
        Function of the scores on some rows.
    unit
        A description of the statistic.
    low, high
        The range in which the claim is true.
    bounded
        True if shifted draws could pass a bound of the statistic.
    least
        The least possible value.
    """

    statistic: Callable[[CurveScores], float]
    unit: str
    low: float = -math.inf
    high: float = math.inf
    bounded: bool = False
    least: float = -math.inf


def rule_of(claim: Claim, curves: Curves, scores: CurveScores, error: Error = "mae") -> Rule:
    """Return the rule of a claim. Levels, ranges and scales are taken from `scores`."""
    return _RULES[type(claim)](claim, curves, scores, error)


def errors_of(claim: Claim) -> tuple[Error, ...]:
    """Return the errors by which a claim is judged, the paper's first.

    Claims on two fronts are judged by both: a method that fits medians has a smaller absolute and
    a larger squared error.
    """
    return ("mae", "rmse") if isinstance(claim, FRONT_CLAIMS) else ("mae",)


def curves_needed(claim: Claim) -> tuple[str, ...]:
    """Return the labels that a claim names."""
    named = [getattr(claim, key, None) for key in ("curve", "than", "to")]
    return tuple(dict.fromkeys(filter(None, named)))


def scores_needed(claim: Claim) -> dict[str, tuple[str, ...]]:
    """Return the scores that a claim needs, by curve."""
    named = [getattr(claim, key, None) for key in ("measure", "beside", "of", "by")]
    errors = errors_of(claim)
    wanted = tuple(dict.fromkeys([*errors, *filter(None, named)]))
    found = dict.fromkeys(curves_needed(claim), wanted)
    if isinstance(claim, FRONT_CLAIMS):
        found.setdefault(DUMMY, errors)  # the constant prediction ends every front
    return found


def front_error(measure: Array, error: Array, dummy: float | None, levels: Array) -> Array:
    """Return the least error along a front at given levels of a measure.

    It is interpolated between neighbouring points. The constant prediction belongs to every front.
    """
    if dummy is not None:
        measure, error = np.append(measure, 0.0), np.append(error, dummy)
    keep = non_dominated(np.stack([measure, error], axis=1))
    order = np.argsort(measure[keep])
    return np.asarray(np.interp(levels, measure[keep][order], error[keep][order]))


def gap(
    scores: CurveScores, first: str, second: str, measure: str, levels: Array, error: str = "mae"
) -> float:
    """Return the mean difference of the errors of two fronts over the levels."""
    dummy = float(scores[DUMMY][error][0]) if DUMMY in scores else None
    one, other = (
        front_error(scores[label][measure], scores[label][error], dummy, levels)
        for label in (first, second)
    )
    return float(np.mean(one - other))


def levels_of(scores: CurveScores, first: str, second: str, measure: str, part: str) -> Array:
    """Return levels over the range of a measure on two curves, over all or half of it.

    A level is a limit. Below the points of a curve its front goes straight to the constant
    prediction; above them the least error is constant.
    """
    both = np.concatenate([scores[label][measure] for label in (first, second)])
    levels = np.linspace(both.min(), both.max(), _LEVELS)
    halves = {"strong": levels[: _LEVELS // 2], "weak": levels[_LEVELS // 2 :], "all": levels}
    return halves[part]


def _front_gap(
    claim: Better | NotBetter, curves: Curves, scores: CurveScores, error: Error
) -> Rule:
    """Compare the errors of two fronts at equal values of a measure."""
    pair = claim.curve, claim.than
    levels = levels_of(scores, *pair, claim.measure, claim.part)
    unit = f"mean difference in {error.upper()} at equal {claim.measure.upper()}"
    if isinstance(claim, Better):
        return Rule(lambda row: gap(row, *pair, claim.measure, levels, error), unit, high=0.0)
    # A difference is a share of the gain of the better curve on the constant prediction.
    if DUMMY not in scores:
        raise NotJudgedError("without a dummy there is no effect to compare with")
    scale, whose = float(scores[DUMMY][error][0]), "the dummy's"
    if not all(curves[label].constant for label in pair):
        scale -= min(float(scores[label][error].min()) for label in pair)
        whose = "the gain of the better one on the dummy"
        if scale <= 0:
            raise NotJudgedError(f"neither has less {error.upper()} than the dummy")
    return Rule(
        lambda row: gap(row, *pair, claim.measure, levels, error) / scale,
        f"{unit}, as a share of {whose}",
        low=-claim.margin,
    )


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
        return max(one, one - other)  # without a lead the claim is false

    first, second = claim.measure.upper(), claim.beside.upper()
    unit = (
        f"difference in {error.upper()} at equal {first}, or that minus the one at equal {second} "
        "if larger"
    )
    return Rule(statistic, unit, high=0.0)


def _least_error(
    claim: Equal | LessError, curves: Curves, scores: CurveScores, error: Error
) -> Rule:
    """Compare the least error of a curve, or that of one setting, with the least of another."""
    place = None if claim.at is None else _setting(curves[claim.curve], claim.at)
    unit = "least MAE relative to the other's"
    if place is not None:
        unit = f"MAE at {curves[claim.curve].words(place)} relative to the other's least"

    def statistic(row: CurveScores) -> float:
        errors = row[claim.curve]["mae"]
        own = errors.min() if place is None else errors[place]
        return float(own / row[claim.than]["mae"].min() - 1)

    if isinstance(claim, LessError):
        return Rule(statistic, unit, high=0.0)
    return Rule(statistic, unit, -claim.margin, claim.margin)


def _near(claim: Near, curves: Curves, scores: CurveScores, error: Error) -> Rule:
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
    return Rule(statistic, unit, high=claim.margin, least=0.0)


def _trend(claim: Trend, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    def statistic(row: CurveScores) -> float:
        values = row[claim.curve][claim.of]
        # Constant values have no order, hence no trend.
        return float(np.nan_to_num(kendalltau(np.arange(len(values)), values).statistic))

    low, high = (0.0, math.inf) if claim.direction == "up" else (-math.inf, 0.0)
    unit = f"Kendall's tau of {claim.of.upper()} along the curve"
    return Rule(statistic, unit, low, high, bounded=True)


def _change(claim: Change, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    start, stop = (_setting(curves[claim.curve], at) for at in (claim.start, claim.stop))
    regions = {
        "up": (0.0, math.inf),
        "down": (-math.inf, 0.0),
        "not_down": (-claim.margin, math.inf),
    }
    # A share of the value at the start would be useless if that is nearly zero.
    greatest = float(scores[claim.curve][claim.of].max()) or 1.0

    def statistic(row: CurveScores) -> float:
        values = row[claim.curve][claim.of]
        return float(values[stop] - values[start]) / greatest

    unit = (
        f"change of {claim.of.upper()} from {claim.start:g} to {claim.stop:g}, as a share of its "
        "greatest value"
    )
    return Rule(statistic, unit, *regions[claim.direction])


def _faster(claim: Faster, curves: Curves, scores: CurveScores, error: Error) -> Rule:
    places = {
        label: (_setting(curves[label], 0.0), _setting(curves[label], claim.at))
        for label in (claim.curve, claim.than)
    }

    def statistic(row: CurveScores) -> float:
        own, other = (
            float(row[label][claim.measure][start] - row[label][claim.measure][stop])
            for label, (start, stop) in places.items()
        )
        return own - other

    unit = f"additional fall of {claim.measure.upper()} up to m = {claim.at:g}"
    return Rule(statistic, unit, low=0.0)


def _optimal(claim: Optimal, curves: Curves, scores: CurveScores, error: Error) -> Rule:
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
    return Rule(statistic, unit, high=claim.margin)


_RULES: Mapping[type, Callable[[Any, Curves, CurveScores, Error], Rule]] = {
    Better: _front_gap,
    NotBetter: _front_gap,
    MorePronounced: _more_pronounced,
    Equal: _least_error,
    LessError: _least_error,
    Near: _near,
    Trend: _trend,
    Change: _change,
    Faster: _faster,
    Optimal: _optimal,
}


def _setting(curve: Curve, strength: float) -> int:
    """Return the index of a strength on a curve."""
    found = curve.at(strength)
    if found is None:
        raise NotJudgedError(f"{curve.label} was not computed at {strength:g}")
    return found


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim in one run. The fields are the columns of claims.csv.

    Parameters
    ----------
    run, says, source
        The run, the claim as a sentence, and where the paper makes it.
    verdict, reason
        The verdict by MAE, and the reason if the claim was not judged.
    unit, value, low, high
        A description of the statistic, its value and its interval.
    folds_true, folds
        The number of folds on which the claim is true, and of all folds.
    true_above, true_below
        The range in which the claim is true, None without a bound.
    collapsed
        The compared curves that are constant although their method is no dummy.
    rmse_verdict, ...
        The same by RMSE, for claims that compare errors at equal dependence.
    seeds, seeds_true, seeds_low, seeds_high
        The number of seeds if there are several, the number under which the claim is true, and the
        range of the statistic over the seeds; `value` is its mean.
    """

    run: str
    says: str
    source: str
    verdict: Word
    reason: str = ""
    unit: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    folds_true: int | None = None
    folds: int | None = None
    true_above: float | None = None
    true_below: float | None = None
    collapsed: str = ""
    rmse_verdict: Word | None = None
    rmse_reason: str = ""
    rmse_value: float | None = None
    rmse_low: float | None = None
    rmse_high: float | None = None
    rmse_folds_true: int | None = None
    seeds: int | None = None
    seeds_true: int | None = None
    seeds_low: float | None = None
    seeds_high: float | None = None
    rmse_seeds_true: int | None = None
    rmse_seeds_low: float | None = None
    rmse_seeds_high: float | None = None

    @property
    def text(self) -> str:
        """The verdict, with the error by which it was reached if there are two."""
        if self.rmse_verdict is None:
            return self.verdict
        if self.rmse_verdict == self.verdict:
            return f"{self.verdict} by MAE and RMSE"
        return f"{self.verdict} by MAE, {self.rmse_verdict} by RMSE".replace(
            "not run", "not judged"
        )

    @property
    def counted_as(self) -> Count:
        """The verdict for counts: a comparison with a collapsed network proves little."""
        if self.verdict == "holds" and self.collapsed:
            return "holds against a constant"
        return self.verdict

    @property
    def is_ours(self) -> bool:
        """True if the paper does not make this claim."""
        return self.source == OURS


def verdicts_on(
    experiment: ExperimentConfig,
    curves: Mapping[str, Curves],
    absent: Mapping[str, str],
    compute: Callable[[Sequence[Resampling]], None],
    draws: int = DRAWS,
) -> list[Verdict]:
    """Return one verdict per claim and run.

    Parameters
    ----------
    experiment
        The claims.
    curves
        The curves of the runs that were computed.
    absent
        The reasons why the other runs were not computed.
    compute
        Function that runs resamplings and stores their values.
    draws
        The number of random quarters of the pooled test rows.
    """
    cases = [(claim, run) for claim in experiment.claims for run in claim.runs or experiment.runs]
    jobs = [
        job
        for claim, run in cases
        if not isinstance(claim, Agree) and not _missing(claim, curves.get(run, {}), experiment)
        for alone in by_seed(curves[run], scores_needed(claim))
        for _, _, job in _resamplings(claim, alone, draws)
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
    """Return the verdict on one claim, with the reason if it was not judged."""
    says = claim.says.replace("{run}", experiment.runs[run].title)
    unjudged = Verdict(run, says, claim.source, "not run")
    if run not in curves:
        return replace(unjudged, reason=absent.get(run, "it was not computed"))
    if reason := _missing(claim, curves[run], experiment):
        return replace(unjudged, reason=reason)
    try:
        if isinstance(claim, Agree):
            return replace(unjudged, **_agreement(claim, curves[run]))
        return replace(unjudged, **_by_draws(claim, curves[run], draws))
    except NotJudgedError as error:
        return replace(unjudged, reason=str(error))


def _missing(claim: Claim, curves: Curves, experiment: ExperimentConfig) -> str:
    """Return why the curves of a claim are incomplete, empty if they are complete."""
    known = {label for run in experiment.runs.values() for label in run.curves}
    for label in scores_needed(claim):
        if label == DUMMY and label not in known:
            continue  # fronts end at their last points
        if label not in curves:
            return experiment.left_out.get(label, f"{label} gave no result")
        if curves[label].missing:
            return f"{curves[label].missing} settings of {label} failed"
    return ""


def _resamplings(claim: Claim, curves: Curves, draws: int) -> Iterator[tuple[str, str, Resampling]]:
    """Yield the label, the score and the resampling of every setting that a claim needs."""
    for label, scores in scores_needed(claim).items():
        if label in curves:
            inputs = curves[label].study.inputs
            column = claim.column or inputs.measure_on[0]
            for score, result in itertools.product(scores, curves[label].results):
                keys = tuple(record.key for record in result.records)
                yield label, score, Resampling(inputs, keys, column, score, draws)


def resampled_scores(claim: Claim, curves: Curves, draws: int) -> list[CurveScores]:
    """Return the scores on the pooled rows, then on every draw."""
    table: dict[str, dict[str, list[Array]]] = {}
    for label, score, job in _resamplings(claim, curves, draws):
        values = job.read()
        if values is None:
            raise NotJudgedError(f"{score.upper()} on resampled rows could not be computed")
        table.setdefault(label, {}).setdefault(score, []).append(values)
    rows = {
        label: {score: np.stack(own, axis=1) for score, own in by_score.items()}
        for label, by_score in table.items()
    }
    return [
        {label: {score: values[b] for score, values in own.items()} for label, own in rows.items()}
        for b in range(1 + draws)
    ]


class _Seed(NamedTuple):
    """The curves under one seed, with their scores on pooled rows and draws, and on each fold."""

    curves: Curves
    rows: list[CurveScores]
    folds: list[CurveScores]


def _by_draws(claim: Claim, curves: Curves, draws: int) -> dict[str, Any]:
    """Return the verdict by the interval of the statistic over draws."""
    seeds = []
    for alone in by_seed(curves, scores_needed(claim)):
        needed = {label: s for label, s in scores_needed(claim).items() if label in alone}
        folds: list[CurveScores] = [
            {
                label: {s: np.array(alone[label].fold_scores(s, claim.column, k)) for s in scores}
                for label, scores in needed.items()
            }
            for k in range(len(alone[claim.curve].results[0].records))
        ]
        seeds.append(_Seed(alone, resampled_scores(claim, alone, draws), folds))
    rule = rule_of(claim, seeds[0].curves, seeds[0].rows[0])
    second: dict[str, Any] = {}
    if "rmse" in errors_of(claim):
        try:
            second = _judged(claim, seeds, "rmse")
        except NotJudgedError as error:  # the verdict by MAE stays
            second = {"verdict": "not run", "reason": str(error)}
    return {
        **_judged(claim, seeds, "mae"),
        **{f"rmse_{key}": value for key, value in second.items()},
        "unit": rule.unit,
        "folds": sum(len(seed.folds) for seed in seeds),
        "seeds": len(seeds) if len(seeds) > 1 else None,
        "true_above": rule.low if math.isfinite(rule.low) else None,
        "true_below": rule.high if math.isfinite(rule.high) else None,
        "collapsed": ", ".join(one for one in curves_needed(claim) if curves[one].collapsed),
    }


def _judged(claim: Claim, seeds: Sequence[_Seed], error: Error) -> dict[str, Any]:
    """Return the statistic with its interval, the verdict and the true folds, by one error.

    Draws are the same rows under every seed. The mean over seeds is taken draw by draw, so that a
    row that is predicted under five seeds does not count as five rows.
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
    folds_true = sum(
        _is_true(claim, seed.curves, row, error) for seed in seeds for row in seed.folds
    )
    found = {"verdict": word, "value": value, "low": low, "high": high, "folds_true": folds_true}
    if len(seeds) == 1:
        return found
    values = numbers[:, 0].tolist()
    true = sum(rule.low < number < rule.high for number in values)
    return {**found, **_over_seeds(word, values, true)}


def _over_seeds(word: Word, values: Sequence[float], true: int) -> dict[str, Any]:
    """Return the verdict over all seeds, with the range of the statistic."""
    return {
        "verdict": word_over_seeds(word, true, len(values)),
        "seeds_true": true,
        "seeds_low": min(values),
        "seeds_high": max(values),
    }


def word_over_seeds(word: Word, true: int, seeds: int) -> Word:
    """Return the verdict over all seeds: unclear if one of them contradicts it."""
    if (word == "holds" and true < seeds) or (word == "fails" and true > 0):
        return "unclear"
    return word


def _is_true(claim: Claim, curves: Curves, row: CurveScores, error: Error) -> bool:
    """Return whether a claim is true by its statistic on these rows."""
    try:
        rule = rule_of(claim, curves, row, error)
    except NotJudgedError:
        return False
    return rule.low < rule.statistic(row) < rule.high


def interval_of(rule: Rule, value: float, draws: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a statistic from its values on draws of the scores.

    Draws of a score lie around the score. Those of a statistic need not: the greatest of many
    distances grows with noise, which is in the statistic once and in its draws twice. So they are
    shifted to have `value` as their mean, unless a shift could pass a bound of the statistic.
    """
    numbers = np.array(draws)
    if not rule.bounded:
        numbers += value - numbers.mean(axis=0)
    low, high = ends(value, numbers, _CONFIDENCE)
    if not np.isfinite([low, high]).all():
        raise NotJudgedError("its statistic is not defined on these rows")
    return max(float(low), rule.least), max(float(high), rule.least)


def word_of(rule: Rule, value: float, low: float, high: float) -> Word:
    """Return holds if value and interval are in the range of the claim, fails if neither is."""
    inside = rule.low < value < rule.high
    if inside and rule.low < low and high < rule.high:
        return "holds"
    outside = high <= rule.low or low >= rule.high
    return "fails" if outside and not inside else "unclear"


def _agreement(claim: Agree, curves: Curves) -> dict[str, Any]:
    """Return the verdict on two curves that should predict equal numbers, row by row."""
    worst = []
    for alone in by_seed(curves, curves_needed(claim)):
        one, other = alone[claim.curve], alone[claim.to]
        for curve in (one, other):
            _setting(curve, claim.up_to)
        apart = distances(one, other)
        worst.append(max(distance for strength, distance in apart if strength <= claim.up_to))
    word: Word = "holds" if max(worst) <= claim.tolerance else "fails"
    true = sum(distance <= claim.tolerance for distance in worst)
    several = len(worst) > 1
    return {
        **(_over_seeds(word, worst, true) if several else {"verdict": word}),
        "seeds": len(worst) if several else None,
        "unit": "greatest difference of two predictions of a row, in units of the target's range",
        "value": max(worst),
        "true_below": claim.tolerance,
    }


def count(verdicts: Sequence[Verdict], as_: str, *, ours: bool | None = None) -> int:
    """Return the number of verdicts that count as `as_`: of all, of ours, or of the paper's."""
    return sum(one.counted_as == as_ and ours in (None, one.is_ours) for one in verdicts)


def headline(verdicts: Sequence[Verdict], *, ours: bool) -> str:
    """Return how many claims of the paper, or of ours, hold, by MAE and by RMSE."""
    found = {as_: count(verdicts, as_, ours=ours) for as_ in COUNTS}
    constant = found["holds against a constant"]
    against = (
        f"{constant} more hold only against a network that predicts a constant (it has collapsed "
        "to the mean), "
        if constant
        else ""
    )
    text = (
        f"Of the statements {'added here' if ours else 'taken from the paper'} {found['holds']} "
        f"hold, {against}{found['fails']} fail, {found['unclear']} are unclear, "
        f"{found['not run']} were not judged. Errors are absolute (MAE), as in the paper."
    )
    pairs = [
        (verdict.verdict == "holds", verdict.rmse_verdict == "holds")
        for verdict in verdicts
        if verdict.rmse_verdict is not None and not verdict.collapsed and ours == verdict.is_ours
    ]
    if not pairs:
        return text
    return (
        f"{text} Of {len(pairs)} that compare errors at equal dependence (without constants), "
        f"{pairs.count((True, True))} hold by MAE and by RMSE, "
        f"{pairs.count((True, False))} by MAE alone, {pairs.count((False, True))} by RMSE alone, "
        f"{pairs.count((False, False))} by neither."
    )
