"""Trials, the keys of their records, and the jobs that are still to be computed."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from configs.errors import UnreadableTableError, UserError
from configs.methods import build
from configs.run import Keeping, WeightsConfig, keeps
from fkd.measures import REPORTED
from fkd.methods import method
from fkd.problems.encoder import Scale
from fkd.problems.table import Table
from tasks.data.load import map_prepared, prepared_name
from tasks.plan.splits import Fold, Splits
from tasks.storage.records import TrialStore, code_versions, digest, shared_versions
from tasks.storage.settings import Settings
from tasks.storage.store import open_store


@lru_cache(maxsize=2)
def cached_table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, mapped once per worker. Rows are read when they are taken."""
    cause = "it is absent or damaged"
    try:
        if (found := map_prepared(settings, digest)) is not None:
            return found
    except OSError as error:
        if error.errno is None:
            raise  # the error of a server, which has its own message
        cause = str(error)
    location = open_store(settings).location(prepared_name(digest))
    raise UnreadableTableError(
        f"the prepared table {location} must be readable on every worker, but {cause}. Set "
        "FKD_STORE to a location that all of them can read, then run the same command"
    )


@dataclass(frozen=True)
class Inputs:
    """Settings and versions that all trials of a configuration share."""

    settings: Settings  # the location of the prepared table and of records
    table_digest: str
    sensitive: tuple[str, ...]
    measure_on: tuple[str, ...]
    scale: Scale
    scale_on: str
    splits: Splits
    seed: int
    blas_threads: int
    versions: tuple[tuple[str, int], ...] = field(
        default_factory=lambda: tuple(sorted(shared_versions().items()))
    )
    predictions: Keeping = "auto"  # in no key: the numbers are the same
    weights: WeightsConfig | None = None  # None: every row counts once

    @property
    def table(self) -> Table:
        """The prepared table, mapped once per process."""
        return cached_table(self.settings, self.table_digest)

    def version(self, name: str) -> int:
        """Return the version of a measure, of the encoder or of records."""
        return dict(self.versions)[name]

    def fit_identity(self) -> dict[str, Any]:
        """Return everything that decides predictions and is common to all trials."""
        weights = None
        if self.weights is not None and self.weights.train:
            weights = self.weights.model_dump(exclude={"measures"})
        return {
            "data": self.table_digest,
            "sensitive": self.sensitive,
            "scale": [self.scale, self.scale_on],
            "seed": self.seed,
            "blas_threads": self.blas_threads,
            "weights": weights,
            "encoder": self.version("encoder"),
            "record": self.version("record"),
        }

    def measure_identity(self) -> dict[str, Any]:
        """Return everything that decides the scores of given predictions."""
        weights = self.weights
        return {
            "measure_on": self.measure_on,
            "measure_weights": weights.column if weights and weights.measures else None,
            "measures": {name: self.version(name) for name in REPORTED},
        }

    def identity(self) -> dict[str, Any]:
        """Return everything that decides numbers and is common to all trials."""
        return {**self.fit_identity(), **self.measure_identity()}

    def keeps_predictions(self, split: str, table: Table) -> bool:
        """Return True if the predictions of a split's test rows are kept."""
        shown = split == self.splits.held_out(table)
        return keeps(self.predictions, len(self.splits.all(table)[split].test), shown=shown)

    def stored(self, store: TrialStore, keys: Iterable[str]) -> set[str]:
        """Return the keys of existing records, of those with predictions if all must be kept."""
        found = store.read_all(keys)
        return {key for key in found if self.predictions != "keep" or store.has_predictions(key)}


@dataclass(frozen=True)
class Trial:
    """One method with one value for each parameter."""

    method: str
    version: int
    parameters_json: str  # canonical, so that equal trials compare equal
    key: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values."""
        plain: dict[str, Any] = json.loads(self.parameters_json)
        return plain

    def setting(self) -> Any:
        """Return the parameters as an object of the method's class."""
        return _setting(self.method, self.parameters_json)

    @property
    def strength(self) -> float:
        """The value of the method's strength parameter, 0 if it has none."""
        return method(self.method).strength_of(self.setting())


