"""What a record says of predictions that need not be kept."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.methods import method
from tasks.storage.backends import Stamp
from tasks.storage.environment import kernels
from tasks.storage.store import SharedStore

# Signed sums in a sketch: a difference is known to an eighth of itself, or sooner.
_SUMS = 32


@dataclass(frozen=True)
class PredictedRows:
    """Predictions of one split's test rows, told in a few numbers."""

    rows: int
    mean: float
    std: float
    # Each row is added to one of these sums by a sign of its own (a count sketch): the squares of
    # the difference of two sketches add up to those of the two predictions, but for chance.
    sketch: tuple[float, ...]

    @classmethod
    def of(cls, y_pred: Array) -> Self:
        """Return what predictions are told by; all of them are looked at, a row at a time."""
        place, sign = _scattered(len(y_pred))
        sums = np.bincount(place, weights=sign * y_pred, minlength=_SUMS)
        return cls(len(y_pred), float(y_pred.mean()), float(y_pred.std()), tuple(sums.tolist()))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return what `asdict` and JSON made plain."""
        return cls(**{**plain, "sketch": tuple(plain["sketch"])})

    @property
    def size(self) -> float:
        """The predictions' root mean square."""
        return float(np.hypot(self.mean, self.std))

    def distance(self, other: "PredictedRows") -> float:
        """Return the root mean square difference of two predictions of the same rows, estimated.

        Equal predictions have none. Else the estimate is within a quarter of the difference in 19
        of 20 cases where many rows differ, and exact where one does.
        """
        if self.rows != other.rows:
            raise ValueError(
                f"predictions must be of the same rows to be compared, got {self.rows} and "
                f"{other.rows} of them"
            )
        gaps = np.subtract(self.sketch, other.sketch)
        return float(np.sqrt(np.square(gaps).sum() / self.rows))


@lru_cache(maxsize=8)
def _scattered(rows: int) -> tuple[IntArray, Array]:
    """Return to which sum each row is added, by which sign.

    By arithmetic on the row's position, not by a generator of numpy's: sketches of two versions of
    it are compared.
    """
    bits = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    place = (bits % np.uint64(_SUMS)).astype(np.int64)
    return place, np.where(bits >> np.uint64(63), 1.0, -1.0)


# Of what a record consists; part of every key, so that records of two schemas never meet.
SCHEMA = 2


