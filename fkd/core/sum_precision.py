"""Which way of summing over rows is exact enough, measured on a few of them."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, Rows
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import condition, gram, spectral_norm
from fkd.core.streamed_sums import StreamedSums, Way, whitened

# Share of the smallest ridge that rounding may reach: small directions rest on the ridge alone.
TOLERANCE = 0.05
# Rows from which on it pays to give up digits: below, single precision would save seconds.
SINGLE_ROWS = 2**18
_RAW: tuple[Way, ...] = ("float32", "float64")


@dataclass(frozen=True)
class Rounding:
    """What sums of kernel values lose when they are whitened, a row, in the spectral norm of GᵀG.

    Rounding of kernel values is the same for equal rows, hence does not average out: the error of
    n rows is n times that of one.
    """

    single: float
    double: float
    condition: float  # of the landmarks' kernel matrix

    def fastest(self, n: int, ridge: float) -> Way:
        """Return the fastest way whose error on n rows stays small beside the smallest ridge."""
        most = TOLERANCE * ridge / n
        if n >= SINGLE_ROWS and self.single <= most:
            return "float32"
        return "float64" if self.double <= most else "rows"


def measured_rounding(feature_map: FeatureMap, X: Rows) -> Rounding:
    """Return what sums under a map lose, measured on a block of rows from all over X."""
    L = feature_map.whitening
    if L is None:
        return Rounding(0.0, 0.0, 1.0)
    # Evenly spaced, since tables are often sorted: the first rows may be of one kind.
    n = X.shape[0]
    X = X[np.linspace(0, n - 1, num=min(n, BLOCK_ROWS), dtype=np.intp)]
    exact = gram(feature_map.transform(X))
    single, double = (
        spectral_norm((_gram(feature_map, X, way) - exact).__matmul__, len(L)) / X.shape[0]
        for way in _RAW
    )
    return Rounding(single, double, condition(L))


def _gram(feature_map: FeatureMap, X: Rows, way: Way) -> Array:
    """Return GᵀG of rows, summed in one way."""
    nothing = np.zeros((X.shape[0], 1))
    sums = StreamedSums(feature_map, way, [1])
    sums.add(X, nothing, nothing[:, 0])
    return whitened(feature_map, way, sums.moments()).C
