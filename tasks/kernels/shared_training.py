"""Training rows of a split under a shared feature map: their sums, and features cached on disk."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, RowBlock, Source, row_blocks
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import SUM_PRECISIONS, FeatureMap, KernelSettings, SumPrecision
from fkd.core.moments import BasisMoments, Moments
from fkd.core.weights import Part, RowWeights
from fkd.methods import Approximation, Training, method
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.kernels.shared_map import SharedMap, StoredMap, load_map, shared_encoder, store_map
from tasks.kernels.streaming import (
    Leaf,
    MapSums,
    RunBlocks,
    Sums,
    cell_leaves,
    coupled_of,
    leaf_rows,
    moments_of,
    study_cells,
    study_weights,
)
from tasks.plan.splits import Fold
from tasks.plan.training import EncodedRows
from tasks.plan.trials import Inputs, Job, Trial
from tasks.storage.environment import blas_threads
from tasks.storage.files import named_disk_errors
from tasks.storage.records import digest
from tasks.storage.store import machine_store

# To be raised when the same rows give other features.
FEATURES_VERSION = 1
# Largest share of the free disk for features. Larger ones are computed in each pass.
DISK_SHARE = 0.5


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
        return moments_of(self._sums(kernel, part), self.fold.train)

    def basis_moments(
        self, kernel: KernelSettings, functions: Functions, squares: float
    ) -> BasisMoments:
        """Return the products of the features with functions of s."""
        sums = self._sums(kernel, self.weights.alike_part("removal"))
        return coupled_of(sums, self.fold.train, functions, squares=squares)

    def features(self, kernel: KernelSettings) -> Source:
        """Return the features of the training rows, block by block."""
        return feature_source(self._stored(kernel), self.fold.train)

    def _stored(self, kernel: KernelSettings) -> StoredMap:
        assert kernel.gamma is not None
        return store_map(SharedMap.of(self.inputs, kernel.gamma, kernel.approximation))

    def _sums(self, kernel: KernelSettings, part: Part) -> Sums:
        return Sums(self._stored(kernel), sum_precision(kernel.approximation), part)


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
    batched = [pair for pair in pairs if getattr(pair[0].setting(), "solver", None) == "batched"]
    return list(dict.fromkeys(sums.shared for pair in batched if (sums := sums_of(*pair))))


# Features cached on disk, for methods that read them in several passes


@dataclass(frozen=True)
class Spill:
    """Disk space of the features of all rows under a map."""

    needed: int  # bytes
    free: int  # bytes, including those of features that are already there

    @property
    def fits(self) -> bool:
        """True if they are cached."""
        return self.needed <= DISK_SHARE * self.free


def spill_features(run: RunBlocks, maps: Iterable[SharedMap]) -> None:
    """Cache the features of all training rows if they fit on the disk, one task per block.

    A lost worker costs its block. A fit computes features that are missing.

    Parameters
    ----------
    run
        ``run(function, jobs, keep)`` computes jobs on the cluster and calls ``keep(job, result)``.
    maps
        Maps under which support vector machines are solved by passes over the rows.
    """
    for shared in maps:
        stored = store_map(shared)
        kept = machine_store(shared.inputs.settings)
        missing = [leaf for leaf in _leaves(stored) if not kept.has(features_name(leaf))]
        if missing and planned_spill(stored).fits:
            run(write_features, missing, lambda _, __: None)


def planned_spill(stored: StoredMap) -> Spill:
    """Return the size of the features of a study's rows, and the free disk space."""
    inputs = stored.shared.inputs
    needed = 4 * load_map(stored).rank * sum(len(cell.rows) for cell in study_cells(inputs))
    folder = inputs.settings.features
    names = {features_name(leaf) for leaf in _leaves(stored)}
    kept = machine_store(inputs.settings).entries()
    there = sum(entry.size for entry in kept if entry.name in names)
    folder.mkdir(parents=True, exist_ok=True)
    return Spill(needed, shutil.disk_usage(folder).free + there)


def write_features(leaf: Leaf) -> None:
    """Cache the features of one block of rows."""
    settings = leaf.sums.inputs.settings
    with named_disk_errors(settings.features):
        arrays = {"G": _features(leaf)}
        machine_store(settings).write_arrays(features_name(leaf), arrays)


def feature_source(stored: StoredMap, train: NDArray[np.int64]) -> Source:
    """Return the features of training rows for a solver, from disk if they fit there.

    The checksums of files are verified here. Damaged and absent files are written again.
    """
    inputs = stored.shared.inputs
    table, cells = inputs.table, study_cells(inputs)
    weights = study_weights(inputs).fit
    parts: list[tuple[Leaf, Array, Array | None]] = []
    for i in np.flatnonzero(np.isin([cell.rows[0] for cell in cells], train)):
        positions = np.array(cells[i].rows)
        y, w = table.take(positions).y, None if weights is None else weights[positions]
        for leaf in cell_leaves(Sums(stored, "rows"), (), int(i)):
            rows = slice(leaf.position * leaf.size, (leaf.position + 1) * leaf.size)
            parts.append((leaf, y[rows], None if w is None else w[rows]))
    kept = planned_spill(stored).fits
    for leaf, _, _ in parts if kept else ():
        if machine_store(inputs.settings).read_arrays(features_name(leaf)) is None:
            write_features(leaf)

    def blocks() -> Iterator[RowBlock]:
        for leaf, y, w in parts:
            yield RowBlock(_read(leaf) if kept else _features(leaf), y, weights=w)

    return blocks


def _leaves(stored: StoredMap) -> Iterator[Leaf]:
    """Yield the blocks of all rows that a split trains on."""
    for cell in range(len(study_cells(stored.shared.inputs))):
        yield from cell_leaves(Sums(stored, "rows"), (), cell)


def _read(leaf: Leaf) -> AnyArray:
    """Return the cached features of one block of rows, or compute them."""
    # A memory map: its pages are released with the block, so that one block is in memory.
    kept = machine_store(leaf.sums.inputs.settings).mapped_arrays(features_name(leaf))
    if kept is None:
        return _features(leaf)
    found: AnyArray = kept["G"]
    return found


def _features(leaf: Leaf) -> AnyArray:
    """Return the features of one block of rows."""
    feature_map, (X, _, _) = load_map(leaf.sums.stored), leaf_rows(leaf)
    G = np.empty((X.shape[0], feature_map.rank), dtype=np.float32)
    with blas_threads(leaf.sums.inputs.blas_threads):
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            G[rows] = feature_map.transform(X[rows])
    return G


def features_name(leaf: Leaf) -> str:
    """Return the name of the cached features of one block of rows."""
    inputs = leaf.sums.inputs
    identity = {
        "features": FEATURES_VERSION,
        "data": inputs.table_digest,
        "map": leaf.sums.stored.checksum,
        "encoder": leaf.sums.stored.shared.key,
        "rows": study_cells(inputs)[leaf.cell].digest,
        "block": [leaf.position, leaf.size],
    }
    return f"{digest(identity)}.features.arrays"
