"""Inputs, target and sensitive columns of the same rows, in raw units, and category labels."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import AnyArray, Array, IntArray


@dataclass(frozen=True)
class Table:
    """Inputs, target and sensitive columns of the same rows, in raw units.

    All numbers are finite, except for NaN in the columns named by `gaps`.

    Parameters
    ----------
    numeric_names, numeric
        Numeric inputs, (n, p).
    categorical_names, codes, levels
        Categorical inputs as codes (n, c) into the labels of each column. The code -1 is a missing
        value.
    target_name, target
        The column to predict, (n,).
    sensitive_names, sensitive
        Columns that are removed or measured, (n, l).
    target_range, sensitive_range
        Smallest and largest value in the whole data set. They are units and not fitted: a range
        fitted per fold would give the fold with one extreme income another unit.
    extra
        Columns that are never inputs: weights, groups, years.
    fills
        The number that replaces a missing value in rows to predict, by numeric column.
    gaps
        Numeric columns that may contain NaN. The encoder replaces it.
    """

    numeric_names: tuple[str, ...]
    numeric: Array
    categorical_names: tuple[str, ...]
    codes: IntArray
    levels: tuple[tuple[str, ...], ...]
    target_name: str
    target: Array
    sensitive_names: tuple[str, ...]
    sensitive: Array
    target_range: tuple[float, float]
    sensitive_range: Array
    extra: Mapping[str, AnyArray] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.target):
            raise ValueError(f"a table must have rows, got none for target {self.target_name}")
        self._check_shapes()
        check_finite(self.numeric_names, self.numeric, self.gaps)
        check_finite((self.target_name,), self.target[:, None])
        check_finite(self.sensitive_names, self.sensitive)
        _check_range(self.target_name, self.target_range)
        for name, limits in zip(self.sensitive_names, self.sensitive_range, strict=True):
            _check_range(name, limits)

    def _check_shapes(self) -> None:
        expected = {
            "numeric": (self.n, len(self.numeric_names)),
            "codes": (self.n, len(self.categorical_names)),
            "sensitive": (self.n, len(self.sensitive_names)),
            "sensitive_range": (len(self.sensitive_names), 2),
        }
        for name, shape in expected.items():
            if (found := getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must have shape {shape}, got {found}")
        if len(self.levels) != len(self.categorical_names):
            raise ValueError(
                f"levels must have one tuple per categorical column "
                f"({len(self.categorical_names)}), got {len(self.levels)}"
            )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.target)

    @property
    def y(self) -> Array:
        """The target scaled by its range, (target - low) / (high - low), (n,)."""
        low, high = self.target_range
        return (self.target - low) / (high - low)

    def S(self, names: Sequence[str] | None = None) -> Array:
        """Return the named sensitive columns, or all of them, scaled by their ranges, (n, l)."""
        names = names or self.sensitive_names
        if unknown := [name for name in names if name not in self.sensitive_names]:
            raise ValueError(
                f"names must be among the table's sensitive columns {list(self.sensitive_names)}, "
                f"got {unknown[0]!r}"
            )
        index = [self.sensitive_names.index(name) for name in names]
        low, high = self.sensitive_range[index].T
        return np.asarray((self.sensitive[:, index] - low) / (high - low))

    def take(self, index: IntArray | NDArray[np.bool_] | slice) -> "Table":
        """Return a table of the selected rows. The ranges stay those of the whole data set."""
        rows = {
            "numeric": self.numeric[index],
            "codes": self.codes[index],
            "target": self.target[index],
            "sensitive": self.sensitive[index],
            "extra": {name: column[index] for name, column in self.extra.items()},
        }
        return Table(**{**vars(self), **rows})

    def arrays(self) -> dict[str, AnyArray]:
        """Return the table as arrays of numbers and text, for npz files without pickle."""
        extra = {f"extra.{name}": column for name, column in self.extra.items()}
        return {**pack_fields({**vars(self), "extra": None}), **extra}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the table that `arrays` stored."""
        fields = unpack_fields(arrays)
        columns = [name for name in fields if name.startswith("extra.")]
        extra = {name.removeprefix("extra."): fields.pop(name) for name in columns}
        return cls(**{**fields, "extra": extra})