# The steps of a run ask for the settings of all trials many times.
@lru_cache(maxsize=1 << 14)
def _setting(name: str, parameters_json: str) -> Any:
    return build(method(name).parameters, json.loads(parameters_json))


@dataclass(frozen=True)
class Job:
    """Trials on one split that share a factorisation. One task computes them."""

    inputs: Inputs
    split: str
    trials: tuple[Trial, ...]
    record_keys: tuple[str, ...]  # one per trial


def make_trials(name: str, settings: Iterable[Any], inputs: Inputs) -> list[Trial]:
    """Return one trial of a method per setting."""
    folds = {"folds": inputs.splits.folds.model_dump(mode="json"), "fold_seed": inputs.splits.seed}
    version, trials = method(name).version, []
    for setting in settings:
        parameters = method(name).describe(setting)
        parts = _fit_parts(name, version, parameters, inputs)
        key = digest({**parts, **inputs.measure_identity(), **folds})
        trials.append(Trial(name, version, json.dumps(parameters, sort_keys=True), key))
    return trials


def record_key(trial: Trial, fold: Fold, inputs: Inputs) -> str:
    """Return the key of a trial's record on one split; see `tasks.storage.records`."""
    return _record_key(trial, fold.digest, inputs)


# Every step of a run asks for the keys of all its fits.
@lru_cache(maxsize=1 << 16)
def _record_key(trial: Trial, rows: str, inputs: Inputs) -> str:
    parts = _fit_parts(trial.method, trial.version, trial.parameters, inputs)
    fit = digest({**parts, "rows": rows})
    return f"{fit}-{digest(inputs.measure_identity())[:16]}"


def _fit_parts(
    name: str, version: int, parameters: Mapping[str, Any], inputs: Inputs
) -> dict[str, Any]:
    """Return everything but the rows that decides the predictions of a trial."""
    parts = {"method": name, "version": version, "parameters": dict(parameters)}
    if (parameters.get("approximation") or {}).get("shared"):
        # The moments of a shared map are summed over cells of rows, which all splits define.
        splits = inputs.splits
        folds = splits.folds.model_dump(mode="json")
        parts["cells"] = [folds, splits.seed, splits.inner_folds]
    return {**parts, **inputs.fit_identity()}


def check_versions(trials: Iterable[Trial], inputs: Inputs) -> None:
    """Refuse, on a worker, trials that were planned by other versions of methods or measures."""
    planned = {**dict(inputs.versions), **{trial.method: trial.version for trial in trials}}
    own = code_versions()
    other = [
        f"{name} {own.get(name, 'absent')} instead of {version}"
        for name, version in planned.items()
        if own.get(name) != version
    ]
    if other:
        raise UserError(
            f"A worker must have the versions of the run, but it has {', '.join(other)}. Install "
            "the same fkd on all workers, then start them again."
        )


def plan(
    trials: Sequence[Trial],
    inputs: Inputs,
    table: Table,
    store: TrialStore,
    *,
    again: bool = False,
) -> list[Job]:
    """Return the jobs whose records are missing, grouped by shared factorisations.

    Fits that failed before are left out, unless they are to be tried `again`.
    """
    keys = {
        label: [(trial, record_key(trial, fold, inputs)) for trial in trials]
        for label, fold in inputs.splits.all(table).items()
    }
    every = [key for pairs in keys.values() for _, key in pairs]
    stored = inputs.stored(store, every)
    failed = {} if again else store.read_failures(key for key in every if key not in stored)
    jobs: list[Job] = []
    for label, pairs in keys.items():
        groups: dict[Hashable, list[tuple[Trial, str]]] = {}
        for trial, key in pairs:
            if key not in stored and key not in failed:
                shared = method(trial.method).shared(trial.setting())
                groups.setdefault(shared, []).append((trial, key))
        for group in groups.values():
            chosen, missing = zip(*group, strict=True)
            jobs.append(Job(inputs, label, chosen, missing))
    return jobs
