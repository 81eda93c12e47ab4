"""A Gaussian process that was conditioned on training rows, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import project
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Directions
from fkd.core.ridge import FairInverse, ridge_expansions
from fkd.core.weights import UNWEIGHTED
from fkd.estimators.removal_estimator import Removal


@dataclass(frozen=True)
class ConditionedProcess:
    """The process of one target z, which was centred and has the unit that its user chose."""

    mean: MapExpansion  # of z
    removed: Directions
    inverse: FairInverse  # (C + ratio·I)⁻¹ on the fair features, ratio = alpha / amplitude
    amplitude: float
    alpha: float

    @property
    def ratio(self) -> float:
        """Noise in units of the amplitude."""
        return self.alpha / self.amplitude

    def variance(self, feature_map: FeatureMap, X: Rows) -> Array:
        """Return the variance of the function at each row, in units of the amplitude."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate([self._variance(feature_map, X[rows]) for rows in blocks])

    def _variance(self, feature_map: FeatureMap, X: Rows) -> Array:
        G = feature_map.transform(X)
        beyond = feature_map.unrepresented(X, G)
        # g·g - gᵀC(C + δI)⁻¹g = δ gᵀ(C + δI)⁻¹g, which loses no digits where little is left.
        # What is wholly removed counts for nothing, down to the last bit.
        G = project(G, self.removed.gone)
        left = np.maximum(np.einsum("ij,ji->i", G, self.inverse @ G.T), 0.0)
        return np.asarray(beyond + self.ratio * left)

    def log_density(self, moments: Moments, unit: float) -> float:
        """Return the log density of the training target, z times the unit."""
        (r, w), n, c = self.removed.V.shape, moments.n, moments.c
        square = float(moments.yy - c @ (self.inverse @ c)) / self.alpha
        # K + ratio·I has the eigenvalues of the fair C + ratio·I, all others are the ratio.
        logs = self.inverse.log_determinant + (n - r + w) * np.log(self.ratio)
        # The target itself has a unit that is so many times wider.
        units = 2 * n * np.log(unit) + n * np.log(2 * np.pi * self.amplitude)
        return -0.5 * float(square + logs + units)


def without_rows(removal: Removal, targets: Sequence[Moments]) -> tuple[Removal, Sequence[Moments]]:
    """Return what another strength needs: no rows, no product that a factor gives again."""
    thin = replace(removal, y=removal.y[:0].copy(), S=removal.S[:0].copy())
    if not removal.exact:
        return replace(thin, X=removal.X[:0].copy(), weights=UNWEIGHTED), targets
    # An exact map asks how many rows there were, no more.
    nothing = np.empty((0, 0))
    rows = np.empty((removal.X.shape[0], 0))
    return replace(thin, X=rows), [replace(moments, C=nothing) for moments in targets]


def predictive_means(
    removal: Removal, moments: Moments, strengths: Sequence[float], ratio: float
) -> list[MapExpansion]:
    """Return the predictive means, which are kernel ridge regressions of ridge `ratio`."""
    settings = [(strength, ratio) for strength in strengths]
    return ridge_expansions(removal.feature_map, moments, removal.removals, settings)