def digest(value: Any) -> str:
    """Return the sha256 of a plain value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class TrialRecord:
    """What one setting of a method reached on one split."""

    key: str
    method: str
    version: int
    parameters: dict[str, Any]
    strength: float
    split: str
    # By measured column: mae, mse and the declared measures. An undefined one is left out.
    measures: dict[str, dict[str, float]]
    seconds: float
    predicted: PredictedRows = field(repr=False)  # of the test rows, whose own may not be kept
    # What it was computed with, for the record: no part of the key.
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA


class _OtherRecordError(Exception):
    """A whole record, but none that this version can read."""


_KNOWN = {field.name for field in fields(TrialRecord)}


class TrialStore:
    """Records of a store, their predictions in blobs beside; reading never unpickles.

    A record is read once for as long as its blob stays the same: another process may write one at
    any time, so that every reading looks at a file's time, never at its content again. Where only
    reading tells, or whoever wrote a record has sent it, it is not read again: its key says all
    that decides it.
    """

    def __init__(self, store: SharedStore) -> None:
        self.store = store
        self.kernels: set[str] = set()  # those that the records read so far name
        self._known: dict[str, tuple[Stamp | None, TrialRecord]] = {}
        self._written: dict[str, float] = {}  # when, where no file tells

    @property
    def address(self) -> str:
        """Where it is, for people."""
        return self.store.place.address

    def __contains__(self, key: str) -> bool:
        return self.read(key) is not None

    def has_predictions(self, key: str) -> bool:
        """Return whether predictions are there; whether they are whole, reading them tells."""
        return self.store.has(predictions_name(key))

    def write_failure(self, key: str, cause: str) -> None:
        """Keep why a trial gave no numbers."""
        self.store.write(failure_name(key), f"{key}\n{cause}".encode())

    def read_failure(self, key: str) -> str | None:
        """Return why a trial gave no numbers, None where it did not fail."""
        return self.read_failures([key]).get(key)

    def read_failures(self, keys: Iterable[str]) -> dict[str, str]:
        """Return by key why trials gave no numbers, of those that failed."""
        names = {failure_name(key): key for key in keys}
        found = {}
        for name, data in self.store.read_many(names).items():
            written, _, cause = data.decode().partition("\n")
            if written == names[name]:
                found[written] = cause
        return found

    def forget_failures(self, keys: Iterable[str]) -> set[str]:
        """Let trials be tried again; return the keys of those that had failed."""
        return {key for key in self.read_failures(keys) if self.store.remove(failure_name(key))}

    def write(self, record: TrialRecord, y_pred: Array | None = None) -> None:
        """Keep the record, whole or not at all, after the predictions that are to be kept.

        Whoever sees a record hence sees its predictions, or they were not kept.
        """
        text = json.dumps(asdict(record), allow_nan=False)
        if y_pred is not None:
            self.write_predictions(record.key, y_pred)
        self.store.write(record_name(record.key), text.encode())

    def write_predictions(self, key: str, y_pred: Array) -> None:
        """Keep predictions of the split's test rows, scaled as they are, in order."""
        arrays = {"key": np.array(key), "y_pred": np.asarray(y_pred, dtype=np.float64)}
        # Not compressed: they hardly shrink, and packing a million takes longer than measuring.
        self.store.write_arrays(predictions_name(key), arrays, compress=False)

    def hear(self, records: Iterable[TrialRecord]) -> None:
        """Know records that whoever has just written them sends: they need not be read."""
        for record in records:
            self._known[record.key] = None, record
            self._written[record.key] = time.time()

    def written(self, key: str) -> float:
        """Return when a record was written, in seconds since 1970; 0 where that is not known."""
        with suppress(FileNotFoundError):
            if (stamp := self.store.stamp(record_name(key))) is not None:
                return stamp[0] / 1e9
        if key not in self._written:
            listed = self.store.entries(key[:2])
            self._written |= {entry.name[3:].partition(".")[0]: entry.changed for entry in listed}
        return self._written.get(key, 0.0)

    def read(self, key: str) -> TrialRecord | None:
        """Return the record, or None where it is absent.

        A damaged one, or one that belongs to another key, is removed. One of another schema, or of
        another version of its method, counts as absent.
        """
        return self.read_all([key]).get(key)

    def read_all(self, keys: Iterable[str]) -> dict[str, TrialRecord]:
        """Return the records that are there, by key; those to be read are asked for at once."""
        wanted, stamps = list(dict.fromkeys(keys)), dict[str, Stamp | None]()
        for key in wanted:
            known = self._known.get(key)
            if known is not None and known[0] is None:
                continue
            try:
                stamp = self.store.stamp(record_name(key))
            except FileNotFoundError:
                self._known.pop(key, None)
                continue
            if known is None or known[0] != stamp:
                stamps[key] = stamp
        if stamps:
            self._read(stamps)
        found = {key: self._known[key][1] for key in wanted if key in self._known}
        # The key holds the version that was asked for, the record that of the code which made it.
        own = {k: r for k, r in found.items() if r.version == method(r.method).version}
        self.kernels |= {kernels(record.environment) for record in own.values()}
        return own

    def _read(self, stamps: Mapping[str, Stamp | None]) -> None:
        """Read records anew; what is damaged or another's is not known any more."""
        told = self.store.read_many(record_name(key) for key in stamps)
        for key, stamp in stamps.items():
            self._known.pop(key, None)
            data = told.get(record_name(key))
            if data is None:
                continue
            try:
                record = _parsed(data)
            except _OtherRecordError:
                continue
            if record.key != key:
                self.store.remove(record_name(key))
                continue
            self._known[key] = stamp, record

    def predictions(self, key: str) -> Array | None:
        """Return the predictions of a trial, None where none were kept.

        Damaged ones, or those that belong to another key, are removed.
        """
        arrays = self.store.read_arrays(predictions_name(key))
        if arrays is None:
            return None
        if str(arrays.get("key")) != key:
            self.store.remove(predictions_name(key))
            return None
        return np.asarray(arrays["y_pred"], dtype=np.float64)


def record_name(key: str) -> str:
    """Return as what the record of a key is kept."""
    return f"{key[:2]}/{key}.record"


def predictions_name(key: str) -> str:
    """Return as what the predictions of a key are kept, if they are."""
    return f"{key[:2]}/{key}.npz"


def failure_name(key: str) -> str:
    """Return as what is kept why a key gave no numbers."""
    return f"{key[:2]}/{key}.failed"


def _parsed(data: bytes) -> TrialRecord:
    """Return the record that a blob holds."""
    plain = json.loads(data)
    if plain.get("schema") != SCHEMA or plain.keys() != _KNOWN:
        raise _OtherRecordError
    return TrialRecord(**{**plain, "predicted": PredictedRows.from_plain(plain["predicted"])})


class RecordWriter:
    """Writes one record at a time beside whoever makes the next; leaving it waits for the last.

    One is on its way at most: a process that is killed loses what it computes, with no more than
    the record before. A store that takes nothing is told by the next record, or by leaving; where
    a fit has failed too, the store's fault counts, which concerns every fit to come.
    """

    def __init__(self, store: TrialStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fkd-records")
        self._sent: Future[None] | None = None

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Also where a fit has failed: what was computed before it is kept.
        with self._thread:
            try:
                self._wait()
            except Exception:
                if error is None or isinstance(error, Exception):
                    raise  # else the process is to end, whatever the store says

    def write(self, record: TrialRecord, y_pred: Array | None) -> None:
        """Begin to keep a record, after the one before has come to its place."""
        self._wait()
        self._sent = self._thread.submit(self._store.write, record, y_pred)

    def _wait(self) -> None:
        """Raise what writing has met."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.result()
