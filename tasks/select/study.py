"""A study: a configuration with its rows, grids, trials, control columns and store."""

import shlex
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from configs.errors import UserError
from configs.methods import MethodConfig
from configs.run import RunConfig
from fkd.core.arrays import AnyArray, Array
from fkd.measures.groups import level_names
from fkd.methods import method
from fkd.problems.table import Table
from tasks.data.load import Loaded, load_table
from tasks.kernels.auto_options import choose_approximation, resolve_auto
from tasks.plan.splits import Fold, Splits
from tasks.plan.training import check_row_weights, measure_weights
from tasks.plan.trials import Inputs, Job, Trial, make_trials, plan, record_key
from tasks.select.results import MAE, TrialResult, collect, variant_names
from tasks.storage.environment import memory_per_worker
from tasks.storage.records import TrialStore
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Study:
    """A configuration with its rows, trials and store.

    Parameters
    ----------
    searched
        Keys of trials whose parameters a search has chosen. The search used rows on which outer
        folds test.
    refused
        Reasons to register the champion as a candidate only, whatever the gate decides.
    """

    config: RunConfig
    settings: Settings
    loaded: Loaded
    inputs: Inputs
    trials: tuple[Trial, ...]
    store: TrialStore
    searched: frozenset[str] = frozenset()
    refused: tuple[str, ...] = ()
    # Results of functions that are `cached_on_study`, by function and arguments.
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # Predictions of the held-out rows that were read or refitted, by trial.
    predicted: dict[Trial, Array] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def folder(self) -> Path:
        """The folder of the experiment's files."""
        return self.settings.experiments / self.config.name

    @property
    def table(self) -> Table:
        """The rows."""
        return self.loaded.table

    @property
    def held_out(self) -> Fold:
        """The fold whose test rows are not used to select a champion."""
        return self.inputs.splits.held_out_fold(self.table)

    def held_out_rows(self) -> Table:
        """Return the test rows of the held-out fold."""
        return self.table.take(self.held_out.test)

    def held_out_weights(self) -> Array | None:
        """Return the weights of the held-out rows in measures, None if each counts once."""
        w = measure_weights(self.table, self.inputs.weights)
        return None if w is None else w[self.held_out.test]

    def held_out_key(self, trial: Trial) -> str:
        """Return the key of a trial's record on the held-out fold."""
        return record_key(trial, self.held_out, self.inputs)

    @cached_property
    def names(self) -> dict[str, str]:
        """Titles of methods by trial key. Variants of a method have different titles."""
        return variant_names(self.trials)

    def title(self, trial: Trial) -> str:
        """Return a trial's method, variant and strength for people."""
        strength = method(trial.method).strength
        name = self.names[trial.key]
        return name if strength is None else f"{name} {strength}={trial.strength:g}"

    def choices(self) -> list[str]:
        """Return the approximations chosen for `auto`, with reasons."""
        memory = memory_per_worker(self.config.cluster.workers)
        found = (
            choose_approximation(setting, self.inputs, self.table, memory).why
            for entry in self.config.methods
            for setting in entry.settings(self.config.data.problem)
            if getattr(getattr(setting, "approximation", None), "kind", None) == "auto"
        )
        return list(dict.fromkeys(found))

    def missing(self, *, again: bool = False) -> list[Job]:
        """Return the jobs without stored results, those that failed only if `again`."""
        return plan(self.trials, self.inputs, self.table, self.store, again=again)

    def size(self) -> int:
        """Return the number of fits: every trial on every split."""
        return len(self.trials) * len(self.inputs.splits.all(self.table))

    def failures(self) -> dict[str, str]:
        """Return the causes of failed fits, by trial and fold."""
        named = {
            record_key(trial, fold, self.inputs): f"{trial.method} {trial.parameters_json} on fold "
            f"{label}"
            for trial in self.trials
            for label, fold in self.inputs.splits.all(self.table).items()
        }
        # An object store needs one request per failure, so stored fits are left out.
        stored = self.store.read_all(named)
        causes = self.store.read_failures(key for key in named if key not in stored)
        return {name: causes[key] for key, name in named.items() if key in causes}

    def results(self, *, inner: bool = False) -> list[TrialResult]:
        """Return the trials that are stored on every outer (or inner) fold."""
        return collect(self.trials, self.inputs, self.table, self.store, inner=inner)

    def again(self) -> "Study":
        """Return the study with the trials that its stored results lead to, on the same rows.

        Records that others have written since are used. Records in memory are not read again.
        """
        return open_study(self.config, self.settings, self.loaded, self.store)


