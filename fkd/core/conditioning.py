"""Columns on which a prediction may depend, whatever they have to do with the sensitive ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array, Rows
from fkd.core.linalg import to_dense
from fkd.core.sensitive_basis import SplineBasis
from fkd.core.validation import whole
from fkd.core.weights import weighted_mean

# Columns that correlate more closely are one column in two units.
_SAME = 1e-12


def conditioning_columns(
    given: Any,
    names: AnyArray | None,
    X: Rows,
    y: Array,
    w: Array | None = None,
    *,
    precomputed: bool,
) -> Array | None:
    """Return splines of what is legitimate, (n, k); None where nothing is.

    Parameters
    ----------
    given
        None, ``"y"``, or names or positions of columns.
    names
        Of the columns of X, None where it had none.
    X, y
        Training rows (n, d) with their target (n,).
    w
        How many rows each counts for, (n,); None is one.
    precomputed
        Whether X is a kernel matrix, which has no columns to name.
    """
    if given is None:
        return None
    if conditions_on_target(given):
        return _splines(y.reshape(len(y), -1), w)
    if precomputed:
        raise ValueError(
            f"given must be 'y' or None where kernel='precomputed', got {given!r}; rows of a "
            "kernel matrix have no columns"
        )
    return _splines(to_dense(X[:, _positions(given, names, X.shape[1])]), w)


def conditions_on_target(given: Any) -> bool:
    """Return whether the target is what is legitimate; equality of an array with a word is none."""
    return isinstance(given, str) and given == "y"


def _splines(columns: Array, w: Array | None) -> Array:
    """Return splines of the columns, less their means."""
    (n, k), Z = columns.shape, SplineBasis.from_rows(columns, w)(columns)
    if Z.shape[1] >= n:
        raise ValueError(
            f"given must have fewer splines than the {n} training rows, got {Z.shape[1]} of {k} "
            "columns; name fewer columns, or train on more rows"
        )
    return np.asarray(Z - weighted_mean(Z, w))


def refuse_sensitive_columns(
    given: Any, names: AnyArray | None, X: Rows, S: Array, sensitive: Sequence[str]
) -> None:
    """Refuse a legitimate column that is a sensitive one, in any unit or on any rising scale."""
    for j in _positions(given, names, X.shape[1]):
        x = to_dense(X[:, [j]])[:, 0]
        x = x - x.mean(axis=0)
        for name, s in zip(sensitive, (S - S.mean(axis=0)).T, strict=True):
            if (x @ s) ** 2 >= (1 - _SAME) * (x @ x) * (s @ s) > 0 or _same_order(x, s):
                raise ValueError(
                    f"given must not name the sensitive features, got column {_label(j, names)}, "
                    f"which is sensitive column {name}; nothing would be left to remove"
                )


def _same_order(x: Array, s: Array) -> bool:
    """Return whether either rises or falls with the other strictly: their ranks are then one."""
    values = np.unique(x, return_inverse=True), np.unique(s, return_inverse=True)
    (levels, codes), (others, wanted) = values
    if not len(levels) == len(others) > 1:
        return False
    return bool((codes == wanted).all() or (codes == len(levels) - 1 - wanted).all())


def _positions(given: Any, names: AnyArray | None, d: int) -> list[int]:
    """Return the positions of the named columns."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    wanted = list(given) if several else [given]
    if not wanted:
        raise ValueError("given must name at least one column, got none; None is nothing given")
    return [_position(column, names, d) for column in wanted]


def _position(column: Any, names: AnyArray | None, d: int) -> int:
    """Return the position of one column."""
    if not isinstance(column, str):
        return whole("given", column, low=0, high=d - 1)
    known = [] if names is None else list(names)
    if column not in known:
        told = ", ".join(known) if known else "none: X has no column names, use positions"
        raise ValueError(f"given must be 'y' or name columns of X ({told}), got {column!r}")
    return known.index(column)


def _label(j: int, names: AnyArray | None) -> str:
    return str(j) if names is None else repr(names[j])
