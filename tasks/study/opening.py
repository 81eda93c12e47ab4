"""A configuration bound to its rows, its trials, its store."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from configs.schema import RunConfig
from fkd.core.arrays import Array
from fkd.methods import method
from fkd.problems.table import Table
from tasks.adapters.environment import memory_per_worker
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.store import TrialStore
from tasks.data.load import load_table
from tasks.data.prepared import Loaded
from tasks.planned.splits import Splits
from tasks.planned.trials import Inputs, Job, Trial, make_trials, plan, record_key
from tasks.planned.weighing import check_row_weights, measure_weights
from tasks.study.approximating import choose_approximation
from tasks.study.control_columns import check_control_columns
from tasks.study.growth import next_setting
from tasks.study.results import TrialResult, collect
from tasks.study.search import winner
from tasks.study.settling import settled
from tasks.study.variant_names import variant_names

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
            searched = make_trials(entry.name, settled(asked, inputs, table, memory), inputs)
            found += searched
            best = winner(searched, inputs, table, store, by=entry.search_by)
            if best is None:
                continue
            # As it was asked for: what was left open is decided anew for each of the grid.
            chosen = asked[searched.index(best)]
        named = entry.settings(config.data.problem, chosen)
        settings = settled(named, inputs, table, memory)
        made = make_trials(entry.name, settings, inputs)
        while strength := next_setting(entry, config.data.problem, made, inputs, table, store):
            further = replace(settings[-1], **{str(method(entry.name).strength): strength})
            made += make_trials(entry.name, [further], inputs)
        found += made
        if best is not None:
            won |= {best.key, *(trial.key for trial in made)}
    return tuple({trial.key: trial for trial in found}.values()), frozenset(won)
