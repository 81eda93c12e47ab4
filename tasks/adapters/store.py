"""Finished trials on disk, by the digest of everything that decides their numbers."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fkd.catalog.methods import method
from fkd.core.arrays import Array
from tasks.adapters.environment import kernels
from tasks.adapters.files import (
    DamagedFileError,
    open_arrays,
    read_sealed,
    write_arrays,
    write_sealed,
)

# Of what a record consists; part of every key, so that records of two schemas never meet.
SCHEMA = 1
_SMALL = 32_768  # bytes of a record that may be held in memory


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
    y_pred: Array = field(repr=False)  # scaled predictions of the split's test rows, in order
    # What it was computed with, for the record: no part of the key, empty in older records.
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA


class _OtherRecordError(Exception):
    """A whole record, but none that this version can read."""


_KNOWN = {field.name for field in fields(TrialRecord)} - {"y_pred"}
_REQUIRED = _KNOWN - {"environment", "schema"}  # which the first records had not


class TrialStore:
    """A folder of sealed records; reading one never unpickles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernels: set[str] = set()  # those that the records read so far name

    def path(self, key: str) -> Path:
        """Return where the record of that key lies."""
        return self.folder / key[:2] / f"{key}.npz"

    def __contains__(self, key: str) -> bool:
        return self.read(key) is not None

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

    def write(self, record: TrialRecord) -> None:
        """Keep the record, whole or not at all."""
        plain = asdict(record)
        y_pred = plain.pop("y_pred")
        text = np.frombuffer(json.dumps(plain, allow_nan=False).encode(), dtype=np.uint8)
        write_arrays(self.path(record.key), {"record": text, "y_pred": y_pred})

    def read(self, key: str) -> TrialRecord | None:
        """Return the record, or None where it is absent.

        A damaged one, or one that belongs to another key, is removed. One of another schema, or of
        another version of its method, counts as absent.
        """
        path = self.path(key)
        try:
            found = path.stat()
            small = found.st_size <= _SMALL
            record = _kept(path, found.st_mtime_ns, found.st_ino) if small else _load(path)
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


def _load(path: Path) -> TrialRecord:
    """Return the record of a sealed file."""
    arrays = open_arrays(path)
    plain = json.loads(arrays["record"].tobytes())
    if plain.get("schema", 1) != SCHEMA or not _REQUIRED <= plain.keys() <= _KNOWN:
        raise _OtherRecordError(path)
    y_pred = arrays["y_pred"].astype(np.float64)
    y_pred.flags.writeable = False  # several readers may hold it
    return TrialRecord(**plain, y_pred=y_pred)


@lru_cache(maxsize=5000)
def _kept(path: Path, written: int, inode: int) -> TrialRecord:
    """Return a small record, opened once: the stages of a run read thousands again and again."""
    return _load(path)
