"""The encoder: one-hot levels and scaled numbers of a table as a numeric matrix X."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy.sparse import csr_array

from fkd.core.arrays import AnyArray, Array, IntArray, Rows
from fkd.core.validation import choice
from fkd.problems.table import MISSING, Table, factorize_labels, pack_fields, unpack_fields

if TYPE_CHECKING:
    import pandas as pd

Scale = Literal["minmax", "none", "zscore"]

# X is sparse if its columns are at least this many times the entries of a row.
_SPARSE = 8


@dataclass(frozen=True)
class Encoder:
    """Scales and one-hot levels of the input columns, learned from training rows.

    A numeric column becomes (x - offset) / span, a categorical column one indicator per level.
    Columns that are constant in training are left out.

    Parameters
    ----------
    numeric_names, offset, span
        Numeric columns with their scaling, (p,) each.
    fill
        The number that replaces a missing value, (p,). NaN: a missing value is an error.
    categorical_names, levels
        Labels with a column of their own, in order. `MISSING` is a label as any other.
    indicators
        Positions in `numeric_names` of columns with missing values in training. Each has a column
        that is 1 if the value is missing.
    """

    numeric_names: tuple[str, ...]
    offset: Array
    span: Array
    fill: Array
    categorical_names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    indicators: tuple[int, ...] = ()

    # Part of the key of every fit. Increase it if the same rows are encoded as another matrix.
    version: ClassVar[int] = 1

    @classmethod
    def fit(cls, table: Table, *, scale: Scale) -> Self:
        """Return the encoder of training rows.

        Parameters
        ----------
        table
            Rows from which levels, scales and fills are learned.
        scale
            "minmax": to [0, 1]. "zscore": to mean 0 and standard deviation 1. "none": not scaled.
        """
        choice("scale", scale, get_args(Scale))
        names, columns = table.numeric_names, table.numeric
        fill = np.array([table.fills.get(name, np.nan) for name in names])
        indicated: AnyArray = np.zeros(len(names), dtype=bool)
        if table.gaps:
            missing = np.isnan(columns)
            indicated = np.asarray(missing.any(axis=0) & ~missing.all(axis=0))
            for j in map(names.index, table.gaps):
                present = columns[~missing[:, j], j]
                fill[j] = np.median(present) if len(present) else np.nan
            columns = np.where(missing, np.nan_to_num(fill), columns)
        low, high = columns.min(axis=0), columns.max(axis=0)
        with np.errstate(over="ignore"):
            wide = np.flatnonzero(~np.isfinite(high - low))
        if len(wide):
            raise ValueError(
                f"column {names[wide[0]]} must have a finite range to be scaled, its range "
                "overflows"
            )
        # A column that is constant apart from missing values is kept for its indicator.
        kept = (low < high) | indicated
        offset, span = _scaling(columns[:, kept], low[kept], high[kept], scale)
        levels = {}
        for name, codes, labels in zip(
            table.categorical_names, table.codes.T, table.levels, strict=True
        ):
            present = np.unique(codes)
            seen = [labels[code] for code in present if code >= 0]
            seen += [MISSING] if present[0] < 0 else []
            if len(seen) > 1:
                levels[name] = tuple(seen)
        if not kept.any() and not levels:
            raise ValueError("a table must have an input that varies, got only constant columns")
        return cls(
            numeric_names=tuple(name for name, keep in zip(names, kept, strict=True) if keep),
            offset=offset,
            span=span,
            fill=fill[kept],
            categorical_names=tuple(levels),
            levels=tuple(levels.values()),
            indicators=tuple(np.flatnonzero(indicated[kept]).tolist()),
        )

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Raw columns that rows to encode must have, numeric ones first."""
        return self.numeric_names + self.categorical_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X: COLUMN, COLUMN=missing, COLUMN=LABEL."""
        indicators = tuple(f"{self.numeric_names[j]}=missing" for j in self.indicators)
        levels = tuple(
            f"{name}={label or 'missing'}"
            for name, labels in zip(self.categorical_names, self.levels, strict=True)
            for label in labels
        )
        return self.numeric_names + indicators + levels

    def transform(self, table: Table) -> Array:
        """Return X, (n, d). A label that is not a level gives zeros."""
        return self._dense(*self._parts(table))

    def rows(self, table: Table) -> Rows:
        """Return X as `transform` does, as sparse rows if most of it is zeros."""
        entries = len(self.numeric_names) + len(self.indicators) + len(self.levels)
        if entries * _SPARSE > len(self.feature_names):
            return self.transform(table)
        return self._sparse(*self._parts(table))

    def transform_frame(self, frame: "pd.DataFrame") -> Array:
        """Return X of raw values, as they are sent to a served model.

        Parameters
        ----------
        frame
            Rows with at least `input_columns`. 1, 1.0 and "1" are the same label. None and NaN are
            missing values.
        """
        _positions(self.input_columns, tuple(frame.columns), "frame")
        numeric = np.empty((len(frame), len(self.numeric_names)))
        for j, name in enumerate(self.numeric_names):
            numeric[:, j] = _numbers(frame[name], name, required=bool(np.isnan(self.fill[j])))
        codes = []
        for name, levels in zip(self.categorical_names, self.levels, strict=True):
            found, labels = factorize_labels(frame[name])
            codes.append(_recode(found, labels, levels))
        return self._dense(numeric, codes)

    def _parts(self, table: Table) -> tuple[Array, list[IntArray]]:
        """Return raw numbers and, for each categorical column, positions in its levels."""
        numeric = table.numeric[:, _positions(self.numeric_names, table.numeric_names, "table")]
        places = _positions(self.categorical_names, table.categorical_names, "table")
        return numeric, [
            _recode(table.codes[:, place], table.levels[place], levels)
            for place, levels in zip(places, self.levels, strict=True)
        ]

    def _dense(self, numeric: Array, codes: list[IntArray]) -> Array:
        X = np.zeros((len(numeric), len(self.feature_names)))
        start = self._write_numbers(numeric, X)
        for column, levels in zip(codes, self.levels, strict=True):
            known = np.flatnonzero(column >= 0)
            X[known, start + column[known]] = 1.0
            start += len(levels)
        return X

    def _sparse(self, numeric: Array, codes: list[IntArray]) -> csr_array:
        # Every row has one entry per number, indicator and categorical column.
        n, entries = len(numeric), len(self.numeric_names) + len(self.indicators) + len(codes)
        values, places = np.empty((n, entries)), np.empty((n, entries), dtype=np.int32)
        start = self._write_numbers(numeric, values)
        places[:, :start] = np.arange(start)
        for j, (column, levels) in enumerate(zip(codes, self.levels, strict=True), start):
            # The entry of an unknown label is an explicit zero.
            values[:, j] = column >= 0
            places[:, j] = start + np.maximum(column, 0)
            start += len(levels)
        ends = np.arange(n + 1, dtype=np.int32) * entries
        return csr_array((values.ravel(), places.ravel(), ends), shape=(n, start))

    def _write_numbers(self, numeric: Array, out: Array) -> int:
        """Write scaled numbers and indicators into the first columns; return their number."""
        missing, p = np.isnan(numeric), len(self.numeric_names)
        # Usually nothing is missing, and no copy is needed.
        filled = np.where(missing, self.fill, numeric) if missing.any() else numeric
        out[:, :p] = (filled - self.offset) / self.span
        width = p + len(self.indicators)
        out[:, p:width] = missing[:, list(self.indicators)]
        return width

    def arrays(self) -> dict[str, AnyArray]:
        """Return the encoder as arrays of numbers and text, for npz files without pickle."""
        return pack_fields(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the encoder that `arrays` stored."""
        return cls(**unpack_fields(arrays))


