"""The numeric matrix X of a table, by what training rows teach of levels, scales."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fkd.core.arrays import Array, IntArray, Rows
from fkd.problems.labels import MISSING, labels_of, numbers_of
from fkd.problems.table import Table, filled, gappy, medians

if TYPE_CHECKING:
    import pandas as pd

Scale = Literal["minmax", "none", "zscore"]

# Raised by hand when the same rows would be encoded as another matrix: stored trials of the old
# version are then computed again.
VERSION = 1
# Zeros to one entry from which on a row is worth keeping sparse.
_SPARSE = 8


@dataclass(frozen=True)
class Encoder:
    """One-hot levels, offsets, spans of the input columns that vary in training.

    Parameters
    ----------
    numeric_names, offset, span
        x becomes (x - offset) / span, each (p,).
    fill
        What a missing number counts as, (p,); NaN where a value is required.
    marked
        Positions among the numeric columns of those that were missing in some training rows: a
        column of their own tells in which rows they are.
    categorical_names, levels
        The labels that got a column of their own, in order; `MISSING` is a label like any other.
    """

    numeric_names: tuple[str, ...]
    offset: Array
    span: Array
    fill: Array
    categorical_names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    marked: tuple[int, ...] = ()

    @classmethod
    def fit(cls, table: Table, *, scale: Scale) -> Self:
        """Return the encoder of these (training) rows.

        Parameters
        ----------
        table
            Rows from which levels and scales are learnt.
        scale
            "minmax" to [0, 1], "zscore" to mean 0 with deviation 1, "none" to leave numbers alone.
        """
        if scale not in ("minmax", "none", "zscore"):
            raise ValueError(f"scale must be 'minmax', 'none' or 'zscore', got {scale!r}")
        # A column's gaps are filled from these rows alone, like everything that is learnt here.
        fill = _fills(table)
        columns = filled(table.numeric, np.nan_to_num(fill)) if table.gaps else table.numeric
        low, high = _limits(columns, table.numeric_names)
        # A column that is constant in training says nothing, unless by its gaps.
        marks = gappy(table.numeric) if table.gaps else np.zeros(len(low), dtype=bool)
        vary = (low < high) | marks
        offset, span = _affine(columns[:, vary], scale)
        seen = {
            name: _seen(codes, labels)
            for name, codes, labels in zip(
                table.categorical_names, table.codes.T, table.levels, strict=True
            )
        }
        kept = {name: labels for name, labels in seen.items() if len(labels) > 1}
        numeric = tuple(name for name, keep in zip(table.numeric_names, vary, strict=True) if keep)
        if not numeric and not kept:
            raise ValueError("a table must have an input that varies, got only constant columns")
        marked = tuple(np.flatnonzero(marks[vary]).tolist())
        return cls(numeric, offset, span, fill[vary], tuple(kept), tuple(kept.values()), marked)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Raw columns that a caller must bring, numeric ones first."""
        return self.numeric_names + self.categorical_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per column of X, a level as COLUMN=LABEL, a gap as COLUMN=missing."""
        gaps = tuple(f"{self.numeric_names[place]}=missing" for place in self.marked)
        levels = tuple(
            f"{name}={label or 'missing'}"
            for name, labels in zip(self.categorical_names, self.levels, strict=True)
            for label in labels
        )
        return self.numeric_names + gaps + levels

    def transform(self, table: Table) -> Array:
        """Return X, (n, d); a level that was not seen in training is a row of zeros."""
        return self._assemble(*self._parts(table))

    def rows(self, table: Table) -> Rows:
        """Return X of `transform`, as sparse rows where most of it is zeros."""
        entries = len(self.numeric_names) + len(self.marked) + len(self.categorical_names)
        if entries * _SPARSE > len(self.feature_names):
            return self.transform(table)
        return self._assemble_sparse(*self._parts(table))

    def _parts(self, table: Table) -> tuple[Array, list[IntArray]]:
        """Return raw numbers, for each categorical column the positions of its labels."""
        numeric = table.numeric[:, _positions(self.numeric_names, table.numeric_names)]
        places = _positions(self.categorical_names, table.categorical_names)
        # Code -1 (missing) indexes the last entry of the lookup, hence the order of the labels.
        lookups = [
            _lookup(labels, (*table.levels[place], MISSING))
            for place, labels in zip(places, self.levels, strict=True)
        ]
        columns = [
            lookup[table.codes[:, place]] for place, lookup in zip(places, lookups, strict=True)
        ]
        return numeric, columns

    def transform_frame(self, frame: "pd.DataFrame") -> Array:
        """Return X of raw values by column name, as they come to a served model.

        Parameters
        ----------
        frame
            At least `input_columns`; 1, 1.0, "1" are the same label, None or NaN is missing.
        """
        absent = [name for name in self.input_columns if name not in frame.columns]
        if absent:
            raise ValueError(
                f"frame must have the columns {list(self.input_columns)}, missing are {absent}"
            )
        numeric = np.empty((len(frame), len(self.numeric_names)))
        for place, (name, fill) in enumerate(zip(self.numeric_names, self.fill, strict=True)):
            may_lack = not np.isnan(fill)
            numeric[:, place] = numbers_of(frame[name], name=name, may_lack=may_lack)
        columns = []
        for name, labels in zip(self.categorical_names, self.levels, strict=True):
            codes, found = labels_of(frame[name])
            columns.append(_lookup(labels, (*found, MISSING))[codes])
        return self._assemble(numeric, columns)

    def _assemble(self, numeric: Array, columns: list[IntArray]) -> Array:
        """Put scaled numbers beside marks of their gaps, one block per categorical column."""
        X = np.zeros((len(numeric), len(self.feature_names)))
        p, start = len(self.numeric_names), len(self.numeric_names) + len(self.marked)
        X[:, :p] = (filled(numeric, self.fill) - self.offset) / self.span
        X[:, p:start] = np.isnan(numeric[:, list(self.marked)])
        for positions, labels in zip(columns, self.levels, strict=True):
            # Unseen labels have position -1: their rows stay zero in this block.
            rows = np.flatnonzero(positions >= 0)
            X[rows, start + positions[rows]] = 1.0
            start += len(labels)
        return X

    def _assemble_sparse(self, numeric: Array, columns: list[IntArray]) -> csr_array:
        """Return the same without the zeros: as many entries in every row as it has columns."""
        n, p, marked = len(numeric), len(self.numeric_names), len(self.marked)
        values = np.ones((n, p + marked + len(columns)))
        places = np.empty(values.shape, dtype=np.int32)
        values[:, :p] = (filled(numeric, self.fill) - self.offset) / self.span
        values[:, p : p + marked] = np.isnan(numeric[:, list(self.marked)])
        places[:, : p + marked] = np.arange(p + marked)
        start = p + marked
        for j, (positions, labels) in enumerate(zip(columns, self.levels, strict=True), p + marked):
            # Unseen labels have position -1: what stands at their place is a zero.
            values[:, j] = positions >= 0
            places[:, j] = start + np.maximum(positions, 0)
            start += len(labels)
        ends = np.arange(n + 1, dtype=np.int32) * values.shape[1]
        return csr_array((values.ravel(), places.ravel(), ends), shape=(n, start))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the encoder as arrays of numbers or text, which npz keeps without pickle."""
        # Without gaps the file is what it was before there were any.
        marked = {"marked": np.array(self.marked, dtype=np.int64)} if self.marked else {}
        return {
            "numeric_names": np.array(self.numeric_names, dtype=np.str_),
            "offset": self.offset,
            "span": self.span,
            "fill": self.fill,
            "categorical_names": np.array(self.categorical_names, dtype=np.str_),
            "level_counts": np.array([len(labels) for labels in self.levels], dtype=np.int64),
            "levels": np.array([label for row in self.levels for label in row], dtype=np.str_),
            **marked,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the encoder whose `arrays` these are."""
        # Levels of all columns lie in one array: npz has no ragged ones without pickle.
        ends = np.cumsum(arrays["level_counts"], axis=0)
        pieces = np.split(arrays["levels"], ends[:-1]) if len(ends) else []
        return cls(
            tuple(arrays["numeric_names"].tolist()),
            arrays["offset"],
            arrays["span"],
            arrays["fill"],
            tuple(arrays["categorical_names"].tolist()),
            tuple(tuple(piece.tolist()) for piece in pieces),
            tuple(arrays["marked"].tolist()) if "marked" in arrays else (),
        )


def _fills(table: Table) -> Array:
    """Return what a served row's missing number counts as, NaN where the row must bring it."""
    found = np.array([table.fills.get(name, np.nan) for name in table.numeric_names])
    places = [table.numeric_names.index(name) for name in table.gaps]
    found[places] = medians(table.numeric[:, places])
    return found


def _limits(columns: Array, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Least and greatest value of each numeric column, refusing ranges that overflow."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    with np.errstate(over="ignore"):
        wide = ~np.isfinite(high - low)
    if wide.any():
        name = names[int(np.flatnonzero(wide)[0])]
        raise ValueError(
            f"column {name} must have a finite range to be scaled, its range overflows"
        )
    return low, high


def _affine(columns: Array, scale: Scale) -> tuple[Array, Array]:
    """Offset and span of columns; a constant one, which is kept for its gaps, has span 1."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    if scale == "none":
        return np.zeros_like(low), np.ones_like(low)
    width = np.where(low < high, high - low, 1.0)
    if scale == "minmax":
        return low, width
    # Deviations relative to the range: squares of 1e300 would overflow.
    unit = (columns - low) / width
    return low + unit.mean(axis=0) * width, np.where(low < high, unit.std(axis=0), 1.0) * width


def _seen(codes: IntArray, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels that occur, in the table's order, a missing value last."""
    present = np.unique(codes)
    seen = tuple(labels[code] for code in present if code >= 0)
    return (*seen, MISSING) if present[0] < 0 else seen


def _lookup(known: tuple[str, ...], labels: tuple[str, ...]) -> IntArray:
    """Position among the known labels of each label, -1 for an unseen one."""
    # By label, not by code: another table may code the same labels otherwise.
    position = {label: place for place, label in enumerate(known)}
    return np.array([position.get(label, -1) for label in labels], dtype=np.int64)


def _positions(wanted: tuple[str, ...], names: tuple[str, ...]) -> list[int]:
    """Where the wanted columns stand in a table."""
    absent = [name for name in wanted if name not in names]
    if absent:
        raise ValueError(f"table must have the columns {list(wanted)}, missing are {absent}")
    return [names.index(name) for name in wanted]
