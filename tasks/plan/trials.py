"""Versions of what decides numbers beside a method: part of every key, compared on every worker."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from configs.errors import UserError
from configs.methods import build
from configs.run import Keeping, WeightsConfig, keeps
from fkd import measures
from fkd.methods import method
from fkd.problems import encoder
from fkd.problems.encoder import Scale
from fkd.problems.table import Table
from tasks.plan.splits import Fold, Splits
from tasks.storage import records as store
from tasks.storage.records import TrialStore, digest
from tasks.storage.settings import Settings


@dataclass(frozen=True)
class Versions:
    """Each is raised by hand, when the same input would give another number."""

    measures: int
    encoder: int
    record: int  # of what a stored trial consists

    def raised(self, *names: str) -> dict[str, dict[str, int]]:
        """Return what enters a key: first versions do not, so that keys of before stay."""
        found = {
            name: version
            for name, version in asdict(self).items()
            if version != 1 and (not names or name in names)
        }
        return {"versions": found} if found else {}

    def check(self, planned: Mapping[str, int], own: Mapping[str, int]) -> None:
        """Raise where this process computes by other versions than the one that planned.

        Parameters
        ----------
        planned, own
            Versions of methods by name: those of the plan, those of this process.
        """
        asked = {**asdict(self), **planned}
        here = {**asdict(own_versions()), **own}
        other = [f"{name} {here[name]} instead of {asked[name]}" for name in asked]
        other = [text for text, name in zip(other, asked, strict=True) if here[name] != asked[name]]
        if other:
            raise UserError(
                "A worker must compute by the versions of the run that asks it, but it has "
                f"{', '.join(other)}; install the same fkd on all workers, then start them again."
            )


def own_versions() -> Versions:
    """Return the versions of this process's code."""
    return Versions(measures.VERSION, encoder.VERSION, store.SCHEMA)


@dataclass(frozen=True)
class Inputs:
    """What the trials of one configuration have in common."""

    settings: Settings  # where a worker finds the prepared table, where it keeps records
    table_digest: str
    sensitive: tuple[str, ...]
    measure_on: tuple[str, ...]
    scale: Scale
    scale_on: str
    splits: Splits
    seed: int
    blas_threads: int
    versions: Versions = field(default_factory=own_versions)
    predictions: Keeping = "auto"  # no part of the identity: the numbers are the same
    weights: WeightsConfig | None = None  # None: every row counts once

    def keeps_predictions(self, split: str, table: Table) -> bool:
        """Return whether predictions of a split's test rows are kept."""
        shown = split == self.splits.held_out(table)
        return keeps(self.predictions, len(self.splits.all(table)[split].test), shown=shown)

    def is_stored(self, store: TrialStore, key: str) -> bool:
        """Return whether a fit needs no computing: with its predictions only where they must be."""
        return bool(self.stored(store, [key]))

    def stored(self, store: TrialStore, keys: Iterable[str]) -> set[str]:
        """Return the keys of fits that need no computing, asked for at once."""
        found = store.read_all(keys)
        return {key for key in found if self.predictions != "keep" or store.has_predictions(key)}

    def identity(self) -> dict[str, Any]:
        """Return what enters every trial's key, split apart."""
        return {
            "data": self.table_digest,
            "sensitive": self.sensitive,
            "measure_on": self.measure_on,
            "scale": [self.scale, self.scale_on],
            "seed": self.seed,
            "blas_threads": self.blas_threads,
            **({} if self.weights is None else {"weights": self.weights.model_dump()}),
            **self.versions.raised(),
        }


@dataclass(frozen=True)
class Trial:
    """One method with one value for each parameter."""

    method: str
    version: int
    parameters_json: str  # canonical, so that equal trials are equal values
    key: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values."""
        plain: dict[str, Any] = json.loads(self.parameters_json)
        return plain

    def setting(self) -> Any:
        """Return the parameters as the method declares them."""
        return build(method(self.method).parameters, self.parameters)

    @property
    def strength(self) -> float:
        """The value of the method's strength parameter, 0 where it has none."""
        return method(self.method).strength_of(self.setting())


