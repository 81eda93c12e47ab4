"""Inputs, target and sensitive columns of the same rows, in raw units."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

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
