"""Find the trials that other limits would select."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from fkd.measures import REPORTED
from fkd.measures.pareto import select
from tasks.select.champion import candidates, worst
from tasks.select.groups import StudyProfiles, along_study
from tasks.select.judgement import held_out_predictions, plain_trial
from tasks.select.results import MAE, TrialResult
from tasks.select.study import Study

# Each range needs figures of its trial: a report of thousands of trials would not open otherwise.
MOST_STEPS = 24


@dataclass(frozen=True)
class LimitStep:
    """The trial that is selected by every limit from `low` to below `high`.

    Parameters
    ----------
    low, high
        The least limit that selects it, and the least that selects the next one, if any.
    trial
        Its key.
    """

    low: float
    high: float | None
    trial: str


@dataclass(frozen=True)
class MovedTrial:
    """A trial that some limit selects, with its scores on the held-out rows.

    Parameters
    ----------
    title
        Method and strength.
    mae
        Mean absolute error, relative to the target's range.
    scores
        By measured column and measure.
    along
        Its profiles.
    """

    title: str
    mae: float
    scores: Mapping[str, Mapping[str, float]]
    along: StudyProfiles


@dataclass(frozen=True)
class LimitMoves:
    """The trials that limits on each measure select.

    Parameters
    ----------
    steps
        By measure, from the least limit that a trial satisfies to the greatest.
    points
        By measure, (value, error) of every trial on inner folds.
    trials
        The selected trials by key.
    limits
        The configured limits by measure.
    ranges
        Number of all ranges by measure; `steps` has at most `MOST_STEPS` of them.
    """

    steps: Mapping[str, tuple[LimitStep, ...]]
    points: Mapping[str, Mapping[str, tuple[float, float]]]
    trials: Mapping[str, MovedTrial]
    limits: Mapping[str, float] = field(default_factory=dict)
    ranges: Mapping[str, int] = field(default_factory=dict)


def limit_moves(study: Study, champion: str | None = None) -> LimitMoves | None:
    """Return the trials that other limits would select, None if no champion is selected.

    `champion` is the key of the selected trial.
    """
    policy = study.config.select
    results = [] if policy is None else candidates(study)
    if policy is None or not results:
        return None
    known = [m for m in REPORTED if not any(np.isnan(worst(r, m)) for r in results)]
    ranges = {measure: limit_steps(results, measure) for measure in known}
    steps = {
        measure: _thinned(own, policy.subject_to.get(measure), champion)
        for measure, own in ranges.items()
    }
    by_key = {result.trial.key: result.trial for result in results}
    selected = [
        by_key[key] for key in dict.fromkeys(s.trial for own in steps.values() for s in own)
    ]
    # Refit trials whose predictions were not kept together, for the profiles below.
    both = (one for trial in selected for one in (trial, plain_trial(study, trial)))
    stored = {one for one in both if one is not None and study.held_out_key(one) in study.store}
    held_out_predictions(study, [trial for trial in study.trials if trial in stored])
    moved = {}
    for trial in selected:
        record = study.store.read(study.held_out_key(trial))
        if record is not None:
            moved[trial.key] = MovedTrial(
                study.title(trial),
                next(iter(record.measures.values()))[MAE],
                {
                    column: {measure: found[measure] for measure in REPORTED if measure in found}
                    for column, found in record.measures.items()
                },
                along_study(study, trial),
            )
    points = {
        measure: {
            result.trial.key: (worst(result, measure), worst(result, MAE)) for result in results
        }
        for measure in known
    }
    counts = {measure: len(own) for measure, own in ranges.items()}
    return LimitMoves(steps, points, moved, dict(policy.subject_to), counts)


def _thinned(
    steps: Sequence[LimitStep], limit: float | None, champion: str | None
) -> tuple[LimitStep, ...]:
    """Return at most about `MOST_STEPS` ranges, among them those of the limit and the champion."""
    if len(steps) <= MOST_STEPS:
        return tuple(steps)
    kept = set(np.linspace(0, len(steps) - 1, MOST_STEPS).round().astype(int).tolist())
    kept |= {i for i, step in enumerate(steps) if step.trial == champion}
    if limit is not None:
        kept |= {max((i for i, step in enumerate(steps) if step.low <= limit), default=0)}
    return tuple(steps[i] for i in sorted(kept))


def limit_steps(results: Sequence[TrialResult], measure: str) -> tuple[LimitStep, ...]:
    """Return the trials that limits on one measure select, from the least limit on.

    `results` are those of the inner folds.
    """
    points = {name: np.array([worst(r, name) for r in results]) for name in (MAE, measure)}
    chosen: list[tuple[float, str]] = []
    for limit in np.unique(points[measure]).tolist():
        # As a run with this limit selects.
        key = results[select(points, minimise=MAE, subject_to={measure: limit})].trial.key
        if not chosen or chosen[-1][1] != key:
            chosen.append((limit, key))
    ends = [*(after[0] for _, after in pairwise(chosen)), None]
    return tuple(LimitStep(low, high, key) for (low, key), high in zip(chosen, ends, strict=True))