@dataclass(frozen=True)
class Job:
    """Trials on one split that share a factorisation, computed by one task."""

    inputs: Inputs
    split: str
    trials: tuple[Trial, ...]
    record_keys: tuple[str, ...]  # one per trial


def make_trials(name: str, settings: Iterable[Any], inputs: Inputs) -> list[Trial]:
    """Return one trial of a method per setting."""
    return [_trial(name, method(name).describe(setting), inputs) for setting in settings]


def _trial(name: str, parameters: dict[str, Any], inputs: Inputs) -> Trial:
    """Return the trial of one setting under its key."""
    folds = inputs.splits.folds.model_dump(mode="json")
    version = method(name).version
    common = _common_parts(name, version, parameters, inputs)
    key = digest({**common, "folds": folds, "fold_seed": inputs.splits.seed})
    return Trial(name, version, json.dumps(parameters, sort_keys=True), key)


def record_key(trial: Trial, fold: Fold, inputs: Inputs) -> str:
    """Return the key of a trial on one split, the digest of `record_parts`."""
    return _record_key(trial, method(trial.method).version, fold.digest, inputs)


# Every step of a run asks for the keys of all its fits.
@lru_cache(maxsize=1 << 16)
def _record_key(trial: Trial, version: int, rows: str, inputs: Inputs) -> str:
    """Return the key of a trial by a version of its method on the rows of this digest."""
    return digest(_record_parts(trial, version, rows, inputs))


def record_parts(trial: Trial, fold: Fold, inputs: Inputs) -> dict[str, Any]:
    """Return what decides a trial's numbers: data, method, versions, parameters, rows, seed."""
    return _record_parts(trial, method(trial.method).version, fold.digest, inputs)


def _record_parts(trial: Trial, version: int, rows: str, inputs: Inputs) -> dict[str, Any]:
    """Return the same by a version of the method, of the rows of this digest."""
    return {**_common_parts(trial.method, version, trial.parameters, inputs), "rows": rows}


def _common_parts(
    name: str, version: int, parameters: Mapping[str, Any], inputs: Inputs
) -> dict[str, Any]:
    """Return the parts of every key of a trial, whichever rows it is fitted on."""
    return {
        "method": name,
        "version": version,
        "parameters": dict(parameters),
        **inputs.identity(),
        **_cells(parameters, inputs),
    }


def check_versions(trials: Iterable[Trial], inputs: Inputs) -> None:
    """Refuse, on a worker, what was planned by another version of what decides numbers."""
    named = {trial.method: trial.version for trial in trials}
    own = {name: method(name).version for name in named}
    inputs.versions.check(named, own)


def plan(
    trials: Sequence[Trial],
    inputs: Inputs,
    table: Table,
    store: TrialStore,
    *,
    again: bool = False,
) -> list[Job]:
    """Return the jobs that are not stored, grouped by what they share.

    What is known to fail is left out, unless it shall be tried `again`.
    """
    jobs: list[Job] = []
    keys = {
        label: [(trial, record_key(trial, fold, inputs)) for trial in trials]
        for label, fold in inputs.splits.all(table).items()
    }
    every = [key for members in keys.values() for _, key in members]
    stored = inputs.stored(store, every)
    failed = {} if again else store.read_failures(key for key in every if key not in stored)
    for label, members in keys.items():
        groups: dict[Hashable, list[tuple[Trial, str]]] = {}
        for trial, key in members:
            if key not in stored and key not in failed:
                shared = method(trial.method).shared(trial.setting())
                groups.setdefault(shared, []).append((trial, key))
        for alike in groups.values():
            chosen, named = zip(*alike, strict=True)
            jobs.append(Job(inputs, label, chosen, named))
    return jobs


def _cells(parameters: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Return what enters a key under a shared map: its moments are summed cell by cell of rows."""
    approximation = parameters.get("approximation") or {}
    if not approximation.get("shared"):
        return {}
    splits = inputs.splits
    return {"cells": [splits.folds.model_dump(mode="json"), splits.seed, splits.inner_folds]}
