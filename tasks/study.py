"""A configuration bound to its rows, its trials, its store."""

from dataclasses import dataclass
from pathlib import Path

from configs.schema import RunConfig
from tasks.load import load_table
from tasks.prepared import Loaded
from tasks.results import TrialResult, collect
from tasks.settings import Settings
from tasks.splits import Splits
from tasks.store import TrialStore
from tasks.trials import Inputs, Job, Trial, make_trials, plan


@dataclass(frozen=True)
class Study:
    """Everything that the steps of one run look at."""

    config: RunConfig
    settings: Settings
    loaded: Loaded
    inputs: Inputs
    trials: tuple[Trial, ...]
    store: TrialStore

    @property
    def folder(self) -> Path:
        """Where the experiment's files are written."""
        return self.settings.experiments / self.config.name

    def missing(self) -> list[Job]:
        """Return the jobs whose results are not stored yet."""
        return plan(list(self.trials), self.inputs, self.loaded.table, self.store)

    def results(self, *, inner: bool = False) -> list[TrialResult]:
        """Return the trials that are stored on every outer (or inner) fold."""
        return collect(self.trials, self.inputs, self.loaded.table, self.store, inner=inner)


def open_study(config: RunConfig, settings: Settings) -> Study:
    """Return the study of a configuration; its table is prepared on first use."""
    loaded = load_table(config.data, settings)
    inputs = Inputs(
        settings=settings,
        table_digest=loaded.digest,
        sensitive=config.data.sensitive,
        measure_on=config.data.measure_on,
        scale=config.data.declaration.scale,
        scale_on=config.data.scale_on,
        splits=Splits(config.folds, config.seed, config.select.inner_folds),
        seed=config.seed,
        blas_threads=config.cluster.blas_threads,
    )
    trials = tuple(make_trials(config, inputs))
    return Study(config, settings, loaded, inputs, trials, TrialStore(settings.store))