def _scaling(columns: Array, low: Array, high: Array, scale: Scale) -> tuple[Array, Array]:
    """Return offset and span of columns. A constant column has span 1."""
    if scale == "none":
        return np.zeros_like(low), np.ones_like(low)
    width = np.where(low < high, high - low, 1.0)
    if scale == "minmax":
        return low, width
    # Relative to the range: squares of 1e300 would overflow.
    unit = (columns - low) / width
    return low + unit.mean(axis=0) * width, np.where(low < high, unit.std(axis=0), 1.0) * width


def _recode(codes: IntArray, labels: Sequence[str], levels: Sequence[str]) -> IntArray:
    """Return the position in `levels` of each row's label, -1 for a label that is not there."""
    # By label, because another table may use other codes. The code -1 takes the last entry.
    position = {label: place for place, label in enumerate(levels)}
    lookup = np.array([position.get(label, -1) for label in (*labels, MISSING)], dtype=np.int64)
    return lookup[codes]


def _numbers(column: "pd.Series[Any]", name: str, *, required: bool) -> Array:
    """Return raw values, which may be numbers as text, as floats."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name} must hold numbers, {error}") from error
    bad = int((~np.isfinite(numbers) if required else np.isinf(numbers)).sum(axis=0))
    if bad:
        raise ValueError(f"column {name} must hold finite numbers, got {bad} missing or infinite")
    return numbers


def _positions(wanted: tuple[str, ...], names: tuple[str, ...], owner: str) -> list[int]:
    """Return the positions of columns in a table or a frame."""
    if absent := [name for name in wanted if name not in names]:
        raise ValueError(f"{owner} must have the columns {list(wanted)}, missing are {absent}")
    return [names.index(name) for name in wanted]
