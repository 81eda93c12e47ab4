"""One feature map for all splits, made from rows that none of them tests on."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from fkd.catalog.encoder import Encoder
from fkd.catalog.methods.training_fold import Approximation, rbf_map
from fkd.core.feature_maps import FeatureMap
from fkd.core.feature_maps.stored import map_arrays, map_from_arrays
from tasks.adapters.blas import blas_threads
from tasks.adapters.files import open_arrays, read_arrays, read_sealed, sha256, write_arrays
from tasks.adapters.store import digest
from tasks.planned.rows import cached_table
from tasks.planned.trials import Inputs, check_versions

# Raised by hand when the same rows would give another map or other moments.
VERSION = 1


@dataclass(frozen=True)
class SharedMap:
    """Which map is meant; the map itself is a file that every worker reads."""

    inputs: Inputs
    gamma: float
    approximation: Approximation

    @property
    def key(self) -> str:
        """Digest of all that decides the map."""
        inputs = self.inputs
        return digest(
            {
                "version": VERSION,
                "data": inputs.table_digest,
                "scale": [inputs.scale, inputs.scale_on],
                "folds": inputs.splits.folds.model_dump(mode="json"),
                "seeds": [inputs.seed, inputs.splits.seed],
                "blas_threads": inputs.blas_threads,
                "gamma": self.gamma,
                "approximation": asdict(self.approximation),
                **inputs.versions.raised("encoder"),
            }
        )

    @property
    def path(self) -> Path:
        """Where the map is kept."""
        return self.inputs.settings.moments / f"{self.key}.map.npz"


@dataclass(frozen=True)
class StoredMap:
    """A map by the content of its file: moments of two contents must never be added."""

    shared: SharedMap
    seal: str  # sha256 of the file


def store_map(shared: SharedMap) -> StoredMap:
    """Return the map's file by content; it is made first where it is absent or damaged.

    One worker makes it: another processor can round, hence choose landmarks, differently.
    """
    check_versions((), shared.inputs)
    if read_arrays(shared.path) is None:
        write_arrays(shared.path, map_arrays(_made(shared)), compress=False)
    return StoredMap(shared, sha256(read_sealed(shared.path)))


@lru_cache(maxsize=2)
def load_map(stored: StoredMap) -> FeatureMap:
    """Return the map, read once per worker."""
    data = read_sealed(stored.shared.path)
    if sha256(data) != stored.seal:
        raise FileNotFoundError(
            f"{stored.shared.path} must stay as it was made, but another map has taken its place; "
            "run the same command again"
        )
    return map_from_arrays(open_arrays(stored.shared.path, data))


def _made(shared: SharedMap) -> FeatureMap:
    """Return the map of the reserved rows."""
    inputs = shared.inputs
    table = cached_table(inputs.settings, inputs.table_digest)
    with blas_threads(inputs.blas_threads):
        X = shared_encoder(inputs).transform(table.take(inputs.splits.reserved(table)))
        return rbf_map(X, shared.gamma, shared.approximation, inputs.seed)


@lru_cache(maxsize=2)
def shared_encoder(inputs: Inputs) -> Encoder:
    """Return the encoder of the reserved rows.

    A level that is absent there could not be told from other such levels: no landmark has it.
    """
    table = cached_table(inputs.settings, inputs.table_digest)
    rows = table if inputs.scale_on == "all" else table.take(inputs.splits.reserved(table))
    return Encoder.fit(rows, scale=inputs.scale)
