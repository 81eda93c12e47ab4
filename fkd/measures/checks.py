"""The border of the measures, where what callers pass becomes checked float64 arrays."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array

# Squares and products of two such numbers stay far from overflow.
LARGEST = 1e100
# Less spread than this, relative to the largest magnitude, is rounding, not order.
CONSTANT_SPREAD = 1e-12


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return `values` as a finite float64 array of any shape, without copying where possible."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked, got masked values; fill or drop them")
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length"
        ) from error
    if raw.dtype.kind not in "buif":
        raise ValueError(f"{name} must hold real numbers, got dtype {raw.dtype}; encode it first")
    numbers = raw.astype(np.float64, copy=False)
    # Written so that NaN fails it too.
    good = np.abs(numbers) <= LARGEST
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(
            f"{name} must be finite with magnitude at most {LARGEST:g}, "
            f"got {numbers[where]} at index {where}"
        )
    return numbers


def as_column(values: ArrayLike, name: str) -> Array:
    """Return `values` as a finite float64 vector of at least two rows."""
    column = as_numbers(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got shape {column.shape}")
    if len(column) < 2:
        raise ValueError(f"{name} must have at least two rows, got {len(column)}")
    return column


def as_sensitive(values: ArrayLike, n: int) -> Array:
    """Return the sensitive columns as a finite float64 matrix of `n` rows."""
    name = "sensitive_features"
    S = as_numbers(values, name)
    if S.ndim == 1:
        S = S[:, None]
    if S.ndim != 2 or S.shape[1] == 0:
        raise ValueError(f"{name} must be one column or a table of columns, got shape {S.shape}")
    require_length(S, n, name)
    return S


def require_length(values: Array, n: int, name: str) -> None:
    """Raise unless `values` has `n` rows."""
    if len(values) != n:
        raise ValueError(f"{name} must have one row per prediction ({n}), got {len(values)}")


def in_unit(values: Array) -> Array:
    """Return a vector divided by the power of two that brings its largest magnitude to one.

    No digit changes, and squares of the smallest numbers no longer vanish.
    """
    _, exponent = np.frexp(np.abs(values).max(axis=0))
    return np.asarray(np.ldexp(values, -exponent))


def is_constant(values: Array) -> bool:
    """Return whether the spread of a vector is no more than rounding, whatever its unit."""
    scaled = in_unit(values)
    return bool(scaled.std(axis=0) <= CONSTANT_SPREAD * np.abs(scaled).max(axis=0))


def per_column(measure: Callable[[Array], float], S: Array) -> float | Array:
    """Return `measure` of the only column as a float, of several columns as an array (l,)."""
    values = np.array([measure(s) for s in S.T], dtype=np.float64)
    return float(values[0]) if len(values) == 1 else values
