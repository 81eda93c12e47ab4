"""Finished trials on disk, by the digest of everything that decides their numbers."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fkd.catalog.methods import method
from fkd.core.arrays import Array
from tasks.adapters.environment import kernels
from tasks.adapters.files import (
    DamagedFileError,
    Stamp,
    open_arrays,
    read_sealed,
    stamp_of,
    write_arrays,
    write_sealed,
)
from tasks.adapters.predicted import PredictedRows

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
    measures: dict[str, dict[str, float]]  # by measured column: mae, mse, hgr, gdp, gdp_plugin, pf
    seconds: float
    predicted: PredictedRows = field(repr=False)  # of the test rows, whose own may not be kept
    # What it was computed with, for the record: no part of the key.
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA


class _OtherRecordError(Exception):
    """A whole record, but none that this version can read."""


_KNOWN = {field.name for field in fields(TrialRecord)}


class TrialStore:
    """A folder of sealed records, their predictions in files beside; reading never unpickles.

    A record is read once for as long as its file stays the same: another process may write one at
    any time, so that every reading looks at the file's time, never at its content again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernels: set[str] = set()  # those that the records read so far name
        self._known: dict[str, tuple[Stamp | None, TrialRecord]] = {}

    def path(self, key: str) -> Path:
        """Return where the record of that key lies."""
        return self.folder / key[:2] / f"{key}.record"

    def predictions_path(self, key: str) -> Path:
        """Return where the predictions of that key lie, if they were kept."""
        return self.folder / key[:2] / f"{key}.npz"

    def __contains__(self, key: str) -> bool:
        return self.read(key) is not None

    def has_predictions(self, key: str) -> bool:
        """Return whether predictions lie there; whether they are whole, reading them tells."""
        return self.predictions_path(key).is_file()

    def write_failure(self, key: str, cause: str) -> None:
        """Keep why a trial gave no numbers."""
        write_sealed(self._failure(key), f"{key}\n{cause}".encode())

    def read_failure(self, key: str) -> str | None:
        """Return why a trial gave no numbers, None where it did not fail."""
        try:
            written, _, cause = read_sealed(self._failure(key)).decode().partition("\n")
        except (FileNotFoundError, DamagedFileError):
            return None
        return cause if written == key else None

    def forget_failure(self, key: str) -> bool:
        """Let a trial be tried again; return whether it had failed."""
        try:
            self._failure(key).unlink()
        except FileNotFoundError:
            return False
        return True

    def _failure(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.failed"

    def write(self, record: TrialRecord, y_pred: Array | None = None) -> None:
        """Keep the record, whole or not at all, after the predictions that are to be kept.

        Whoever sees a record hence sees its predictions, or they were not kept.
        """
        text = json.dumps(asdict(record), allow_nan=False)
        if y_pred is not None:
            self.write_predictions(record.key, y_pred)
        write_sealed(self.path(record.key), text.encode())

    def write_predictions(self, key: str, y_pred: Array) -> None:
        """Keep predictions of the split's test rows, scaled as they are, in order."""
        arrays = {"key": np.array(key), "y_pred": np.asarray(y_pred, dtype=np.float64)}
        # Not compressed: they hardly shrink, and packing a million takes longer than measuring.
        write_arrays(self.predictions_path(key), arrays, compress=False)

    def read(self, key: str) -> TrialRecord | None:
        """Return the record, or None where it is absent.

        A damaged one, or one that belongs to another key, is removed. One of another schema, or of
        another version of its method, counts as absent.
        """
        path = self.path(key)
        try:
            record = self._opened(key, path)
            if record.key != key:
                raise DamagedFileError(f"{path} holds the record of {record.key}")
        except (FileNotFoundError, _OtherRecordError):
            return None
        except DamagedFileError:
            path.unlink(missing_ok=True)
            return None
        # The key holds the version that was asked for, the record that of the code which made it.
        if record.version != method(record.method).version:
            return None
        self.kernels.add(kernels(record.environment))
        return record

    def _opened(self, key: str, path: Path) -> TrialRecord:
        """Return the record of a file, from memory if the file is the one that was read."""
        stamp, known = stamp_of(path), self._known.get(key)
        if known is None or known[0] != stamp:
            known = self._known[key] = stamp, _parsed(read_sealed(path), path)
        return known[1]

    def predictions(self, key: str) -> Array | None:
        """Return the predictions of a trial, None where none were kept.

        Damaged ones, or those that belong to another key, are removed.
        """
        path = self.predictions_path(key)
        try:
            arrays = open_arrays(path)
            if str(arrays.get("key")) != key:
                raise DamagedFileError(f"{path} holds the predictions of {arrays.get('key')}")
        except FileNotFoundError:
            return None
        except DamagedFileError:
            path.unlink(missing_ok=True)
            return None
        return np.asarray(arrays["y_pred"], dtype=np.float64)


def _parsed(data: bytes, path: Path) -> TrialRecord:
    """Return the record that a sealed file holds."""
    plain = json.loads(data)
    if plain.get("schema") != SCHEMA or plain.keys() != _KNOWN:
        raise _OtherRecordError(path)
    return TrialRecord(**{**plain, "predicted": PredictedRows.from_plain(plain["predicted"])})
