"""Columns as the measures see them."""

from collections.abc import Callable

import numpy as np

from fkd.core.arrays import Array

# Less spread than this, relative to the largest magnitude, is rounding, not order.
CONSTANT_SPREAD = 1e-12


def in_unit(values: Array) -> Array:
    """Return a vector divided by the power of two that brings its largest magnitude below one.

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
