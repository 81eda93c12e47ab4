"""Find the trials that other limits would select."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from configs.run import SelectConfig
from fkd.measures import REPORTED
from tasks.plan.trials import Trial, record_key
from tasks.select.champion import candidates
from tasks.select.groups import StudyProfiles, along_study
from tasks.select.judgement import plain_trial
from tasks.select.refit import foresee
from tasks.select.results import MAE, TrialResult
from tasks.select.selection import select_trial, worst
from tasks.select.study import Study
from tasks.storage.records import TrialRecord


@dataclass(frozen=True)
class LimitStep:
    """The trial that every limit from `low` to below `high` chooses.

    Parameters
    ----------
    low, high
        The least limit that chooses it, the least that chooses the next; None at the last.
    trial
        Its key.
    """

    low: float
    high: float | None
    trial: str


@dataclass(frozen=True)
class MovedTrial:
    """A trial that some limit chooses, with what it costs.

    Parameters
    ----------
    title
        Method and strength.
    mae
        Mean absolute error on the held-out rows, on the scale of the target's range.
    scores
        On the held-out rows, by measured column, then measure.
    along
        Its profiles on these rows.
    """

    title: str
    mae: float
    scores: Mapping[str, Mapping[str, float]]
    along: StudyProfiles


@dataclass(frozen=True)
class LimitMoves:
    """What every limit on a measure would choose.

    Parameters
    ----------
    steps
        By measure, from the strictest limit that can be kept to the loosest.
    points
        By measure, (value, error) of every trial on the inner folds that decide.
    trials
        By key, those that some limit chooses.
    limits
        The configured limits, by measure.
    """

    steps: Mapping[str, tuple[LimitStep, ...]]
    points: Mapping[str, Mapping[str, tuple[float, float]]]
    trials: Mapping[str, MovedTrial]
    limits: Mapping[str, float] = field(default_factory=dict)


def limit_moves(study: Study) -> LimitMoves | None:
    """Return what every limit would choose; None where nothing is chosen at all."""
    policy = study.config.select
    results = [] if policy is None else candidates(study)
    if policy is None or not results:
        return None
    known = [m for m in REPORTED if not any(np.isnan(worst(r, m)) for r in results)]
    steps = {measure: steps_of(results, measure) for measure in known}
    wanted = dict.fromkeys(step.trial for found in steps.values() for step in found)
    by_key = {result.trial.key: result for result in results}
    _foresee(study, [by_key[key].trial for key in wanted])
    trials = {key: _moved(study, by_key[key]) for key in wanted}
    points = {
        measure: {
            result.trial.key: (worst(result, measure), worst(result, MAE)) for result in results
        }
        for measure in known
    }
    stored = {key: trial for key, trial in trials.items() if trial is not None}
    return LimitMoves(steps, points, stored, dict(policy.subject_to))


def _foresee(study: Study, trials: Sequence[Trial]) -> None:
    """Have predictions of these trials, and of the same with nothing removed, fitted together."""
    plain = (plain_trial(study, trial) for trial in trials)
    foresee(study, list(dict.fromkeys([*trials, *(one for one in plain if one is not None)])))


def steps_of(results: Sequence[TrialResult], measure: str) -> tuple[LimitStep, ...]:
    """Return the trials that limits on one measure choose, from the strictest on.

    Parameters
    ----------
    results
        Of the inner folds, which a choice is made by.
    measure
        Name of a declared measure.
    """
    chosen: list[tuple[float, str]] = []
    for limit in sorted({worst(result, measure) for result in results}):
        # The run's own rule, so that the page can promise no other choice than a run would make.
        policy = SelectConfig.model_construct(minimise="mae", subject_to={measure: limit})
        key = select_trial(results, policy).trial.key
        if not chosen or chosen[-1][1] != key:
            chosen.append((limit, key))
    ends = [*(after[0] for _, after in pairwise(chosen)), None]
    return tuple(LimitStep(low, high, key) for (low, key), high in zip(chosen, ends, strict=True))


def _moved(study: Study, result: TrialResult) -> MovedTrial | None:
    """Return a trial with its costs on the held-out rows, None where these are not stored."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    record: TrialRecord | None = study.store.read(record_key(result.trial, fold, inputs))
    if record is None:
        return None
    first = next(iter(record.measures.values()))
    return MovedTrial(
        study.title(result.trial),
        first[MAE],
        {
            column: {measure: found[measure] for measure in REPORTED if measure in found}
            for column, found in record.measures.items()
        },
        along_study(study, result.trial),
    )
