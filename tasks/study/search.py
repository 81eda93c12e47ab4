"""The winner of a search over the parameters of an unfair base model."""

from collections.abc import Sequence

from fkd.catalog.table import Table
from tasks.adapters.store import TrialStore
from tasks.planned.trials import Inputs, Trial, record_key
from tasks.study.results import collect


def winner(
    trials: Sequence[Trial], inputs: Inputs, table: Table, store: TrialStore, *, by: str
) -> Trial | None:
    """Return the trial of least mean error on inner folds, None while any is still to come.

    Inner folds decide, so that the held-out rows stay unused by the search too.
    """
    if any(_to_come(trial, inputs, table, store) for trial in trials):
        return None
    finished = collect(trials, inputs, table, store, inner=True)
    column = inputs.measure_on[0]
    best = min(finished, key=lambda result: result.mean(by, column), default=None)
    return None if best is None else best.trial


def _to_come(trial: Trial, inputs: Inputs, table: Table, store: TrialStore) -> bool:
    """Return whether a trial is neither stored nor known to fail on some inner fold."""
    keys = [record_key(trial, fold, inputs) for fold in inputs.splits.inner(table).values()]
    failed = any(store.read_failure(key) is not None for key in keys)
    return not failed and any(key not in store for key in keys)