def cached_on_study(
    compute: Callable[Concatenate[Study, P], T],
) -> Callable[Concatenate[Study, P], T]:
    """Cache a function of a study and hashable positional arguments, as long as the study lives."""

    @wraps(compute)
    def cached(study: Study, /, *args: P.args, **options: P.kwargs) -> T:
        key = (compute, args)
        if key not in study.cache:
            study.cache[key] = compute(study, *args, **options)
        found: T = study.cache[key]
        return found

    return cached


def open_study(
    config: RunConfig,
    settings: Settings,
    loaded: Loaded | None = None,
    store: TrialStore | None = None,
) -> Study:
    """Return the study of a configuration; its table is prepared on first use.

    With `loaded` rows or a `store` whose records were read, neither is read again.
    """
    loaded = loaded or load_table(config.data, settings)
    store = store or TrialStore(open_store(settings))
    check_control_columns(loaded, config.data.control)
    inputs = Inputs(
        settings=settings.for_workers(),
        table_digest=loaded.digest,
        sensitive=config.data.sensitive,
        measure_on=config.data.measure_on,
        scale=config.data.input_scale,
        scale_on=config.data.scale_on,
        splits=Splits(config.folds, config.seed, config.inner_folds),
        seed=config.seed,
        blas_threads=config.cluster.blas_threads,
        predictions=config.predictions,
        weights=config.weights,
    )
    check_row_weights(loaded.table, config.weights, inputs.splits)
    trials, searched = list_trials(config, inputs, loaded.table, store)
    return Study(config, settings, loaded, inputs, trials, store, searched)


def study_opener(settings: Settings) -> Callable[[RunConfig], Study]:
    """Return a function that opens studies on one store and loads equal data once."""
    store = TrialStore(open_store(settings))
    loaded: dict[str, Loaded] = {}

    def opened(config: RunConfig) -> Study:
        key = config.data.model_dump_json()
        study = open_study(config, settings, loaded.get(key), store)
        loaded[key] = study.loaded
        return study

    return opened


def rerun_command(study: Study) -> str:
    """Return the shell command that runs the study again from any folder."""
    own = Path(sys.executable).with_name("fkd")
    words = [str(own) if own.is_file() else "fkd", "run", str(study.folder / "config.yaml")]
    return shlex.join(["env", f"FKD_HOME={study.settings.home}", *words])


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


_MISSING = "missing"


def check_control_columns(loaded: Loaded, names: Sequence[str]) -> None:
    """Raise an error, before any fit, if the prepared table lacks a control column."""
    for name in names:
        if _column(loaded.table, name) is None:
            why = loaded.provenance.get("columns_left_out", {}).get(name, "it is not in the table")
            raise UserError(
                f"data.control must name a column that varies in these rows, got {name!r} ({why}). "
                "Name another column or remove it."
            )


def control_columns(table: Table, names: Sequence[str]) -> AnyArray:
    """Return the named columns of a table, (n, k). Missing values are a level of their own."""
    columns = np.empty((table.n, len(names)), dtype=object)
    for j, name in enumerate(names):
        column = np.asarray(_column(table, name))
        if column.dtype.kind == "f" and (known := ~np.isnan(column)).sum() < table.n:
            levels = np.full(table.n, _MISSING, dtype=object)
            if known.any():
                levels[known] = level_names(column[known])
            column = levels
        columns[:, j] = column.tolist()
    return columns


def _column(table: Table, name: str) -> AnyArray | None:
    """Return a column of any role in its raw unit, categories as labels; None if absent."""
    if name == table.target_name:
        return table.target
    if name in table.numeric_names:
        return table.numeric[:, table.numeric_names.index(name)]
    if name in table.categorical_names:
        i = table.categorical_names.index(name)
        labels = np.array([*table.levels[i], _MISSING], dtype=object)
        return np.asarray(labels[table.codes[:, i]])  # code -1, missing, is the last one
    if name in table.extra:
        return np.asarray(table.extra[name])
    if name in table.sensitive_names:
        return table.sensitive[:, table.sensitive_names.index(name)]
    return None
