"""Judge the claims of the paper by stored results, with intervals from pooled rows."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.stats import kendalltau

from configs.reproduction import (
    Agree,
    Better,
    Change,
    Claim,
    CurvesConfig,
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
from tasks.reproduce.curves import Curve, Curves, curves_of, distances
from tasks.reproduce.resample import Resampling
from tasks.select.study import Study

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
    return _CLAIM_RULES[type(claim)](claim, curves, scores)


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


_CLAIM_RULES: Mapping[type, Callable[[Any, Curves, CurveScores], Rule]] = {
    Equal: _equal,
    LessError: _less_error,
    Near: _near,
    Trend: _trend,
    Change: _change,
    Faster: _faster,
    Optimal: _optimal,
}


Word = Literal["holds", "fails", "unclear", "not run"]
WORDS: tuple[Word, ...] = get_args(Word)
OURS = "ours"  # the source of claims that the paper does not make


@dataclass(frozen=True)
class Verdict:
    """What the rows say of one claim on one run."""

    run: str
    says: str
    source: str
    verdict: Word
    reason: str = ""  # why it was not judged
    unit: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    folds_true: int | None = None
    folds: int | None = None
    # The claim is true between these numbers; None: on all of that side.
    true_above: float | None = None
    true_below: float | None = None
    collapsed: str = ""  # which of the compared curves is a constant without being meant as one
    # The same by the root of the mean squared error, where two errors are compared at all.
    rmse_verdict: Word | None = None
    rmse_reason: str = ""
    rmse_value: float | None = None
    rmse_low: float | None = None
    rmse_high: float | None = None
    rmse_folds_true: int | None = None
    # Where folds were cut by several seeds: the number is their mean, between these two, and lies
    # where the claim is true under so many of them.
    seeds: int | None = None
    seeds_true: int | None = None
    seeds_low: float | None = None
    seeds_high: float | None = None
    rmse_seeds_true: int | None = None
    rmse_seeds_low: float | None = None
    rmse_seeds_high: float | None = None

    @property
    def told(self) -> str:
        """The verdict with the error by which it was reached, where there are two."""
        if self.rmse_verdict is None:
            return self.verdict
        if self.rmse_verdict == self.verdict:
            return f"{self.verdict} by MAE and RMSE"
        return f"{self.verdict} by MAE, {self.rmse_verdict} by RMSE".replace(
            "not run", "not judged"
        )


def seeded_curves(
    studies: Mapping[int, Mapping[str, Study]], config: CurvesConfig
) -> dict[str, Curve]:
    """Return the first seed's curves, each with its repeats under the others.

    Parameters
    ----------
    studies
        The run's variants, by seed.
    config
        Which curve is drawn on which of them, under which seeds.
    """
    drawn = {seed: config.under(seed) for seed in studies}
    found = {seed: curves_of(variants, drawn[seed]) for seed, variants in studies.items()}
    first, *others = studies
    joined = {
        label: _joined(curve, {s: found[s] for s in others if label in drawn[s].curves})
        for label, curve in found[first].items()
    }
    # A setting that no two seeds have in common is no result.
    return {label: curve for label, curve in joined.items() if curve.merged.results}


def _joined(curve: Curve, others: Mapping[int, Curves]) -> Curve:
    """Return a curve with its repeats; what any seed lacks is missing."""
    label, whole = curve.label, len(curve.results) + curve.missing
    repeats = tuple(curves[label] for curves in others.values() if label in curves)
    lost = whole * (len(others) - len(repeats))
    missing = curve.missing + lost + sum(repeat.missing for repeat in repeats)
    return replace(curve, repeats=repeats, missing=missing)


def by_seed(curves: Curves, labels: Iterable[str]) -> list[dict[str, Curve]]:
    """Return these curves seed by seed, under the seeds that all of them have."""
    apart = {label: curves[label].by_seed for label in labels if label in curves}
    first, *others = apart.values()
    common = [seed for seed in first if all(seed in other for other in others)]
    return [{label: found[seed] for label, found in apart.items()} for seed in common]


def word_over_seeds(word: Word, true: int, seeds: int) -> Word:
    """Return the verdict of all seeds together: unclear where one of them says otherwise."""
    if (word == "holds" and true < seeds) or (word == "fails" and true > 0):
        return "unclear"
    return word


def resamplings(claim: Claim, curves: Curves, draws: int) -> dict[str, dict[str, list[Resampling]]]:
    """Return what must be known of every setting, by curve, by score."""
    return {
        label: {
            score: [
                Resampling(
                    curves[label].study.inputs,
                    tuple(record.key for record in result.records),
                    claim.column or curves[label].study.inputs.measure_on[0],
                    score,
                    draws,
                )
                for result in curves[label].results
            ]
            for score in scores
        }
        for label, scores in scores_needed(claim).items()
        if label in curves
    }


def resampled_scores(claim: Claim, curves: Curves, draws: int) -> list[CurveScores]:
    """Return the scores on the rows as they are, then every draw around these."""
    table = {
        label: {
            score: np.stack([_values(job) for job in jobs], axis=1) for score, jobs in by.items()
        }
        for label, by in resamplings(claim, curves, draws).items()
    }
    return [
        {label: {score: values[b] for score, values in by.items()} for label, by in table.items()}
        for b in range(1 + draws)
    ]


def _values(job: Resampling) -> Array:
    """Return a trial's score on the rows with every draw around it."""
    values = job.read()
    if values is None:
        raise NotJudgedError(f"{job.score.upper()} on resampled rows could not be computed")
    return values


