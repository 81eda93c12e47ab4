"""The winner of a search over the parameters of an unfair base model."""

from collections.abc import Sequence

from fkd.problems.table import Table
from tasks.adapters.store import TrialStore
from tasks.planned.trials import Inputs, Trial, record_key
from tasks.study.results import collect


def winner(
    trials: Sequence[Trial], inputs: Inputs, table: Table, store: TrialStore, *, by: str
) -> Trial | None:
    """Return the trial of least mean error on inner folds, None while any is still to come.

    Inner folds decide, so that the held-out rows stay unused by the search too.
    """
    if _to_come(trials, inputs, table, store):
        return None
    finished = collect(trials, inputs, table, store, inner=True)
    column = inputs.measure_on[0]
    best = min(finished, key=lambda result: result.mean(by, column), default=None)
    return None if best is None else best.trial


def _to_come(trials: Sequence[Trial], inputs: Inputs, table: Table, store: TrialStore) -> bool:
    """Return whether some trial is neither stored nor known to fail on some inner fold."""
    folds = inputs.splits.inner(table).values()
    keys = [{record_key(trial, fold, inputs) for fold in folds} for trial in trials]
    known = set(store.read_all(key for own in keys for key in own))
    failed = set(store.read_failures(key for own in keys for key in own - known))
    return any(own - known and not own & failed for own in keys)
