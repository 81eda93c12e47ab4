"""Claims judged by a paired bootstrap over the pooled test rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from configs.claims import Agree, Claim
from configs.experiment import ExperimentConfig
from tasks.reproduction.curves import Curve, pooled
from tasks.reproduction.fronts import DUMMY, Array, Scores
from tasks.reproduction.resample import Resampling
from tasks.reproduction.rules import (
    NotJudgedError,
    Rule,
    curves_needed,
    rule_of,
    scores_needed,
)

DRAWS = 300
_LEVEL = 0.95

Word = Literal["holds", "fails", "unclear", "not run"]
Curves = Mapping[str, Curve]
Compute = Callable[[Sequence[Resampling]], None]


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


def judge(
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
        Resamples of the pooled test rows.
    """
    cases = [(claim, run) for claim in experiment.claims for run in claim.runs or experiment.runs]
    jobs = [
        job
        for claim, run in cases
        if not isinstance(claim, Agree) and _all_there(claim, curves.get(run, {}))
        for found in _resamplings(claim, curves[run], draws).values()
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
    for label in curves_needed(claim):
        if label not in curves[run]:
            reason = experiment.left_out.get(label, f"{label} gave no result")
            return Verdict(**told, verdict="not run", reason=reason)
    try:
        if isinstance(claim, Agree):
            return _agreement(claim, curves[run], told)
        return _bootstrap(claim, curves[run], draws, told)
    except NotJudgedError as error:
        return Verdict(**told, verdict="not run", reason=str(error))


def _bootstrap(claim: Claim, curves: Curves, draws: int, told: dict[str, Any]) -> Verdict:
    """Return the verdict by the interval of the claim's number over resampled rows."""
    rows = _resampled_scores(claim, curves, draws)
    rule = rule_of(claim, curves, rows[0])
    value, *others = [rule.statistic(row) for row in rows]
    low, high = np.quantile(others, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    folds = [rule.statistic(row) for row in _fold_scores(claim, curves)]
    return Verdict(
        **told,
        verdict=word_of(rule, float(low), float(high)),
        unit=rule.unit,
        value=value,
        low=float(low),
        high=float(high),
        folds_true=sum(rule.low < v < rule.high for v in folds),
        folds=len(folds),
    )


def word_of(rule: Rule, low: float, high: float) -> Word:
    """Return holds where the whole interval is in the claim's region, fails where none of it is."""
    if rule.low < low and high < rule.high:
        return "holds"
    return "fails" if high <= rule.low or low >= rule.high else "unclear"


def _agreement(claim: Agree, curves: Curves, told: dict[str, Any]) -> Verdict:
    """Return whether two curves predict the same numbers, row by row."""
    pairs = distances(curves[claim.curve], curves[claim.to])
    apart = [distance for strength, distance in pairs if strength <= claim.up_to]
    if not apart:
        raise NotJudgedError("no common setting was computed")
    return Verdict(
        **told,
        verdict="holds" if max(apart) <= claim.tolerance else "fails",
        unit="greatest difference of two predictions of one row, in units of the target's range",
        value=max(apart),
    )


def distances(one: Curve, other: Curve) -> list[tuple[float, float]]:
    """Return strength with the greatest difference of predictions, where both curves have it."""
    return [
        (strength, float(np.nanmax(np.abs(pooled(one, i) - pooled(other, j)))))
        for i, strength in enumerate(one.strengths)
        if (j := other.at(strength)) is not None
    ]


def _all_there(claim: Claim, curves: Curves) -> bool:
    """Return whether every curve that a claim names has a result."""
    return all(label in curves for label in curves_needed(claim))


def _labels(claim: Claim, curves: Curves) -> Iterable[str]:
    """Return the curves whose scores a claim looks at, the dummy among them."""
    return (label for label in dict.fromkeys([*curves_needed(claim), DUMMY]) if label in curves)


def _resamplings(claim: Claim, curves: Curves, draws: int) -> dict[str, list[Resampling]]:
    """Return what must be known of every setting, by curve."""
    return {
        label: [
            Resampling(
                curves[label].study.inputs,
                tuple(record.key for record in result.records),
                _column(claim, curves[label]),
                score,
                draws,
            )
            for result in curves[label].results
            for score in scores_needed(claim)
        ]
        for label in _labels(claim, curves)
    }


def _column(claim: Claim, curve: Curve) -> str:
    """Return the column on which a claim's measures are taken."""
    return claim.column or curve.study.inputs.measure_on[0]


def _resampled_scores(claim: Claim, curves: Curves, draws: int) -> list[Scores]:
    """Return the scores on the rows as they are, then on every draw of them."""
    table: dict[str, dict[str, Array]] = {}
    for label, jobs in _resamplings(claim, curves, draws).items():
        by_score: dict[str, list[Array]] = {}
        for job in jobs:
            values = job.read()
            if values is None:
                raise NotJudgedError(f"the scores of {label} could not be computed")
            by_score.setdefault(job.score, []).append(values)
        table[label] = {score: np.stack(parts, axis=1) for score, parts in by_score.items()}
    return [
        {label: {score: values[b] for score, values in by.items()} for label, by in table.items()}
        for b in range(1 + draws)
    ]


def _fold_scores(claim: Claim, curves: Curves) -> list[Scores]:
    """Return the scores of every fold alone."""
    folds = len(curves[claim.curve].results[0].records)
    return [
        {
            label: {
                score: np.array(curves[label].fold_scores(score, claim.column, k))
                for score in scores_needed(claim)
            }
            for label in _labels(claim, curves)
        }
        for k in range(folds)
    ]
