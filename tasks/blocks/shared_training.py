"""Training rows whose moments come from a shared map, never held as one matrix."""

from collections.abc import Callable, Iterable
from typing import Any

from fkd.catalog.encoder import Encoder
from fkd.catalog.methods import Approximation, Training, method
from fkd.catalog.methods.training_fold import Functions, Reduced
from fkd.catalog.table import Table
from fkd.core.arrays import Array
from fkd.core.basis_moments import BasisMoments
from fkd.core.machines import Source
from fkd.core.streamed_sums import WAYS, Way
from tasks.blocks.shared_map import SharedMap, load_map, shared_encoder, store_map
from tasks.blocks.spilled_features import feature_source
from tasks.blocks.streaming import MapSums, coupled_of, moments_of
from tasks.planned.folds import Fold
from tasks.planned.trials import Inputs, Job, Trial


class SharedTraining(Training):
    """Rows of a training fold that are encoded only if a method asks for X itself.

    Ridge regression needs moments alone, batched support vector machines features block by block;
    libsvm does ask.
    """

    def __init__(self, encode: Callable[[], Array], **parts: Any) -> None:
        for name, value in {**parts, "encode": encode, "_maps": {}, "_sums": {}}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Reached only where no such attribute exists yet.
        if name != "X":
            raise AttributeError(name)
        X = self.__dict__["encode"]()
        object.__setattr__(self, "X", X)
        return X


def shared_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows of a fold with the encoder that all folds share."""
    train, encoder = table.take(fold.train), shared_encoder(inputs)

    def moments(gamma: float, approximation: Approximation) -> Reduced:
        stored = store_map(SharedMap.of(inputs, gamma, approximation))
        return load_map(stored), moments_of(stored, way_of(approximation), fold.train)

    def coupled(gamma: float, approximation: Approximation, functions: Functions) -> BasisMoments:
        stored = store_map(SharedMap.of(inputs, gamma, approximation))
        squares = float(training.reduced(gamma, approximation)[1].C.trace())
        way = way_of(approximation)
        return coupled_of(stored, way, fold.train, functions, squares=squares)

    def features(gamma: float, approximation: Approximation) -> Source:
        return feature_source(store_map(SharedMap.of(inputs, gamma, approximation)), fold.train)

    training = SharedTraining(
        lambda: encoder.transform(train),
        y=train.y,
        S=train.S(inputs.sensitive),
        seed=inputs.seed,
        reduce=moments,
        couple=coupled,
        stream=features,
    )
    return training, encoder


def way_of(approximation: Approximation) -> Way:
    """Return the way in which rows are summed; one that was left open is the exact one."""
    return next((way for way in WAYS if way == approximation.sums), "float64")


def sums_of(trial: Trial, inputs: Inputs) -> MapSums | None:
    """Return the sums under a shared map that a trial rests on, None where it has its own map."""
    setting = trial.setting()
    approximation = getattr(setting, "approximation", None)
    if approximation is None or not approximation.shared:
        return None
    return MapSums(SharedMap.of(inputs, setting.gamma, approximation), way_of(approximation))


def shared_sums(jobs: Iterable[Job]) -> dict[MapSums, list[Functions]]:
    """Return the distinct sums that jobs rest on, each with the functions of s they need."""
    pairs = dict.fromkeys((trial, job.inputs) for job in jobs for trial in job.trials)
    found: dict[MapSums, list[Functions]] = {}
    for trial, inputs in pairs:
        sums = sums_of(trial, inputs)
        if sums is None:
            continue
        needed = found.setdefault(sums, [])
        functions = method(trial.method).functions(trial.setting())
        if functions is not None and functions not in needed:
            needed.append(functions)
    return found


def streamed_maps(jobs: Iterable[Job]) -> list[SharedMap]:
    """Return the distinct maps under which jobs solve machines by passes over the rows."""
    pairs = dict.fromkeys((trial, job.inputs) for job in jobs for trial in job.trials)
    asked = ((sums_of(t, i), getattr(t.setting(), "solver", None)) for t, i in pairs)
    return list(dict.fromkeys(sums.shared for sums, by in asked if sums and by == "batched"))