class MappedTable(Table):
    """A table of memory-mapped arrays. Rows are read and checked when they are taken."""

    def __post_init__(self) -> None:
        self._check_shapes()


def pack_fields(fields: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Return arrays as they are, and all other values as JSON in the array `fields`."""
    # JSON and not arrays of text, which are padded to the longest text and cannot be nested.
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in fields.items() if name not in arrays}
    return {"fields": np.array(json.dumps(others)), **arrays}


def unpack_fields(arrays: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the fields that `pack_fields` stored, lists as tuples."""
    others = json.loads(str(arrays["fields"]))
    fields = {name: _as_tuple(value) for name, value in others.items()}
    return {**fields, **{name: array for name, array in arrays.items() if name != "fields"}}


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def check_finite(names: Sequence[str], columns: Array, gaps: Sequence[str] = ()) -> None:
    """Raise ValueError on infinite values, and on NaN in columns that are not in `gaps`."""
    for name, column in zip(names, columns.T, strict=True):
        # Column by column: a mask of the whole matrix would take an eighth of its memory.
        bad = int((np.isinf(column) if name in gaps else ~np.isfinite(column)).sum(axis=0))
        if bad:
            raise ValueError(
                f"column {name} must hold finite numbers, got {bad} missing or infinite values; "
                "drop those rows or declare what a missing value means"
            )


def _check_range(name: str, limits: Sequence[float] | Array) -> None:
    # Python floats overflow to infinity without a warning, unlike numpy's.
    low, high = (float(limit) for limit in limits)
    if not low < high:
        raise ValueError(f"column {name} must not be constant, got only the value {low}")
    if not np.isfinite(high - low):
        raise ValueError(f"column {name} must have a finite range, got {low} to {high}")


if TYPE_CHECKING:
    import pandas as pd

# The label of a missing value.
MISSING = ""
# Optional sign, leading zeros, digits, a fraction of zeros: an integer in any spelling.
_INTEGER = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")


def canonical_label(value: object) -> str:
    """Return the label of a raw value: "1" for 1, 1.0, "1" and "01", "" for a missing value.

    Census files pad codes with zeros, readers turn them into integers, or into floats if a value is
    missing, and JSON into any of these. All spellings must give the same label.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    return _spelling(str(value))


@lru_cache(maxsize=2**16)
def _spelling(raw: str) -> str:
    text = raw.strip()
    if match := _INTEGER.fullmatch(text):
        sign, digits = match.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text.lower() if text.lower() in ("true", "false") else text


def factorize_labels(column: "pd.Series[Any]") -> tuple[IntArray, tuple[str, ...]]:
    """Return codes, -1 for missing, and the sorted labels of a raw column."""
    import pandas as pd

    # Once per distinct value, not once per row.
    places, values = pd.factorize(column, use_na_sentinel=True)
    return encode_labels(places, [canonical_label(value) for value in values])


def encode_labels(places: IntArray, labels: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return codes, -1 for missing, and the sorted distinct labels.

    Parameters
    ----------
    places
        Position in `labels` of each row, -1 for missing.
    labels
        Canonical labels. They may repeat; `MISSING` gets the code -1.
    """
    distinct = sorted(set(labels) - {MISSING}, key=_order)
    position = {label: place for place, label in enumerate(distinct)}
    # The last entry is the code of places that are -1.
    lookup = np.array([position.get(label, -1) for label in [*labels, MISSING]], dtype=np.int32)
    return lookup[places], tuple(distinct)


@lru_cache(maxsize=2**16)
def _order(label: str) -> tuple[bool, float, str]:
    """Return the sort key of a label: integers by value, then other text."""
    integer = _INTEGER.fullmatch(label) is not None
    return (not integer, float(label) if integer else 0.0, label)
