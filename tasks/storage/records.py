"""Records of fits in the store: scores, predictions, failures, and the versions in their keys.

The key of a record is `FIT-MEASUREMENT`. FIT is a digest of everything that decides the
predictions, MEASUREMENT of everything else that decides the scores (`tasks.plan.trials`). The
scores are stored by record, the predictions by fit: a changed measure needs no other fit.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.measures import REPORTED
from fkd.methods import method, methods
from fkd.problems.encoder import Encoder
from tasks.storage.backends import Stamp
from tasks.storage.environment import kernels
from tasks.storage.store import BlobStore

# Increase it if the fields of a record change. It is part of every key.
SCHEMA = 1
_SUMS = 32  # in a sketch: the standard error of a distance is about 1/8 of it


def measure_versions() -> dict[str, int]:
    """Return the versions of the reported measures of this process."""
    return {name: measure.version for name, measure in REPORTED.items()}


def shared_versions() -> dict[str, int]:
    """Return the versions of everything but methods that decides the content of a record."""
    return {**measure_versions(), "encoder": Encoder.version, "record": SCHEMA}


def code_versions() -> dict[str, int]:
    """Return the versions of everything that decides the content of a record."""
    return {**{name: declared.version for name, declared in methods().items()}, **shared_versions()}


def digest(value: Any) -> str:
    """Return the sha256 of a plain value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PredictedRows:
    """Summary of the predictions of a split's test rows."""

    rows: int
    mean: float
    std: float
    # Count sketch: each row is added to one of these sums, with a sign. The squared difference of
    # two sketches estimates the squared difference of the predictions.
    sketch: tuple[float, ...]

    @classmethod
    def from_predictions(cls, y_pred: Array) -> Self:
        """Return the summary of predictions."""
        place, sign = _sketch_places(len(y_pred))
        sums = np.bincount(place, weights=sign * y_pred, minlength=_SUMS)
        return cls(len(y_pred), float(y_pred.mean()), float(y_pred.std()), tuple(sums.tolist()))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the summary that `asdict` and JSON made plain."""
        return cls(**{**plain, "sketch": tuple(plain["sketch"])})

    @property
    def size(self) -> float:
        """The root mean square of the predictions."""
        return float(np.hypot(self.mean, self.std))

    def distance(self, other: "PredictedRows") -> float:
        """Return an estimate of the root mean square difference of two predictions.

        It is 0 for equal predictions and exact if one row differs. If many rows differ, it is
        within a quarter of the difference in 19 of 20 cases.
        """
        if self.rows != other.rows:
            raise ValueError(
                f"predictions must have the same rows, got {self.rows} and {other.rows} rows"
            )
        gaps = np.subtract(self.sketch, other.sketch)
        return float(np.sqrt(np.square(gaps).sum() / self.rows))


@lru_cache(maxsize=8)
def _sketch_places(rows: int) -> tuple[IntArray, Array]:
    """Return the sum and the sign of each row.

    They are computed from the position of the row by the splitmix64 hash, not by a generator of
    numpy: sketches made by two versions of numpy are compared.
    """
    bits = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    place = (bits % np.uint64(_SUMS)).astype(np.int64)
    return place, np.where(bits >> np.uint64(63), 1.0, -1.0)


@dataclass(frozen=True)
class TrialRecord:
    """The scores of one setting of a method on one split."""

    key: str
    method: str
    version: int
    parameters: dict[str, Any]
    strength: float
    split: str
    # By measured column: mae, mse and the reported measures. An undefined measure is left out.
    measures: dict[str, dict[str, float]]
    seconds: float
    predicted: PredictedRows = field(repr=False)
    # Packages, BLAS and memory of the fit. They are no part of the key.
    environment: dict[str, Any] = field(default_factory=dict)
    measure_versions: dict[str, int] = field(default_factory=measure_versions)


_FIELDS = {field.name for field in fields(TrialRecord)}


@dataclass(frozen=True)
class StoredFit:
    """The predictions of a fit, which can be measured again."""

    y_pred: Array
    seconds: float
    environment: dict[str, Any]


def record_name(key: str) -> str:
    """Return the name of a record's blob."""
    return f"{key[:2]}/{key}.record"


def predictions_name(key: str) -> str:
    """Return the name of the blob with the predictions of a record's fit."""
    return f"{key[:2]}/{key.partition('-')[0]}.arrays"


def failure_name(key: str) -> str:
    """Return the name of the blob with the failure of a record's fit."""
    return f"{key[:2]}/{key.partition('-')[0]}.failed"


