"""What settings of one shrinkage share."""

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from fkd.catalog.methods.kernel_settings import OnFunctions, kernel_key
from fkd.catalog.methods.training_fold import Functions, Training
from fkd.core.arrays import Array
from fkd.core.removal import Shrinkage, shrinkage
from fkd.core.sensitive_basis import BasisSettings


class OnShrinkage(OnFunctions, Protocol):
    """Parameters that decide a shrinkage."""

    @property
    def given(self) -> str:
        """What is legitimate."""


P = TypeVar("P", bound=OnShrinkage)

# Prices at which fronts are drawn: from where hardly anything changes to where hardly anything is
# left to remove.
PENALTIES = (0.0, 0.3, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 70.0, 150.0, 400.0, 3000.0)


def functions_of(p: OnShrinkage) -> Functions:
    """Return which functions of s a setting means."""
    return Functions(BasisSettings(p.basis, p.gamma_s), p.given)


def by_shrinkage(settings: Sequence[P]) -> list[list[P]]:
    """Return the settings in groups that share a decomposition."""
    groups: dict[Hashable, list[P]] = {}
    for p in settings:
        groups.setdefault((*kernel_key(p), functions_of(p)), []).append(p)
    return list(groups.values())


def shrinkage_of(training: Training, p: OnShrinkage) -> Shrinkage:
    """Return the directions that settings of one group make small."""
    return shrinkage(training.coupled(p.gamma, p.approximation, functions_of(p)))


def shrunk_features(training: Training, p: OnShrinkage, mu: float, X: Array) -> Array:
    """Return the features of rows X as mu leaves them."""
    feature_map, _ = training.reduced(p.gamma, p.approximation, "removal")
    return shrinkage_of(training, p).at(mu).features(feature_map.transform(X))
