"""A feature map that all splits share, computed from rows that no split tests on."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from configs.errors import UserError
from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps import (
    Approximation,
    FeatureMap,
    KernelSettings,
    NystroemMap,
    map_arrays,
    map_from_arrays,
)
from fkd.core.landmarks import ROWS_PER_LANDMARK
from fkd.core.linalg import to_dense
from fkd.core.moments import Rounding, measure_rounding
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.data.load import prepared_name
from tasks.plan.trials import Inputs, check_versions
from tasks.storage.environment import blas_threads
from tasks.storage.files import pack_arrays, sha256
from tasks.storage.records import digest
from tasks.storage.store import open_store

# To be raised when the same rows give another map or other moments.
VERSION = 3
# Distinguishes the sample of rows for landmarks from other samples with the same seed.
_SAMPLE = 2


@dataclass(frozen=True)
class SharedMap:
    """Reference to a map. The map itself is a blob in the store that every worker reads."""

    inputs: Inputs
    gamma: float
    approximation: Approximation  # with sums="auto": all precisions of sums share one map

    @classmethod
    def of(cls, inputs: Inputs, gamma: float, approximation: Approximation) -> "SharedMap":
        """Return the map of an approximation."""
        return cls(inputs, gamma, replace(approximation, sums="auto"))

    @property
    def key(self) -> str:
        """Digest of everything that decides the map."""
        inputs = self.inputs
        return digest(
            {
                "version": VERSION,
                **_origin(inputs),
                "scale": [inputs.scale, inputs.scale_on],
                "seeds": [inputs.seed, inputs.splits.seed],
                "blas_threads": inputs.blas_threads,
                "gamma": self.gamma,
                "approximation": asdict(self.approximation),
                "encoder": inputs.version("encoder"),
            }
        )

    @property
    def name(self) -> str:
        """Name of the map in the store."""
        return f"moments/{self.key}.map.arrays"


@dataclass(frozen=True)
class StoredMap:
    """A map with the checksum of its content: only moments of one content can be added."""

    shared: SharedMap
    checksum: str  # sha256 of its arrays


def store_map(shared: SharedMap) -> StoredMap:
    """Return the map with its checksum. Compute it first if it is absent or damaged.

    The map that is stored first is used by all: with other rounding, another processor could choose
    other landmarks.
    """
    check_versions((), shared.inputs)
    store = open_store(shared.inputs.settings)
    data = store.read(shared.name)
    if data is None or store.unpacked(shared.name, data) is None:
        feature_map, rounding = _computed(shared)
        arrays = {**map_arrays(feature_map), "told": np.array(json.dumps(rounding))}
        data = pack_arrays(arrays)
        if not store.write_absent(shared.name, data):
            data = store.read(shared.name) or data
    return StoredMap(shared, sha256(data))


@lru_cache(maxsize=2)
def load_map(stored: StoredMap) -> FeatureMap:
    """Return the map, read once per worker."""
    return map_from_arrays(_arrays(stored))


@lru_cache(maxsize=16)
def rounding_of(stored: StoredMap) -> Rounding:
    """Return the rounding errors of sums, as measured when the map was computed."""
    return Rounding(**json.loads(str(_arrays(stored)["told"])))


def _arrays(stored: StoredMap) -> dict[str, Any]:
    """Return the arrays of a map; raise an error if they have another checksum."""
    store, name = open_store(stored.shared.inputs.settings), stored.shared.name
    data = store.read(name)
    arrays = None if data is None or sha256(data) != stored.checksum else store.unpacked(name, data)
    if arrays is None:
        raise FileNotFoundError(
            f"{store.location(name)} must not change during a run, but it is absent or has another "
            "content. Run the same command again"
        )
    return arrays


def _computed(shared: SharedMap) -> tuple[FeatureMap, dict[str, Any]]:
    """Return the map of the reserved rows, and the rounding errors of sums under it."""
    inputs, q = shared.inputs, shared.approximation.landmarks
    table = inputs.table
    reserved = inputs.splits.reserved(table)
    if shared.approximation.kind == "nystroem" and len(reserved) < q:
        raise UserError(
            f"folds.reserve must reserve at least as many rows as there are landmarks ({q}), got "
            f"{len(reserved)} of {table.n} rows. Raise it, or set fewer landmarks."
        )
    if len(reserved) > ROWS_PER_LANDMARK * q:
        # More rows hardly change the choice, and might not fit into memory.
        rng = np.random.default_rng([inputs.seed, _SAMPLE])
        reserved = np.sort(rng.choice(reserved, ROWS_PER_LANDMARK * q, replace=False))
    with blas_threads(inputs.blas_threads):
        # Sparse as in a pass, so that rounding is measured on the same kind of rows.
        X = shared_encoder(inputs).rows(table.take(reserved))
        kernel = KernelSettings(gamma=shared.gamma, approximation=shared.approximation)
        feature_map = kernel.feature_map(X, inputs.seed)
        if isinstance(feature_map, NystroemMap):
            # Products of sparse rows with dense landmarks are fastest.
            feature_map = replace(feature_map, centers=to_dense(feature_map.centers))
        return feature_map, asdict(measure_rounding(feature_map, X))


@lru_cache(maxsize=2)
def _origin(inputs: Inputs) -> dict[str, Any]:
    """Return the identity of the reserved rows: their content if the table may grow."""
    folds = inputs.splits.folds
    if not folds.base:
        return {"data": inputs.table_digest, "folds": folds.model_dump(mode="json")}
    return {"reserved": content_of(shared_encoder(inputs).rows(_reserved(inputs)))}


def content_of(X: Rows, *columns: Array) -> list[Any]:
    """Return shape and digest of encoded rows and further columns."""
    content = hashlib.sha256()
    for part in (*((X.data, X.indices) if isinstance(X, csr_array) else (X,)), *columns):
        content.update(np.ascontiguousarray(part).data)
    return [*X.shape, *(column.shape for column in columns), content.hexdigest()]


@lru_cache(maxsize=2)
def shared_encoder(inputs: Inputs) -> Encoder:
    """Return the encoder of the reserved rows.

    Levels that are absent there have no landmark, so that the map cannot distinguish them.
    """
    return encoder_of(_reserved(inputs), inputs)


def _reserved(inputs: Inputs) -> Table:
    """Return the rows that no split tests on."""
    try:
        return inputs.table.take(inputs.splits.reserved(inputs.table))
    except ValueError as error:
        place = open_store(inputs.settings).location(prepared_name(inputs.table_digest))
        raise UserError(
            f"The prepared table {place} must not be changed, but {error}. Remove it, then run the "
            "same command."
        ) from error


def encoder_of(rows: Table, inputs: Inputs) -> Encoder:
    """Return the encoder of some rows, or of the whole table if `data.scale_on` is all."""
    if inputs.scale_on == "all":
        # `take` validates the rows.
        rows = inputs.table.take(slice(None))
    try:
        return Encoder.fit(rows, scale=inputs.scale)
    except ValueError as error:
        raise UserError(
            f"The {rows.n} rows from which landmarks are chosen must differ in their inputs, but "
            f"{error}. Raise folds.reserve, or choose other inputs."
        ) from error
