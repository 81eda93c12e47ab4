"""A study: a configuration with its rows, trials and store."""

import shlex
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from configs.run import RunConfig
from fkd.core.arrays import Array
from fkd.methods import method
from fkd.problems.table import Table
from tasks.data.load import Loaded, load_table
from tasks.kernels.auto_options import choose_approximation
from tasks.plan.splits import Fold, Splits
from tasks.plan.training import check_row_weights, measure_weights
from tasks.plan.trials import Inputs, Job, Trial, plan, record_key
from tasks.select.control_columns import check_control_columns
from tasks.select.grids import list_trials
from tasks.select.results import TrialResult, collect, variant_names
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
