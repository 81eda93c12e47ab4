"""What settings of fair kernel learning share."""

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from fkd.catalog.methods.kernel_settings import REFERENCE_ROWS, OnKernel, kernel_key
from fkd.catalog.methods.training_fold import Functions, Training
from fkd.core.moments import BasisMoments
from fkd.core.sensitive_basis import BasisSettings
from fkd.rivals.fair_kernel_learning import dependence_sums

# The published code has no 1/n; later ports divide by n or by n squared.
_POWERS = {"none": 0.0, "n": 1.0, "n_squared": 2.0}
SCALES = tuple(_POWERS)


class OnDependence(OnKernel, Protocol):
    """Parameters that decide what is paid for dependence on s."""

    @property
    def mu(self) -> float:
        """Price of dependence."""

    @property
    def mu_scale(self) -> str:
        """By what it is divided, one of `SCALES`."""

    @property
    def gamma_s(self) -> float:
        """Width of the kernel of s."""

    @property
    def ridges(self) -> str:
        """Whether ridges grow with the rows, so that the price must not."""


P = TypeVar("P", bound=OnDependence)


def by_dependence(settings: Sequence[P]) -> list[list[P]]:
    """Return the settings in groups that share the products of their features with s."""
    groups: dict[Hashable, list[P]] = {}
    for p in settings:
        groups.setdefault((*kernel_key(p), p.gamma_s), []).append(p)
    return list(groups.values())


def functions_of_kernel(p: OnDependence) -> Functions:
    """Return functions of s whose inner products are the kernel of s, to what landmarks leave."""
    return Functions(BasisSettings("rbf", p.gamma_s))


def products_with_s(training: Training, p: OnDependence) -> BasisMoments:
    """Return the products of the features with functions of s that make up its kernel.

    Rows that are at hand are compared with each other, as published; sums over rows that stream by
    know functions that the reserved rows decide.
    """
    if p.approximation.shared:
        return training.coupled(p.gamma, p.approximation, functions_of_kernel(p))
    feature_map, _ = training.reduced(p.gamma, p.approximation)
    return dependence_sums(feature_map, training.X, training.S, p.gamma_s, training.weights.fit)


def price_of(p: OnDependence, n: float) -> float:
    """Return the published mu that a setting means on n training rows.

    The published one is paid for a sum over all pairs of rows. Where ridges are what they are on
    the reference's rows, so is its price beside the mean squared error.
    """
    rows = n if p.ridges == "fixed" else float(REFERENCE_ROWS)
    return float(p.mu * rows ** (1.0 - _POWERS[p.mu_scale]) / n)
