"""Strengths beyond the first ones, as long as removing more changes something worth having."""

from collections.abc import Sequence

import numpy as np

from configs.methods import MethodConfig
from fkd.methods import method
from fkd.problems.table import Table
from tasks.adapters.store import TrialStore
from tasks.planned.trials import Inputs, Trial
from tasks.study.results import MAE, TrialResult, collect

# Predictions whose root mean square difference is less, on a target of range one, are the same.
_SAME = 1e-6
# An error so close to that of the training mean is that of a model which says no more than it.
_DUMMY_SHARE = 0.99


def next_setting(
    entry: MethodConfig,
    problem: str,
    trials: Sequence[Trial],
    inputs: Inputs,
    table: Table,
    store: TrialStore,
) -> float | None:
    """Return the strength to try after those of an entry's trials, None where it is enough.

    It is enough once the last strength predicts what the one before did, so that nothing is left
    to remove; once it errs like a constant; at the end of the ladder; or while fits are to come.
    """
    if not entry.grows(problem):
        return None
    ordered = sorted(trials, key=lambda trial: trial.strength)
    results = collect(ordered[-2:], inputs, table, store)
    if len(results) < 2 or _is_spent(results) or _is_constant(results[-1], inputs, table):
        return None
    return method(entry.name).next_strength(results[-1].trial.strength)


def _is_spent(results: Sequence[TrialResult]) -> bool:
    """Return whether the last strength predicts what the one before predicted, on every fold."""
    before, after = results
    pairs = zip(before.records, after.records, strict=True)
    return all(a.predicted.distance(b.predicted) < _SAME for a, b in pairs)


def _is_constant(result: TrialResult, inputs: Inputs, table: Table) -> bool:
    """Return whether a trial errs as much as the mean of its training rows would."""
    folds = inputs.splits.outer(table).values()
    dummy = np.mean([np.abs(table.y[f.test] - table.y[f.train].mean()).mean() for f in folds])
    return result.mean(MAE, inputs.measure_on[0]) > _DUMMY_SHARE * float(dummy)
