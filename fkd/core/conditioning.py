"""Functions of s to remove, given conditioning columns through which dependence is allowed.

The functions are regressed on splines of the conditioning columns, and only the residual is removed
(`fkd.core.moments.BasisMoments.covariance`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array, Rows
from fkd.core.linalg import to_dense
from fkd.core.sensitive_basis import BasisSettings, Centred, SensitiveBasis, SplineBasis, centred
from fkd.core.validation import whole
from fkd.core.weights import weighted_mean

# Columns with 1 - correlation² below this are the same column in two units.
_SAME = 1e-12


@dataclass(frozen=True)
class Functions:
    """The functions of s that a prediction should not covary with, given conditioning columns."""

    basis: BasisSettings
    # "none", "y" for the target, or positions of columns of X.
    given: str | tuple[int, ...] = "none"
    # Range of every sensitive column, the unit of `gamma_s`; None is the range of the rows.
    limits: tuple[float, float] | None = (0.0, 1.0)

    def columns(
        self, S: Array, y: Array, w: Array | None = None, X: Rows | None = None
    ) -> "FittedFunctions":
        """Return the functions fitted to rows with weights w.

        X is only needed if `given` names columns of it.
        """
        limits = None if self.limits is None else [self.limits] * S.shape[1]
        basis = centred(self.basis.fit(S, limits, w=w), S, w)
        if self.given == "none":
            return FittedFunctions(self, basis)
        return FittedFunctions(self, basis, _centred_splines(self.conditioning(y, X), w))

    def conditioning(self, y: Array, X: Rows | None) -> Array:
        """Return the conditioning columns, (n, c)."""
        if self.given == "y":
            return y.reshape(len(y), -1)
        assert X is not None
        return to_dense(X[:, list(self.given)])


@dataclass(frozen=True)
class FittedFunctions:
    """Functions of s, and splines of the conditioning columns, fitted to rows."""

    functions: Functions
    basis: SensitiveBasis
    splines: SensitiveBasis | None = None

    def __call__(self, S: Array, y: Array, X: Rows | None = None) -> tuple[Array, Array | None]:
        """Return the functions (n, p) and the splines (n, k) of rows; None for no conditioning."""
        if self.splines is None:
            return self.basis(S), None
        return self.basis(S), self.splines(self.functions.conditioning(y, X))


def given_columns(
    given: Any, names: AnyArray | None, d: int, *, precomputed: bool
) -> str | tuple[int, ...]:
    """Return the parameter `given` of an estimator as `Functions.given`.

    Parameters
    ----------
    given
        None, ``"y"``, or names or positions of columns.
    names, d
        Names of the columns of X or None, number of columns.
    precomputed
        True if X is a kernel matrix, which has no columns to name.
    """
    if given is None:
        return "none"
    if conditions_on_target(given):
        return "y"
    if precomputed:
        raise ValueError(
            f"given must be 'y' or None if kernel='precomputed', got {given!r}. A kernel matrix "
            "has no columns of inputs"
        )
    several = isinstance(given, Iterable) and not isinstance(given, str)
    wanted = list(given) if several else [given]
    if not wanted:
        raise ValueError(
            "given must name at least one column, got none. Use None for no conditioning"
        )
    return tuple(_position(column, names, d) for column in wanted)


def conditions_on_target(given: Any) -> bool:
    """Return whether `given` is the target; an array is never equal to the text."""
    return isinstance(given, str) and given == "y"


def _centred_splines(columns: Array, w: Array | None) -> SensitiveBasis:
    """Return the splines of columns minus their means over these rows."""
    basis = SplineBasis.from_rows(columns, w)
    (n, k), Z = columns.shape, basis(columns)
    if Z.shape[1] >= n:
        raise ValueError(
            f"given must have fewer splines than the {n} training rows, got {Z.shape[1]} of {k} "
            "columns. Name fewer columns, or train on more rows"
        )
    return Centred(basis, weighted_mean(Z, w))


def refuse_sensitive_columns(
    given: Iterable[int], names: AnyArray | None, X: Rows, S: Array, sensitive: Sequence[str]
) -> None:
    """Raise for a conditioning column that is a monotone function of a sensitive column."""
    for j in given:
        x = to_dense(X[:, [j]])[:, 0]
        x = x - x.mean(axis=0)
        for name, s in zip(sensitive, (S - S.mean(axis=0)).T, strict=True):
            if (x @ s) ** 2 >= (1 - _SAME) * (x @ x) * (s @ s) > 0 or _same_order(x, s):
                label = str(j) if names is None else repr(names[j])
                raise ValueError(
                    f"given must not name the sensitive features, got column {label}, "
                    f"which is sensitive column {name}. Nothing would be left to remove"
                )


def _same_order(x: Array, s: Array) -> bool:
    """Return whether each is a strictly monotone function of the other."""
    values = np.unique(x, return_inverse=True), np.unique(s, return_inverse=True)
    (levels, codes), (others, wanted) = values
    if not len(levels) == len(others) > 1:
        return False
    return bool((codes == wanted).all() or (codes == len(levels) - 1 - wanted).all())


def _position(column: Any, names: AnyArray | None, d: int) -> int:
    """Return the position of one column."""
    if not isinstance(column, str):
        return whole("given", column, low=0, high=d - 1)
    known = [] if names is None else list(names)
    if column not in known:
        names_of_X = ", ".join(known) if known else "none: X has no column names, use positions"
        raise ValueError(f"given must be 'y' or name columns of X ({names_of_X}), got {column!r}")
    return known.index(column)
