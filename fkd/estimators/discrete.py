"""Discrete sensitive attributes as a block of columns."""

from typing import Any

import numpy as np

from fkd.core.arrays import Array
from fkd.core.validation import column_names, refuse_masked


def one_hot(labels: Any) -> Array:
    """Return S with one 0/1 column per level of each discrete attribute.

    Removing this block removes every function of the attribute.

    Parameters
    ----------
    labels
        One attribute (n,) or several (n, k), of any type that can be sorted.

    Examples
    --------
    >>> from fkd import one_hot
    >>> one_hot(["b", "a", "b"]).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    refuse_masked("labels", labels)
    values = np.asarray(labels)
    values = values[:, None] if values.ndim == 1 else values
    names = column_names(labels, values.shape[1])
    blocks = [_levels(column, name) for column, name in zip(values.T, names, strict=True)]
    return np.concatenate(blocks, axis=1)


def _is_missing(value: Any) -> bool:
    """Return whether a label is None, NaN or pandas' NA, of which no comparison is true."""
    return value is None or str(value) == "<NA>" or bool(value != value)


def _levels(column: Any, name: str) -> Array:
    """Return the indicator columns of one attribute."""
    if any(map(_is_missing, column)):
        raise ValueError(
            f"labels of column {name} must not be missing; give missing values a level of their own"
        )
    levels, codes = np.unique(column, return_inverse=True)
    if len(levels) < 2:
        raise ValueError(
            f"labels of column {name} must have two levels or more, got only {levels.tolist()}"
        )
    return np.eye(len(levels))[codes]
