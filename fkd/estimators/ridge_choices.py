"""Ridge regressions at every strength of a removal, from arrays that are thin."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps import ExactMap, FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.moments import Moments
from fkd.core.predictors import KernelExpansion, MapExpansion
from fkd.core.removal import RemovalPath, Removals, Shrinkage
from fkd.core.ridge import RidgeFamily, ridge_families


@dataclass(frozen=True)
class CentreCoordinates:
    """Weights that are those of kernel values against centres: f(x) = k(x, Z)·beta."""

    kernel: Kernel
    centers: Rows  # Z, (r, d)

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = k(x, Z)·beta + intercept."""
        k = self.kernel
        return KernelExpansion(k.name, k.gamma, k.degree, k.coef0, self.centers, beta, intercept)


@dataclass(frozen=True)
class RidgeChoices:
    """Regressions of one or several targets, of which a strength picks one each."""

    coordinates: FeatureMap | CentreCoordinates
    families: tuple[RidgeFamily, ...]  # one per target
    n: float
    g: Array  # sum of the features over the training rows, (r,)
    sums: tuple[float, ...]  # of each target
    fit_intercept: bool

    @classmethod
    def of(
        cls,
        feature_map: FeatureMap,
        targets: Sequence[Moments],
        removals: Removals,
        *,
        alpha: float,
        strength: float,
        fit_intercept: bool,
    ) -> "RidgeChoices":
        """Return the regressions of one alpha up to a strength.

        Parameters
        ----------
        feature_map, targets, removals
            Of the training rows; moments with each target.
        alpha
            Ridge of the predictor, above 0.
        strength
            The greatest one.
        fit_intercept
            Let the predictors have a free constant.
        """
        families = ridge_families(
            targets,
            removals,
            alpha=alpha,
            width=removals.at(strength).width,
            fit_intercept=fit_intercept,
        )
        first, sums = targets[0], tuple(moments.y for moments in targets)
        return cls(feature_map, tuple(families), first.n, first.g, sums, fit_intercept)

    def at(self, strength: float) -> list[MapExpansion]:
        """Return the predictor of each target at one strength."""
        found = []
        for family, y in zip(self.families, self.sums, strict=True):
            beta = family.beta(strength)
            constant = (y - float(self.g @ beta)) / self.n if self.fit_intercept else 0.0
            found.append(self.coordinates.expansion(beta, constant))
        return found

    def thin(self) -> "RidgeChoices":
        """Return the same without the factor of an exact map, which is as large as its kernel.

        With K = L Lᵀ weights of features are Lᵀ times those of kernel values: directions v
        become L v, whose products with the latter are those of v with the former.
        """
        exact = self.coordinates
        if not isinstance(exact, ExactMap):
            return self
        families = tuple(
            replace(
                family,
                removals=_moved(family.removals, exact.L),
                plain=exact.dual(family.plain),
                DV=exact.dual(family.DV),
            )
            for family in self.families
        )
        centres = CentreCoordinates(exact.kernel, exact.centers)
        return replace(self, coordinates=centres, families=families, g=exact.L @ self.g)


def _moved(removals: Removals, L: Array) -> Removals:
    """Return the removal with its directions multiplied by L."""
    V = np.asfortranarray(L @ removals.V)
    if isinstance(removals, RemovalPath):
        return replace(removals, U=V)
    assert isinstance(removals, Shrinkage)
    return replace(removals, V=V)