def fold_scores(claim: Claim, curves: Curves) -> list[CurveScores]:
    """Return the scores of every fold alone."""
    folds = len(curves[claim.curve].results[0].records)
    return [
        {
            label: {
                score: np.array(curves[label].fold_scores(score, claim.column, k))
                for score in scores
            }
            for label, scores in scores_needed(claim).items()
            if label in curves
        }
        for k in range(folds)
    ]


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


Count = Literal["holds", "holds against a constant", "fails", "unclear", "not run"]
COUNTS: tuple[Count, ...] = get_args(Count)


def counted_as(verdict: Verdict) -> Count:
    """Return among which verdicts one is counted: to beat a collapsed network proves little."""
    if verdict.verdict == "holds" and verdict.collapsed:
        return "holds against a constant"
    return verdict.verdict


def is_ours(verdict: Verdict) -> bool:
    """Return whether a statement is one that the paper does not make."""
    return verdict.source == OURS


def count(verdicts: Sequence[Verdict], as_: str, *, ours: bool | None = None) -> int:
    """Return how many verdicts count as that: all, ours, or the paper's."""
    return sum(
        counted_as(verdict) == as_ and ours in (None, is_ours(verdict)) for verdict in verdicts
    )


def headline(verdicts: Sequence[Verdict], *, ours: bool) -> str:
    """Return in words how many of the paper's statements, or of ours, hold by which error."""
    found = {as_: count(verdicts, as_, ours=ours) for as_ in COUNTS}
    whose = "added here" if ours else "taken from the paper"
    constant = found["holds against a constant"]
    apart = (
        f"{constant} more hold only against a network that predicts a constant (it has collapsed "
        "to the mean), "
        if constant
        else ""
    )
    return (
        f"Of the statements {whose} {found['holds']} hold, {apart}{found['fails']} fail, "
        f"{found['unclear']} are unclear, {found['not run']} were not judged, errors being "
        f"absolute ones (MAE) as in the paper.{_by_both(verdicts, ours=ours)}"
    )


def _by_both(verdicts: Sequence[Verdict], *, ours: bool) -> str:
    """Return by which of the two errors statements on them hold, nothing where there are none."""
    compared = [
        verdict
        for verdict in verdicts
        if verdict.rmse_verdict is not None and not verdict.collapsed and ours == is_ours(verdict)
    ]
    if not compared:
        return ""
    pairs = [(v.verdict == "holds", v.rmse_verdict == "holds") for v in compared]
    return (
        f" Of {len(compared)} that compare errors at equal dependence (constants apart), "
        f"{pairs.count((True, True))} hold by MAE and by RMSE, "
        f"{pairs.count((True, False))} by MAE alone, {pairs.count((False, True))} by RMSE alone, "
        f"{pairs.count((False, False))} by neither."
    )
