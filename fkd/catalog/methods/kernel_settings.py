"""Kernel and removal of a method's parameters."""

import math
from collections.abc import Hashable
from typing import Protocol

from fkd.core.arrays import Array
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import Approximation, KernelSettings
from fkd.core.sensitive_basis import BasisSettings
from fkd.core.training import PathSettings, RemovalSettings, Training

# A ridge is added to a sum over rows: with more rows a fixed one counts less. "per_row" means the
# given value on `REFERENCE_ROWS` rows, those of the paper's census state, and grows with the rows.
RIDGE_RULES = ("fixed", "per_row")
REFERENCE_ROWS = 4370
GIVEN = ("none", "y")


class OnKernel(Protocol):
    """Parameters of a kernel and its feature map."""

    @property
    def gamma(self) -> float:
        """Width of the RBF kernel."""

    @property
    def approximation(self) -> Approximation:
        """How the kernel is represented."""


class OnFunctions(OnKernel, Protocol):
    """Parameters of the functions of s on a kernel."""

    @property
    def basis(self) -> str:
        """Kind of the basis."""

    @property
    def gamma_s(self) -> float:
        """Width of its kernel, s in units of its range."""


class OnPath(OnFunctions, Protocol):
    """Parameters of a removal path."""

    @property
    def iterations(self) -> int:
        """Length of the path."""

    @property
    def ridge(self) -> float:
        """Ridge of the removal regression."""

    @property
    def ridges(self) -> str:
        """Rule of the ridges, one of `RIDGE_RULES`."""

    @property
    def center_sensitive(self) -> bool:
        """Centre the sensitive columns."""


def kernel_of(p: OnKernel) -> KernelSettings:
    """Return the RBF kernel of a setting."""
    return KernelSettings(gamma=p.gamma, approximation=p.approximation)


def kernel_key(p: OnKernel) -> tuple[Hashable, ...]:
    """Return the key of the factorisation: settings on the same kernel share it."""
    return ("rbf", p.gamma, p.approximation)


def path_of(training: Training, p: OnPath) -> PathSettings:
    """Return the removal path of a setting on these rows."""
    n = training.moments(kernel_of(p), "removal").n
    ridge = effective_ridge(p.ridge, p, n)
    return PathSettings(ridge, p.center_sensitive, functions_of_path(p))


def functions_of_path(p: OnPath) -> Functions | None:
    """Return the functions of s that a path removes, None for the columns themselves."""
    if p.basis == "columns":
        return None
    return Functions(BasisSettings(p.basis, p.gamma_s))


def effective_ridge(value: float, parameters: object, n: float) -> float:
    """Return the value of a ridge on n training rows, by the rule of a setting."""
    if getattr(parameters, "ridges", "fixed") == "fixed":
        return value
    return value * n / REFERENCE_ROWS


def least_ridge(parameters: object, n: int) -> float:
    """Return the smallest ridge of a setting on n training rows, infinity if it has none."""
    ridges = [getattr(parameters, name) for name in ("ridge", "alpha") if hasattr(parameters, name)]
    return min((effective_ridge(ridge, parameters, n) for ridge in ridges), default=math.inf)


def fair_features_of(
    training: Training, p: OnKernel, removal: RemovalSettings, strength: float, X: Array
) -> Array:
    """Return the features of rows X after a removal; the strength is that of the directions."""
    kernel = kernel_of(p)
    removed = training.removals(kernel, removal, strength).at(strength)
    return removed.features(training.feature_map(kernel).transform(X))


def features_left(training: Training, p: OnPath, X: Array) -> Array:
    """Return the features of rows X after the removal path of a setting."""
    return fair_features_of(training, p, path_of(training, p), p.iterations, X)
