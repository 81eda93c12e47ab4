"""Scores that claims are judged by: on pooled rows, drawn around these, on each fold."""

import numpy as np

from configs.claims import Claim
from fkd.core.arrays import Array
from tasks.reproduction.curves import Curves
from tasks.reproduction.fronts import CurveScores
from tasks.reproduction.region import NotJudgedError
from tasks.reproduction.resample import Resampling
from tasks.reproduction.rules import scores_needed


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
