"""What settings of one kernel, of one removal path on it, share."""

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from fkd.catalog.methods.method_declaration import Approximation, Training
from fkd.core.arrays import Array
from fkd.core.removal_path import RemovalPath, removal_path


class OnKernel(Protocol):
    """Parameters that decide a kernel with its feature map."""

    @property
    def gamma(self) -> float:
        """Width of the RBF kernel."""

    @property
    def approximation(self) -> Approximation:
        """How the kernel is represented."""


class OnPath(OnKernel, Protocol):
    """Parameters that decide a removal path."""

    @property
    def iterations(self) -> int:
        """Length of the path."""

    @property
    def ridge(self) -> float:
        """Ridge of the removal regression."""

    @property
    def center_sensitive(self) -> bool:
        """Whether the sensitive columns are centred first."""


P = TypeVar("P", bound=OnPath)


def path_key(parameters: OnPath) -> Hashable:
    """Return the key of a removal path: settings with the same one differ in length alone."""
    return (*kernel_key(parameters), parameters.ridge, parameters.center_sensitive)


def by_path(settings: Sequence[P]) -> list[list[P]]:
    """Return the settings in groups that share a removal path."""
    groups: dict[Hashable, list[P]] = {}
    for p in settings:
        groups.setdefault(path_key(p), []).append(p)
    return list(groups.values())


def longest_path(training: Training, group: Sequence[OnPath]) -> RemovalPath:
    """Return one path that serves every setting of a group."""
    first = group[0]
    feature_map, moments = training.reduced(first.gamma, first.approximation)
    return removal_path(
        moments,
        ridge=first.ridge,
        iterations=max(p.iterations for p in group),
        center_sensitive=first.center_sensitive,
        independent=feature_map.independent,
    )


def kernel_key(parameters: OnKernel) -> tuple[Hashable, ...]:
    """Return the key of the factorisation: settings on the same kernel share it."""
    return ("rbf", parameters.gamma, parameters.approximation)


def features_left(training: Training, parameters: OnPath, X: Array) -> Array:
    """Return G(X) - (G(X) U) Uᵀ, the features that are left of rows X."""
    feature_map, _ = training.reduced(parameters.gamma, parameters.approximation)
    removed = longest_path(training, [parameters]).at(parameters.iterations)
    return removed.features(feature_map.transform(X))
