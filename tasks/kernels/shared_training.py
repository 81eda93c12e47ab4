"""Training rows of a split under a shared feature map."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fkd.core.arrays import Source
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import SUM_PRECISIONS, FeatureMap, KernelSettings, SumPrecision
from fkd.core.moments import BasisMoments, Moments
from fkd.core.weights import Part, RowWeights
from fkd.methods import Approximation, Training, method
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.kernels.features_cache import feature_source
from tasks.kernels.shared_map import SharedMap, StoredMap, load_map, shared_encoder, store_map
from tasks.kernels.streaming import MapSums, coupled_of, moments_of, study_weights
from tasks.plan.splits import Fold
from tasks.plan.training import EncodedRows
from tasks.plan.trials import Inputs, Job, Trial


@dataclass(frozen=True)
class FoldSums:
    """Sums over the training rows of a fold under a shared map."""

    inputs: Inputs
    fold: Fold
    weights: RowWeights  # of all rows of the table

    def feature_map(self, kernel: KernelSettings) -> FeatureMap:
        """Return the map that all folds share."""
        return load_map(self._stored(kernel))

    def moments(self, kernel: KernelSettings, part: Part) -> Moments:
        """Return the moments of the training rows."""
        precision = sum_precision(kernel.approximation)
        return moments_of(self._stored(kernel), precision, self.fold.train, part)

    def basis_moments(
        self, kernel: KernelSettings, functions: Functions, squares: float
    ) -> BasisMoments:
        """Return the products of the features with functions of s."""
        precision, part = sum_precision(kernel.approximation), self.weights.alike_part("removal")
        rows = self.fold.train
        return coupled_of(self._stored(kernel), precision, rows, functions, part, squares=squares)

    def features(self, kernel: KernelSettings) -> Source:
        """Return the features of the training rows, block by block."""
        return feature_source(self._stored(kernel), self.fold.train)

    def _stored(self, kernel: KernelSettings) -> StoredMap:
        assert kernel.gamma is not None
        return store_map(SharedMap.of(self.inputs, kernel.gamma, kernel.approximation))


def shared_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows of a fold, and the encoder that all folds share."""
    weights, encoder = study_weights(inputs), shared_encoder(inputs)
    # Sums over cells exclude absent rows already.
    present = weights.present(fold.train)
    training = EncodedRows(
        lambda: table.take(present),
        encoder,
        inputs.sensitive,
        seed=inputs.seed,
        shared=FoldSums(inputs, fold, weights),
        weights=weights.part(present),
    )
    return training, encoder


def sum_precision(approximation: Approximation) -> SumPrecision:
    """Return the precision of sums over rows; 'auto' means float64."""
    return next((p for p in SUM_PRECISIONS if p == approximation.sums), "float64")


def sums_of(trial: Trial, inputs: Inputs) -> MapSums | None:
    """Return the sums that a trial needs, None if it has a map of its own."""
    setting = trial.setting()
    approximation = getattr(setting, "approximation", None)
    if approximation is None or not approximation.shared:
        return None
    return MapSums(SharedMap.of(inputs, setting.gamma, approximation), sum_precision(approximation))


def shared_sums(jobs: Iterable[Job]) -> dict[MapSums, list[Functions]]:
    """Return the sums that jobs need, each with functions of s."""
    pairs = dict.fromkeys((trial, job.inputs) for job in jobs for trial in job.trials)
    found: dict[MapSums, list[Functions]] = {}
    for trial, inputs in pairs:
        sums = sums_of(trial, inputs)
        if sums is None:
            continue
        weights = study_weights(inputs)
        for part in _parts(trial):
            found.setdefault(replace(sums, part=weights.alike_part(part)), [])
        functions = method(trial.method).functions(trial.setting())
        needed = found[replace(sums, part=weights.alike_part(_parts(trial)[-1]))]
        if functions is not None and functions not in needed:
            needed.append(functions)
    return found


def _parts(trial: Trial) -> tuple[Part, ...]:
    """Return the parts of a fit that need sums; functions of s belong to the last one."""
    setting, declared = trial.setting(), method(trial.method)
    # Weights of a support vector machine are factors of C and not part of its sums.
    machine: Part = "once" if hasattr(setting, "solver") else "fit"
    removes = declared.weighs == "each" or declared.functions(setting) is not None
    return (machine, "removal") if removes else (machine,)


def streamed_maps(jobs: Iterable[Job]) -> list[SharedMap]:
    """Return the maps under which jobs solve support vector machines by passes over the rows."""
    pairs = dict.fromkeys((trial, job.inputs) for job in jobs for trial in job.trials)
    asked = (sums_of(trial, inputs) for trial, inputs in pairs if solves_by_passes(trial))
    return list(dict.fromkeys(sums.shared for sums in asked if sums))


def solves_by_passes(trial: Trial) -> bool:
    """Return whether a trial is solved by passes over the features of all rows."""
    return getattr(trial.setting(), "solver", None) == "batched"
