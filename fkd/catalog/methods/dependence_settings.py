"""What settings of fair kernel learning share."""

from collections.abc import Hashable, Sequence
from typing import Protocol

from fkd.catalog.methods.kernel_settings import REFERENCE_ROWS, OnKernel, kernel_key, kernel_of
from fkd.core.conditioning import Functions
from fkd.core.moments import BasisMoments
from fkd.core.removal import shrinkage
from fkd.core.sensitive_basis import BasisSettings
from fkd.core.training import KnownRemoval, Training
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


def functions_of_kernel(p: OnDependence) -> Functions:
    """Return functions of s whose inner products are the kernel of s, to what landmarks leave."""
    return Functions(BasisSettings("rbf", p.gamma_s))


def dependence_removals(training: Training, settings: Sequence[OnDependence]) -> list[KnownRemoval]:
    """Return the shrinkage of each setting; settings of one kernel with one gamma_s share it."""
    found: dict[Hashable, KnownRemoval] = {}
    for p in settings:
        key = (*kernel_key(p), p.gamma_s)
        if key not in found:
            found[key] = KnownRemoval(shrinkage(_products_with_s(training, p)))
    return [found[(*kernel_key(p), p.gamma_s)] for p in settings]


def _products_with_s(training: Training, p: OnDependence) -> BasisMoments:
    """Return the products of the features with functions of s that make up its kernel.

    Rows are compared with each other, as published. Under a shared map the functions are those of
    the reserved rows.
    """
    kernel = kernel_of(p)
    if p.approximation.shared:
        return training.basis_moments(kernel, functions_of_kernel(p))
    rows = training.X, training.S, p.gamma_s, training.weights.fit
    return dependence_sums(training.feature_map(kernel), *rows)


def price_of(p: OnDependence, n: float) -> float:
    """Return the published mu that a setting means on n training rows.

    The published one is paid for a sum over all pairs of rows. Where ridges are what they are on
    the reference's rows, so is its price beside the mean squared error.
    """
    rows = n if p.ridges == "fixed" else float(REFERENCE_ROWS)
    return float(p.mu * rows ** (1.0 - _POWERS[p.mu_scale]) / n)
