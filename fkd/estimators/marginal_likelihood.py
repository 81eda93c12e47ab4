"""How probable a target is under a Gaussian process, as a function of its two variances."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from fkd.core.arrays import Array
from fkd.core.linalg import EPS, rank_cut

# Decades over which a free variance is searched, on either side of its natural size.
_DECADES = 8.0
# Values per decade of the coarse search, between whose best neighbours the fine one looks.
_PER_DECADE = 4
# A target that fits perfectly has no variance left, but a logarithm needs some.
_TINY = 1e-150


@dataclass(frozen=True)
class MarginalLikelihood:
    """log N(z; 0, amplitude·K + noise·I) in the eigenbasis of K, a sum per evaluation."""

    n: float  # rows, or the sum of their weights
    lam: Array  # eigenvalues of K that are not zero, (r,)
    energy: Array  # squares of z along their eigenvectors, (r,)
    rest: float  # square of the part of z outside

    @classmethod
    def of(cls, C: Array, c: Array, *, n: float, square: float, largest: float) -> Self:
        """Return the likelihood of z, of n rows, from C = GᵀG, c = Gᵀz, zᵀz where K = G Gᵀ.

        Features are what a projection left of larger ones, whose squares were up to `largest`:
        below the square of their rounding there is nothing.
        """
        lam, Q = np.linalg.eigh(C)
        most = max(n, len(lam))
        rounding = 100 * EPS * rank_cut(most, largest)
        keep = lam > max(rank_cut(most, float(lam[-1])), rounding)
        energy = (Q[:, keep].T @ c) ** 2 / lam[keep]
        return cls(n, lam[keep], energy, max(square - float(energy.sum(axis=0)), 0.0))

    def __call__(self, amplitude: float, noise: float) -> float:
        """Return the log density at these variances."""
        variances = amplitude * self.lam + noise
        others = self.n - len(self.lam)
        square = float((self.energy / variances).sum(axis=0)) + self.rest / noise
        determinant = float(np.log(variances).sum(axis=0)) + others * np.log(noise)
        return -0.5 * float(square + determinant + self.n * np.log(2 * np.pi))

    def best(self, amplitude: float | None, noise: float | None) -> tuple[float, float]:
        """Return amplitude with noise: those given, a None by its most probable value."""
        variance = max(float(self.energy.sum(axis=0)) + self.rest, _TINY) / self.n
        if not len(self.lam):
            return 1.0 if amplitude is None else amplitude, variance if noise is None else noise
        mean = float(self.lam.sum(axis=0)) / self.n
        # A noise that rounding of the eigenvalues swallows cannot be told from none.
        least = 100 * rank_cut(self.n, float(self.lam[-1]))
        if noise is not None:
            found = amplitude or _most(lambda a: self(a, noise), variance / mean, 0.0)
            return found, noise
        if amplitude is not None:
            return amplitude, _most(lambda v: self(amplitude, v), variance, amplitude * least)
        return self._at(_most(lambda ratio: self(*self._at(ratio)), mean, least))

    def _at(self, ratio: float) -> tuple[float, float]:
        """Return the most probable variances whose noise is `ratio` times the amplitude."""
        square = float((self.energy / (self.lam + ratio)).sum(axis=0)) + self.rest / ratio
        amplitude = max(square, _TINY) / self.n
        return amplitude, ratio * amplitude


def _most(density: Callable[[float], float], unit: float, least: float) -> float:
    """Return where a density is largest, within decades of the unit and not below the least."""
    low, high = np.log(max(unit * 10.0**-_DECADES, least)), np.log(unit * 10.0**_DECADES)
    grid = np.linspace(low, max(high, low + 1.0), num=int(2 * _DECADES * _PER_DECADE) + 1)
    best = int(np.argmax([density(float(np.exp(x))) for x in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda x: -density(float(np.exp(x))), bounds=ends, method="bounded")
    return float(np.exp(found.x))