class TrialStore:
    """Records, predictions and failures in a store.

    Records are cached. A record in a folder is read again if its file has changed, since another
    process may write it at any time. A record of an object store, or one that a worker has sent,
    is not read again: its key determines its content.
    """

    def __init__(self, store: BlobStore) -> None:
        self.store = store
        self.kernels: set[str] = set()  # BLAS kernels of the records read so far
        self._records: dict[str, tuple[Stamp | None, TrialRecord]] = {}
        self._written: dict[str, float] = {}  # times of records without a stamp

    @property
    def address(self) -> str:
        """The address of the store."""
        return self.store.backend.address

    def __contains__(self, key: str) -> bool:
        return self.read(key) is not None

    def read(self, key: str) -> TrialRecord | None:
        """Return a record, None if it is absent, damaged, or of other versions."""
        return self.read_all([key]).get(key)

    def read_all(self, keys: Iterable[str]) -> dict[str, TrialRecord]:
        """Return the records that exist, by key. Those that are not cached are read at once."""
        wanted, stamps = list(dict.fromkeys(keys)), dict[str, Stamp | None]()
        for key in wanted:
            cached = self._records.get(key)
            if cached is not None and cached[0] is None:
                continue
            try:
                stamp = self.store.stamp(record_name(key))
            except FileNotFoundError:
                self._records.pop(key, None)
                continue
            if cached is None or cached[0] != stamp:
                stamps[key] = stamp
        found = self.store.read_many(map(record_name, stamps)) if stamps else {}
        for key, stamp in stamps.items():
            self._records.pop(key, None)
            if (record := _parsed(found.get(record_name(key)))) is not None:
                self._records[key] = stamp, record
        records = {key: self._records[key][1] for key in wanted if key in self._records}
        self.kernels |= {kernels(record.environment) for record in records.values()}
        return records

    def remember(self, records: Iterable[TrialRecord]) -> None:
        """Cache records that a worker has written and sent."""
        for record in records:
            self._records[record.key] = None, record
            self._written[record.key] = time.time()

    def written_at(self, key: str) -> float:
        """Return the time at which a record was written, in seconds since 1970; 0 if unknown."""
        with suppress(FileNotFoundError):
            if (stamp := self.store.stamp(record_name(key))) is not None:
                return stamp[0] / 1e9
        if key not in self._written:
            for entry in self.store.entries(key[:2]):
                self._written[entry.name[3:].removesuffix(".record")] = entry.changed
        return self._written.get(key, 0.0)

    def write(self, record: TrialRecord, y_pred: Array | None = None) -> None:
        """Write a record, after the predictions if there are any.

        If the record exists, its predictions are complete or were not kept.
        """
        text = json.dumps(asdict(record), allow_nan=False)
        if y_pred is not None:
            self.write_predictions(record, y_pred)
        self.store.write(record_name(record.key), text.encode())

    def write_predictions(self, record: TrialRecord, y_pred: Array) -> None:
        """Write the predictions of a record's fit, in the order of the split's test rows."""
        fit = json.dumps({"seconds": record.seconds, "environment": record.environment})
        arrays: dict[str, AnyArray] = {
            "y_pred": np.asarray(y_pred, dtype=np.float64),
            "fit": np.frombuffer(fit.encode(), dtype=np.uint8),
        }
        self.store.write_arrays(predictions_name(record.key), arrays)

    def predictions(self, key: str) -> Array | None:
        """Return the predictions of a record's fit, None if they were not kept or are damaged."""
        arrays = self.store.read_arrays(predictions_name(key))
        return None if arrays is None else arrays["y_pred"]

    def has_predictions(self, key: str) -> bool:
        """Return True if the predictions of a record's fit exist. They are not verified."""
        return self.store.has(predictions_name(key))

    def read_with_fits(
        self, keys: Sequence[str]
    ) -> tuple[dict[str, TrialRecord], dict[str, StoredFit]]:
        """Return records and kept predictions by key, all read at once."""
        names = [name(key) for key in keys for name in (record_name, predictions_name)]
        data = self.store.read_many(dict.fromkeys(names))
        records, fits = {}, {}
        for key in keys:
            if (record := _parsed(data.get(record_name(key)))) is not None:
                records[key] = record
            packed = data.get(name := predictions_name(key))
            arrays = None if packed is None else self.store.unpacked(name, packed)
            if arrays is not None:
                fits[key] = StoredFit(arrays["y_pred"], **json.loads(arrays["fit"].tobytes()))
        return records, fits

    def write_failure(self, key: str, cause: str) -> None:
        """Write the cause of a failed fit."""
        self.store.write(failure_name(key), cause.encode())

    def read_failures(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the causes of failed fits by key."""
        names = {key: failure_name(key) for key in keys}
        causes = self.store.read_many(dict.fromkeys(names.values()))
        return {key: causes[name].decode() for key, name in names.items() if name in causes}

    def forget_failures(self, keys: Iterable[str]) -> set[str]:
        """Remove failures, so that the fits are tried again; return the keys that had one."""
        failed = set(self.read_failures(keys))
        for name in {failure_name(key) for key in failed}:
            self.store.remove(name)
        return failed


def _parsed(data: bytes | None) -> TrialRecord | None:
    """Return the record in a blob, None if it has other fields or was made by other versions."""
    plain = {} if data is None else json.loads(data)
    if plain.keys() != _FIELDS:
        return None
    record = TrialRecord(**{**plain, "predicted": PredictedRows.from_plain(plain["predicted"])})
    own = method(record.method).version, measure_versions()
    return record if (record.version, record.measure_versions) == own else None


class RecordWriter:
    """Writes one record while the next fit is computed. Leaving the block waits for the last one.

    At most one record is being written. A killed process therefore loses its current fit and the
    record before it. An error of the store is raised by the next `write` or at the end of the
    block; it replaces an error of the fit, because it concerns all following fits.
    """

    def __init__(self, store: TrialStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fkd-records")
        self._pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._thread:
            # KeyboardInterrupt and SystemExit take precedence over errors of the store.
            if error is None or isinstance(error, Exception):
                self._wait()

    def write(self, record: TrialRecord, y_pred: Array | None) -> None:
        """Wait for the record before, then start to write this one."""
        self._wait()
        self._pending = self._thread.submit(self._store.write, record, y_pred)

    def _wait(self) -> None:
        """Wait for the pending write and raise its error."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
