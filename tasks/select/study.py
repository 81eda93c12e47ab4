"""A study: a configuration with its rows, its trials and its store."""

import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

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
from tasks.plan.splits import Splits
from tasks.plan.training import check_row_weights, measure_weights
from tasks.plan.trials import Inputs, Job, Trial, make_trials, plan, record_key
from tasks.select.results import MAE, TrialResult, collect, other_parameters
from tasks.storage.environment import memory_per_worker
from tasks.storage.records import TrialStore
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

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


_MISSING = "missing"


def check_control_columns(loaded: Loaded, names: Sequence[str]) -> None:
    """Refuse, before any fit, a control column that the prepared table has not kept."""
    for name in names:
        if not _holds(loaded.table, name):
            why = loaded.provenance.get("columns_left_out", {}).get(name, "it is not in the table")
            raise UserError(
                f"data.control must name a column that varies in these rows, got {name!r} ({why}); "
                "name another column or leave it out."
            )


def control_columns(table: Table, names: Sequence[str]) -> AnyArray:
    """Return the named columns of a table, (n, k), each as numbers or as words.

    What is missing in an input or a kept column is a level of its own.
    """
    columns = np.empty((table.n, len(names)), dtype=object)
    for j, name in enumerate(names):
        columns[:, j] = _with_missing(_column(table, name)).tolist()
    return columns


def _holds(table: Table, name: str) -> bool:
    """Return whether the table has such a column, in whatever role."""
    return name == table.target_name or any(
        name in names
        for names in (
            table.extra,
            table.numeric_names,
            table.categorical_names,
            table.sensitive_names,
        )
    )


def _column(table: Table, name: str) -> AnyArray:
    """Return one column in its raw unit, labels as words."""
    if name == table.target_name:
        return table.target
    if name in table.numeric_names:
        return table.numeric[:, table.numeric_names.index(name)]
    if name in table.categorical_names:
        i = table.categorical_names.index(name)
        words = np.array([*table.levels[i], _MISSING], dtype=object)
        return np.asarray(words[table.codes[:, i]])  # code -1, missing, is the last one
    if name in table.extra:
        return np.asarray(table.extra[name])
    return table.sensitive[:, table.sensitive_names.index(name)]


def _with_missing(column: AnyArray) -> AnyArray:
    """Return the column; where numbers are missing, the names of its groups instead."""
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return column
    known = ~np.isnan(column)
    words = np.full(len(column), _MISSING, dtype=object)
    if known.any():
        words[known] = level_names(column[known])
    return words


_MOST = 8  # variants of one method that figures and tables can keep apart
_KIND = "approximation.kind"


def variant_names(trials: Iterable[Trial]) -> dict[str, str]:
    """Return by trial key the method's title, with the parameters that tell its variants apart.

    Trials that differ in strength only are one variant. Where there are too many, as a search
    makes them, those of a single strength share a name.
    """
    by_method: dict[str, list[Trial]] = {}
    for trial in trials:
        by_method.setdefault(trial.method, []).append(trial)
    return {
        key: name for name_, own in by_method.items() for key, name in _names(name_, own).items()
    }


def shown_parameters(trial: Trial) -> dict[str, Any]:
    """Return the parameters that say something: an exact kernel has no landmarks."""
    approximation = trial.parameters.get("approximation", {})
    exact = approximation.get("kind") == "exact"
    return {
        name: value
        for name, value in other_parameters(trial).items()
        if not (exact and name.startswith("approximation."))
    }


def _names(name: str, trials: Sequence[Trial]) -> dict[str, str]:
    """Return the names of one method's trials by key."""
    title = method(name).title
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(repr(sorted(shown_parameters(trial).items())), []).append(trial)
    if len(groups) == 1:
        return {trial.key: title for trial in trials}
    apart = list(groups.values())
    rest = ""
    if len(apart) > _MOST:
        apart = [group for group in apart if len(group) > 1]
        rest = f"{title} (other settings)"
        if not 0 < len(apart) <= _MOST:
            apart, rest = [], title
    variants = [shown_parameters(group[0]) for group in groups.values()]
    found = {trial.key: rest for trial in trials}
    for group in apart:
        label = f"{title} ({_differences(shown_parameters(group[0]), variants)})"
        found |= {trial.key: label for trial in group}
    return found


