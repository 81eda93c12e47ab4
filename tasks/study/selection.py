"""The trial that becomes the champion, selected on inner folds alone."""

from collections.abc import Sequence

import numpy as np

from configs.errors import UserError
from configs.schema import SelectConfig
from fkd.measures.pareto import knee, select
from tasks.study.results import TrialResult


class NoChampionError(UserError):
    """No trial satisfies the limits."""


def select_trial(results: Sequence[TrialResult], policy: SelectConfig) -> TrialResult:
    """Return the trial that the policy selects from results on inner folds.

    With several measured columns a limit must hold on the worst of them.
    """
    if not results:
        raise NoChampionError("There is nothing to choose from: no trial finished on all folds.")
    names = ["mae", *([policy.knee_of] if policy.knee_of else policy.subject_to)]
    points = np.array([[worst(result, name) for name in names] for result in results])
    if policy.knee_of:
        return results[knee(points)]
    try:
        index = select(
            {name: points[:, i] for i, name in enumerate(names)},
            minimise=policy.minimise,
            subject_to=policy.subject_to,
        )
    except ValueError as error:
        raise NoChampionError(
            f"select.subject_to cannot be met: {error}; loosen the limit by "
            "--set select.subject_to=..., or give the methods a longer grid."
        ) from error
    return results[index]


def worst(result: TrialResult, measure: str) -> float:
    """Return the mean over folds on the column where it is greatest."""
    return max(result.mean(measure, column) for column in result.records[0].measures)
