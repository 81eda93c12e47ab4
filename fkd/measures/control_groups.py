"""Rows in groups of the legitimate columns that a measure is taken within."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import AnyArray, Array
from fkd.core.border import refuse_masked, require_length
from fkd.measures.quantile_groups import quantile_codes

# Numbers with more values than this are no levels: they are cut into groups of like size.
MOST_LEVELS = 10
QUANTILE_GROUPS = 5

_NAME = "control_features"
_CURE = "drop these rows, or give them a level of their own"


@dataclass(frozen=True)
class ControlGroup:
    """The rows, in their own order, that are alike in every control column."""

    label: str
    index: NDArray[np.intp]


def control_groups(control_features: Any, n: int, w: Array | None = None) -> list[ControlGroup]:
    """Return the groups of n rows, in the order of their levels.

    Parameters
    ----------
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    n
        How many rows are expected.
    w
        How many rows each row stands for, (n,): quintiles are of these.
    """
    columns = _columns(control_features, n)
    coded = [_levels(column, j, w) for j, column in enumerate(columns)]
    codes = np.stack([codes for codes, _ in coded], axis=1)
    combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [
        ControlGroup(
            " / ".join(names[code] for code, (_, names) in zip(combination, coded, strict=True)),
            np.flatnonzero(inverse == i),
        )
        for i, combination in enumerate(combinations)
    ]


def kept_control(control_features: Any, kept: NDArray[np.bool_]) -> Any:
    """Return some rows of the control columns, each column with the type that it has by itself."""
    _columns(control_features, len(kept))
    if hasattr(control_features, "iloc"):
        return control_features.iloc[kept]
    return _as_table(control_features)[kept]


def level_names(column: AnyArray) -> list[str]:
    """Return what the group of each row of one column is called."""
    codes, names = _levels(column, 0, None)
    return [names[code] for code in codes]


def _columns(control_features: Any, n: int) -> list[AnyArray]:
    """Return the control columns, each with the type that it has by itself."""
    refuse_masked(_NAME, control_features)
    if hasattr(control_features, "iloc") and control_features.ndim == 2:
        columns = [control_features.iloc[:, j].to_numpy() for j in range(control_features.shape[1])]
    else:
        table = _as_table(control_features)
        columns = list(table.T)
    if not columns:
        raise ValueError(f"{_NAME} must have at least one column, got none")
    for column in columns:
        require_length(column, n, _NAME)
    return columns


def _as_table(values: Any) -> AnyArray:
    """Return what is no data frame as a table (n, k)."""
    try:
        table = np.asarray(values)
        if table.dtype.kind in "US" and not hasattr(values, "dtype"):
            # Numbers beside text in a list would have become text.
            table = np.asarray(values, dtype=object)
    except ValueError as error:
        raise ValueError(
            f"{_NAME} must be a rectangular array, got rows of unequal length"
        ) from error
    if table.ndim not in (1, 2):
        raise ValueError(f"{_NAME} must be one column or a table of columns, got {table.shape}")
    return table[:, None] if table.ndim == 1 else table


def _levels(column: AnyArray, j: int, w: Array | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return the number of each row's level with the levels' names, in order."""
    missing = np.flatnonzero([_is_missing(value) for value in column.tolist()])
    if len(missing):
        raise ValueError(
            f"{_NAME} must have no missing values, got {len(missing)} in column {j}, the first in "
            f"row {missing[0]}; {_CURE}"
        )
    if not _are_numbers(column):
        names, codes = np.unique([str(value) for value in column.tolist()], return_inverse=True)
        return codes, [str(name) for name in names]
    numbers = column.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{_NAME} must be finite, got infinity in column {j}; {_CURE}")
    values, codes = np.unique(numbers, return_inverse=True)
    if len(values) <= MOST_LEVELS:
        return codes, _named([(value, value) for value in values])
    return _cut(numbers, w)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or a frame's own word for missing."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return True


def _are_numbers(column: AnyArray) -> bool:
    """Return whether a column holds numbers; truth values are levels."""
    if column.dtype.kind == "O":
        return all(
            isinstance(value, int | float | np.number) and not isinstance(value, bool)
            for value in column
        )
    return column.dtype.kind in "iuf"


def _cut(numbers: Array, w: Array | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return groups of about a fifth of the rows each; equal numbers stay together."""
    codes = quantile_codes(numbers, QUANTILE_GROUPS, w)
    members = [numbers[codes == i] for i in range(int(codes.max(axis=0)) + 1)]
    return codes, _named([(own.min(axis=0), own.max(axis=0)) for own in members])


def _named(ends: Sequence[tuple[float, float]]) -> list[str]:
    """Return each group by its least and greatest number, with digits that tell groups apart."""
    names: list[str] = []
    for digits in ("g", ".12g", ".17g"):
        names = [
            f"{low:{digits}}" if low == high else f"{low:{digits}} to {high:{digits}}"
            for low, high in ends
        ]
        if len(set(names)) == len(names):
            break
    return names