def _differences(own: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> str:
    """Return the parameters that not all variants share, as one of them has them."""
    told = []
    for name in (name for name in own if _differs(name, variants)):
        # The kind of an approximation says by itself what it is.
        label = "" if name == _KIND else f"{name.rpartition('.')[2]} "
        told.append(f"{label}{_value(own[name])}")
    return ", ".join(told) or "exact"


def _differs(name: str, variants: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a parameter tells variants apart; only an exact kernel lacks some."""
    values = [repr(variant[name]) for variant in variants if name in variant]
    return len(set(values)) > 1 or (name == _KIND and len(values) < len(variants))


def _value(value: Any) -> str:
    """Return a parameter's value as people write it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


T = TypeVar("T")


@dataclass(frozen=True)
class Study:
    """Everything that the steps of one run look at."""

    config: RunConfig
    settings: Settings
    loaded: Loaded
    inputs: Inputs
    trials: tuple[Trial, ...]
    store: TrialStore
    # Keys of trials whose parameters a search has chosen: it saw rows that outer folds test on.
    searched: frozenset[str] = frozenset()
    # Why its champion stays a candidate whatever the gate says.
    refused: tuple[str, ...] = ()
    # What was made of rows that stay: a report, its checks, MLflow ask for it again and again.
    made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what stands under a name, made at the first call."""
        if name not in self.made:
            self.made[name] = make()
        found: T = self.made[name]
        return found

    @property
    def folder(self) -> Path:
        """Where the experiment's files are written."""
        return self.settings.experiments / self.config.name

    @cached_property
    def names(self) -> dict[str, str]:
        """The methods' titles by trial key; variants of one method are told apart."""
        return variant_names(self.trials)

    def title(self, trial: Trial) -> str:
        """Return a trial's method, variant and strength, for people."""
        strength = method(trial.method).strength
        name = self.names[trial.key]
        return name if strength is None else f"{name} {strength}={trial.strength:g}"

    def choices(self) -> list[str]:
        """Return which approximations were chosen where the configuration names none, and why."""
        memory = memory_per_worker(self.config.cluster.workers)
        open_settings = (
            setting
            for entry in self.config.methods
            for setting in entry.settings(self.config.data.problem)
            if getattr(getattr(setting, "approximation", None), "kind", None) == "auto"
        )
        found = (
            choose_approximation(setting, self.inputs, self.loaded.table, memory).why
            for setting in open_settings
        )
        return list(dict.fromkeys(found))

    def missing(self, *, again: bool = False) -> list[Job]:
        """Return the jobs whose results are not stored yet, those that failed only if `again`."""
        return plan(self.trials, self.inputs, self.loaded.table, self.store, again=again)

    def size(self) -> int:
        """Return the number of fits: every trial on every split."""
        return len(self.trials) * len(self.inputs.splits.all(self.loaded.table))

    def failures(self) -> dict[str, str]:
        """Return why fits failed, by what they were."""
        named = {
            record_key(trial, fold, self.inputs): f"{trial.method} {trial.parameters_json} on fold "
            f"{label}"
            for trial in self.trials
            for label, fold in self.inputs.splits.all(self.loaded.table).items()
        }
        # Of what is stored nothing is asked: an object store answers each question by itself.
        stored = self.store.read_all(named)
        causes = self.store.read_failures(key for key in named if key not in stored)
        return {name: causes[key] for key, name in named.items() if key in causes}

    def results(self, *, inner: bool = False) -> list[TrialResult]:
        """Return the trials that are stored on every outer (or inner) fold."""
        return collect(self.trials, self.inputs, self.loaded.table, self.store, inner=inner)

    def held_out_weights(self) -> Array | None:
        """Return for how many rows each held-out row counts in measures, None where once."""
        table = self.loaded.table
        w = measure_weights(table, self.inputs.weights)
        return None if w is None else w[self.inputs.splits.held_out_fold(table).test]

    def again(self) -> "Study":
        """Return the study with the trials that are known by now, on the rows that it has.

        What others have stored meanwhile is seen; what was read is not read again.
        """
        return open_study(self.config, self.settings, self.loaded, self.store)


def open_study(
    config: RunConfig,
    settings: Settings,
    loaded: Loaded | None = None,
    store: TrialStore | None = None,
) -> Study:
    """Return the study of a configuration; its table is prepared on first use.

    Rows that were loaded, or a store whose records were read, may be given so that neither is read
    again.
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
    trials, searched = _trials(config, inputs, loaded.table, store)
    return Study(config, settings, loaded, inputs, trials, store, searched)


def study_opener(settings: Settings) -> Callable[[RunConfig], Study]:
    """Return a function that opens studies: all share one store, equal data are loaded once."""
    store = TrialStore(open_store(settings))
    loaded: dict[str, Loaded] = {}

    def opened(config: RunConfig) -> Study:
        asked = config.data.model_dump_json()
        study = open_study(config, settings, loaded.get(asked), store)
        loaded[asked] = study.loaded
        return study

    return opened


def _trials(
    config: RunConfig, inputs: Inputs, table: Table, store: TrialStore
) -> tuple[tuple[Trial, ...], frozenset[str]]:
    """Return the distinct trials in the configuration's order, the keys of those that a search won.

    An entry with a search has its searched trials first, its grid once all of these are known; one
    whose strengths are not given has more of them once the first ones are known.
    """
    found: list[Trial] = []
    won: set[str] = set()
    memory = memory_per_worker(config.cluster.workers)
    for entry in config.methods:
        best = chosen = None
        if entry.search is not None:
            asked = entry.searched(config.data.problem)
            searched = make_trials(entry.name, resolve_auto(asked, inputs, table, memory), inputs)
            found += searched
            best = winner(searched, inputs, table, store, by=entry.search_by)
            if best is None:
                continue
            # As it was asked for: what was left open is decided anew for each of the grid.
            chosen = asked[searched.index(best)]
        named = entry.settings(config.data.problem, chosen)
        settings = resolve_auto(named, inputs, table, memory)
        made = make_trials(entry.name, settings, inputs)
        while strength := next_setting(entry, config.data.problem, made, inputs, table, store):
            further = replace(settings[-1], **{str(method(entry.name).strength): strength})
            made += make_trials(entry.name, [further], inputs)
        found += made
        if best is not None:
            won |= {best.key, *(trial.key for trial in made)}
    return tuple({trial.key: trial for trial in found}.values()), frozenset(won)


def command_again(study: Study) -> str:
    """Return the command, which means the same in whichever folder it is given."""
    own = Path(sys.executable).with_name("fkd")
    words = [str(own) if own.is_file() else "fkd", "run", str(study.folder / "config.yaml")]
    return shlex.join(["env", f"FKD_HOME={study.settings.home}", *words])
