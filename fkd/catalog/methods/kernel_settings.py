"""What settings of one kernel, of one removal path on it, share."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from fkd.catalog.methods.training_fold import Approximation, Functions, Training
from fkd.core.arrays import Array
from fkd.core.removal import RemovalPath, removal_path
from fkd.core.sensitive_basis import BasisSettings

# A ridge is added to a sum over rows: a fixed one counts the less the more rows there are. Per row
# it is what is written on so many training rows, those of the paper's census state, and grows
# with them.
RIDGE_RULES = ("fixed", "per_row")
REFERENCE_ROWS = 4370


class OnKernel(Protocol):
    """Parameters that decide a kernel with its feature map."""

    @property
    def gamma(self) -> float:
        """Width of the RBF kernel."""

    @property
    def approximation(self) -> Approximation:
        """How the kernel is represented."""


class OnFunctions(OnKernel, Protocol):
    """Parameters that decide which functions of s matter on which kernel."""

    @property
    def basis(self) -> str:
        """Kind of the basis."""

    @property
    def gamma_s(self) -> float:
        """Width of its kernel, s in units of its range."""


class OnPath(OnFunctions, Protocol):
    """Parameters that decide a removal path."""

    @property
    def iterations(self) -> int:
        """Length of the path."""

    @property
    def ridge(self) -> float:
        """Ridge of the removal regression."""

    @property
    def ridges(self) -> str:
        """Whether ridges grow with the rows, one of `RIDGE_RULES`."""

    @property
    def center_sensitive(self) -> bool:
        """Whether the sensitive columns are centred first."""


P = TypeVar("P", bound=OnPath)


def path_key(parameters: OnPath) -> Hashable:
    """Return the key of a removal path: settings with the same one differ in length alone."""
    p = parameters
    # The columns themselves have no width.
    basis = (p.basis, p.gamma_s) if p.basis != "columns" else ()
    return (*kernel_key(p), p.ridge, p.ridges, p.center_sensitive, *basis)


def by_path(settings: Sequence[P]) -> list[list[P]]:
    """Return the settings in groups that share a removal path."""
    groups: dict[Hashable, list[P]] = {}
    for p in settings:
        groups.setdefault(path_key(p), []).append(p)
    return list(groups.values())


def longest_path(training: Training, group: Sequence[OnPath]) -> RemovalPath:
    """Return one path that serves every setting of a group."""
    first = group[0]
    feature_map, moments = training.reduced(first.gamma, first.approximation, "removal")
    functions = functions_of_path(first)
    if functions is not None:
        sums = training.coupled(first.gamma, first.approximation, functions)
        moments = replace(moments, b=sums.products())
    return removal_path(
        moments,
        ridge=effective_ridge(first.ridge, first, moments.n),
        iterations=max(p.iterations for p in group),
        # Functions other than the columns are always taken from their mean.
        center_sensitive=functions is None and first.center_sensitive,
        independent=feature_map.independent,
    )


def effective_ridge(value: float, parameters: object, n: float) -> float:
    """Return what a ridge of a setting is on n training rows: it may grow with them."""
    if getattr(parameters, "ridges", "fixed") == "fixed":
        return value
    return value * n / REFERENCE_ROWS


def least_ridge(parameters: object, n: int) -> float:
    """Return the smallest ridge of a setting on n training rows, infinity where it has none."""
    ridges = [getattr(parameters, name) for name in ("ridge", "alpha") if hasattr(parameters, name)]
    return min((effective_ridge(ridge, parameters, n) for ridge in ridges), default=math.inf)


def functions_of_path(parameters: OnPath) -> Functions | None:
    """Return which functions of s a path removes, None where they are the columns themselves."""
    if parameters.basis == "columns":
        return None
    return Functions(BasisSettings(parameters.basis, parameters.gamma_s))


def kernel_key(parameters: OnKernel) -> tuple[Hashable, ...]:
    """Return the key of the factorisation: settings on the same kernel share it."""
    return ("rbf", parameters.gamma, parameters.approximation)


def features_left(training: Training, parameters: OnPath, X: Array) -> Array:
    """Return G(X) - (G(X) U) Uᵀ, the features that are left of rows X."""
    feature_map, _ = training.reduced(parameters.gamma, parameters.approximation, "removal")
    removed = longest_path(training, [parameters]).at(parameters.iterations)
    return removed.features(feature_map.transform(X))
