"""Conditioning columns, the parameter `given`: dependence on s through them is allowed.

Functions of s are regressed on splines of the conditioning columns, and only the residual is
removed (`fkd.core.moments.BasisMoments.covariance`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array, Rows
from fkd.core.linalg import to_dense
from fkd.core.sensitive_basis import SplineBasis
from fkd.core.validation import whole
from fkd.core.weights import weighted_mean

# Columns with 1 - correlation² below this are the same column in two units.
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
    """Return centred splines of the conditioning columns, (n, k); None if `given` is None.

    Parameters
    ----------
    given
        None, ``"y"``, or names or positions of columns.
    names
        Names of the columns of X, None if it has none.
    X, y
        Training rows (n, d), target (n,).
    w
        Weights of the rows, (n,); None is 1 for each.
    precomputed
        True if X is a kernel matrix, which has no columns to name.
    """
    if given is None:
        return None
    if conditions_on_target(given):
        return _splines(y.reshape(len(y), -1), w)
    if precomputed:
        raise ValueError(
            f"given must be 'y' or None if kernel='precomputed', got {given!r}. A kernel matrix "
            "has no columns of inputs"
        )
    return _splines(to_dense(X[:, _positions(given, names, X.shape[1])]), w)


def conditions_on_target(given: Any) -> bool:
    """Return whether `given` is the target; an array is never equal to the text."""
    return isinstance(given, str) and given == "y"


def _splines(columns: Array, w: Array | None) -> Array:
    """Return splines of the columns minus their means."""
    (n, k), Z = columns.shape, SplineBasis.from_rows(columns, w)(columns)
    if Z.shape[1] >= n:
        raise ValueError(
            f"given must have fewer splines than the {n} training rows, got {Z.shape[1]} of {k} "
            "columns. Name fewer columns, or train on more rows"
        )
    return np.asarray(Z - weighted_mean(Z, w))


def refuse_sensitive_columns(
    given: Any, names: AnyArray | None, X: Rows, S: Array, sensitive: Sequence[str]
) -> None:
    """Raise for a conditioning column that is a monotone function of a sensitive column."""
    for j in _positions(given, names, X.shape[1]):
        x = to_dense(X[:, [j]])[:, 0]
        x = x - x.mean(axis=0)
        for name, s in zip(sensitive, (S - S.mean(axis=0)).T, strict=True):
            if (x @ s) ** 2 >= (1 - _SAME) * (x @ x) * (s @ s) > 0 or _same_order(x, s):
                raise ValueError(
                    f"given must not name the sensitive features, got column {_label(j, names)}, "
                    f"which is sensitive column {name}. Nothing would be left to remove"
                )


def _same_order(x: Array, s: Array) -> bool:
    """Return whether each is a strictly monotone function of the other."""
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
        raise ValueError(
            "given must name at least one column, got none. Use None for no conditioning"
        )
    return [_position(column, names, d) for column in wanted]


def _position(column: Any, names: AnyArray | None, d: int) -> int:
    """Return the position of one column."""
    if not isinstance(column, str):
        return whole("given", column, low=0, high=d - 1)
    known = [] if names is None else list(names)
    if column not in known:
        names_of_X = ", ".join(known) if known else "none: X has no column names, use positions"
        raise ValueError(f"given must be 'y' or name columns of X ({names_of_X}), got {column!r}")
    return known.index(column)


def _label(j: int, names: AnyArray | None) -> str:
    return str(j) if names is None else repr(names[j])
