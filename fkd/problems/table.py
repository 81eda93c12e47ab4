"""Missing numbers of a table's inputs: what stands for them, which columns tell of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import AnyArray, Array, IntArray


def medians(columns: Array) -> Array:
    """Return the median of what is present in each column, (p,); NaN where nothing is."""
    found = [_median(column[~np.isnan(column)]) for column in columns.T]
    return np.array(found, dtype=np.float64)


def filled(columns: Array, fill: Array) -> Array:
    """Return the columns with each missing number replaced by its column's fill."""
    # No copy where nothing is missing, which is the rule.
    missing = np.isnan(columns)
    return np.where(missing, fill, columns) if missing.any() else columns


def gappy(columns: Array) -> NDArray[np.bool_]:
    """Return which columns lack a number in some rows, though not in all, (p,)."""
    missing = np.isnan(columns)
    return np.asarray(missing.any(axis=0) & ~missing.all(axis=0), dtype=np.bool_)


def check_finite(names: Sequence[str], columns: Array, gaps: Sequence[str] = ()) -> None:
    """Refuse infinity, and NaN outside the columns that may have gaps, by the column's name."""
    for name, column in zip(names, columns.T, strict=True):
        # Column by column: a mask of the whole matrix would be as large as an eighth of it.
        bad = int((np.isinf(column) if name in gaps else ~np.isfinite(column)).sum(axis=0))
        if bad:
            raise ValueError(
                f"column {name} must hold finite numbers, got {bad} missing or infinite values; "
                "drop those rows or declare what a missing value means"
            )


def _median(present: Array) -> float:
    return float(np.median(present)) if len(present) else np.nan


@dataclass(frozen=True)
class Table:
    """Inputs, target, sensitive columns of the same rows, in their raw units.

    Parameters
    ----------
    numeric_names, numeric
        Numeric inputs, (n, p).
    categorical_names, codes, levels
        Categorical inputs as codes (n, c) into the labels of each column; -1 is a missing value.
    target_name, target
        What is predicted, (n,).
    sensitive_names, sensitive
        Every column that is removed or measured, (n, l).
    target_range, sensitive_range
        Least and greatest value in the whole data set, a unit rather than a fitted quantity: a
        range fitted per fold would give the fold with one extreme income another unit.
    extra
        Columns that are never inputs: weights, groups, years.
    fills
        The number that stands for a missing value, by numeric column; others may not be missing.
    gaps
        Numeric columns in which NaN is a missing value; the encoder fills it.
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
        # One gate for every road into a table: behind it NaN is found in declared gaps alone.
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
            "numeric": (self.numeric, (self.n, len(self.numeric_names))),
            "codes": (self.codes, (self.n, len(self.categorical_names))),
            "sensitive": (self.sensitive, (self.n, len(self.sensitive_names))),
            "sensitive_range": (self.sensitive_range, (len(self.sensitive_names), 2)),
        }
        for name, (array, shape) in expected.items():
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
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
        """(target - low) / (high - low) by the fixed range, (n,)."""
        return _scale(self.target, *self.target_range)

    def S(self, names: Sequence[str] | None = None) -> Array:
        """Return the named sensitive columns by their fixed ranges, (n, l); all by default."""
        index = [self._sensitive_index(name) for name in names or self.sensitive_names]
        low, high = self.sensitive_range[index].T
        return _scale(self.sensitive[:, index], low, high)

    def _sensitive_index(self, name: str) -> int:
        if name not in self.sensitive_names:
            raise ValueError(
                f"names must be among the table's sensitive columns {list(self.sensitive_names)}, "
                f"got {name!r}"
            )
        return self.sensitive_names.index(name)

    def take(self, index: IntArray | NDArray[np.bool_] | slice) -> "Table":
        """Return the chosen rows; ranges stay those of the whole data set."""
        return replace(self, **self._taken(index))

    def _taken(self, index: IntArray | NDArray[np.bool_] | slice) -> dict[str, Any]:
        """Return the arrays of the chosen rows by field."""
        return {
            "numeric": self.numeric[index],
            "codes": self.codes[index],
            "target": self.target[index],
            "sensitive": self.sensitive[index],
            "extra": {name: column[index] for name, column in self.extra.items()},
        }

    def arrays(self) -> dict[str, AnyArray]:
        """Return the table as arrays of numbers or text, which npz keeps without pickle."""
        # Names of any length and alphabet: JSON in one text array, where numpy would pad each.
        names = {
            "numeric": self.numeric_names,
            "categorical": self.categorical_names,
            "levels": self.levels,
            "target": self.target_name,
            "sensitive": self.sensitive_names,
            "fills": dict(self.fills),
            "gaps": self.gaps,
        }
        return {
            "names": np.array(json.dumps(names)),
            "numeric": self.numeric,
            "codes": self.codes,
            "target": self.target,
            "sensitive": self.sensitive,
            "target_range": np.array(self.target_range),
            "sensitive_range": self.sensitive_range,
            **{f"extra.{name}": column for name, column in self.extra.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the table whose `arrays` these are."""
        names = json.loads(str(arrays["names"]))
        low, high = arrays["target_range"].tolist()
        return cls(
            numeric_names=tuple(names["numeric"]),
            numeric=arrays["numeric"],
            categorical_names=tuple(names["categorical"]),
            codes=arrays["codes"],
            levels=tuple(tuple(labels) for labels in names["levels"]),
            target_name=names["target"],
            target=arrays["target"],
            sensitive_names=tuple(names["sensitive"]),
            sensitive=arrays["sensitive"],
            target_range=(low, high),
            sensitive_range=arrays["sensitive_range"],
            extra={
                name.removeprefix("extra."): column
                for name, column in arrays.items()
                if name.startswith("extra.")
            },
            fills=names["fills"],
            gaps=tuple(names.get("gaps", ())),  # tables that were prepared before have none
        )


class UnreadTable(Table):
    """A table whose arrays lie on disk: rows are read, hence checked, when they are taken."""

    def __post_init__(self) -> None:
        self._check_shapes()

    def take(self, index: IntArray | NDArray[np.bool_] | slice) -> Table:
        """Return the chosen rows, read from disk."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        return Table(**{**held, **self._taken(index)})


def column_range(values: Array) -> tuple[float, float]:
    """Return the least and the greatest value of a column without missing values."""
    return float(values.min(axis=0)), float(values.max(axis=0))


def _scale(values: Array, low: float | Array, high: float | Array) -> Array:
    """(values - low) / (high - low)."""
    return (values - low) / (np.asarray(high) - low)


def _check_range(name: str, limits: Sequence[float] | Array) -> None:
    """Refuse a range that cannot be a unit."""
    # Python floats overflow to infinity without a warning, numpy's with one.
    low, high = (float(limit) for limit in limits)
    if not low < high:
        raise ValueError(f"column {name} must not be constant, got only the value {low}")
    if not np.isfinite(high - low):
        raise ValueError(f"column {name} must have a finite range, got {low} to {high}")
