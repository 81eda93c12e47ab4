"""Shrinkage of a method's parameters."""

from typing import Protocol

from fkd.catalog.methods.kernel_settings import OnFunctions
from fkd.core.conditioning import Functions
from fkd.core.sensitive_basis import BasisSettings
from fkd.core.training import ShrinkageSettings


class OnShrinkage(OnFunctions, Protocol):
    """Parameters of a shrinkage."""

    @property
    def given(self) -> str:
        """Conditioning columns."""


# Penalties of the curves: the first ones change hardly anything, the last ones leave hardly
# anything to remove.
PENALTIES = (0.0, 0.3, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 70.0, 150.0, 400.0, 3000.0)


def functions_of(p: OnShrinkage) -> Functions:
    """Return the functions of s of a setting."""
    return Functions(BasisSettings(p.basis, p.gamma_s), p.given)


def shrinkage_of(p: OnShrinkage) -> ShrinkageSettings:
    """Return the shrinkage of a setting."""
    return ShrinkageSettings(functions_of(p))
