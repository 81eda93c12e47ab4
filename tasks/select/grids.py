"""The trials of a configuration: grids of parameters, searches, growing strengths."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from configs.methods import MethodConfig
from configs.run import RunConfig
from fkd.methods import method
from fkd.problems.table import Table
from tasks.kernels.auto_options import resolve_auto
from tasks.plan.trials import Inputs, Trial, make_trials, record_key
from tasks.select.results import MAE, collect
from tasks.storage.environment import memory_per_worker
from tasks.storage.records import TrialStore

# Predictions whose root mean square difference is less, on a target of range one, are equal.
_SAME = 1e-6
# A model with more than this share of the error of the training mean is no better than the mean.
_CONSTANT_SHARE = 0.99


def list_trials(
    config: RunConfig, inputs: Inputs, table: Table, store: TrialStore
) -> tuple[tuple[Trial, ...], frozenset[str]]:
    """Return the distinct trials in the configuration's order, and the keys of searched trials.

    An entry with a search has its searched trials first, and its grid once all of these are stored.
    An entry without given strengths has further strengths once the first ones are stored.
    """
    found: list[Trial] = []
    searched: set[str] = set()
    problem = config.data.problem
    memory = memory_per_worker(config.cluster.workers)
    for entry in config.methods:
        best = chosen = None
        if entry.search is not None:
            candidates = entry.searched(problem)
            trials = make_trials(
                entry.name, resolve_auto(candidates, inputs, table, memory), inputs
            )
            found += trials
            best = search_winner(trials, inputs, table, store, by=entry.search_by)
            if best is None:
                continue
            # As configured: `auto` options are resolved for each setting of the grid.
            chosen = candidates[trials.index(best)]
        settings = resolve_auto(entry.settings(problem, chosen), inputs, table, memory)
        trials = make_trials(entry.name, settings, inputs)
        while strength := next_strength(entry, problem, trials, inputs, table, store):
            further = replace(settings[-1], **{str(method(entry.name).strength): strength})
            trials += make_trials(entry.name, [further], inputs)
        found += trials
        if best is not None:
            searched |= {best.key, *(trial.key for trial in trials)}
    return tuple({trial.key: trial for trial in found}.values()), frozenset(searched)


def search_winner(
    trials: Sequence[Trial], inputs: Inputs, table: Table, store: TrialStore, *, by: str
) -> Trial | None:
    """Return the trial with the least mean of a score on inner folds, None while one is missing.

    The search does not use held-out rows.
    """
    folds = inputs.splits.inner(table).values()
    keys = [{record_key(trial, fold, inputs) for fold in folds} for trial in trials]
    known = set(store.read_all(key for own in keys for key in own))
    failed = set(store.read_failures(key for own in keys for key in own - known))
    if any(own - known and not own & failed for own in keys):
        return None
    finished = collect(trials, inputs, table, store, inner=True)
    column = inputs.measure_on[0]
    best = min(finished, key=lambda result: result.mean(by, column), default=None)
    return None if best is None else best.trial


def next_strength(
    entry: MethodConfig,
    problem: str,
    trials: Sequence[Trial],
    inputs: Inputs,
    table: Table,
    store: TrialStore,
) -> float | None:
    """Return the strength to try after those of an entry's trials, None if there is none.

    There is none if the last two strengths predict the same, if the error of the last one is that
    of a constant, at the end of the method's default strengths, or while fits are missing.
    """
    if not entry.grows(problem):
        return None
    ordered = sorted(trials, key=lambda trial: trial.strength)
    results = collect(ordered[-2:], inputs, table, store)
    if len(results) < 2:
        return None
    before, last = results
    pairs = zip(before.records, last.records, strict=True)
    if all(a.predicted.distance(b.predicted) < _SAME for a, b in pairs):
        return None
    folds = inputs.splits.outer(table).values()
    constant = np.mean([np.abs(table.y[f.test] - table.y[f.train].mean()).mean() for f in folds])
    if last.mean(MAE, inputs.measure_on[0]) > _CONSTANT_SHARE * float(constant):
        return None
    return method(entry.name).next_strength(last.trial.strength)
