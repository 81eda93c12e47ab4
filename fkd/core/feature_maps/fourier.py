"""Random Fourier features."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.predictors import FourierExpansion, fourier_features


@dataclass(frozen=True)
class FourierMap(FeatureMap):
    """G(x) = sqrt(2/q) cos(x Ω + φ) with Ω drawn from the spectrum of the kernel.

    Rahimi & Recht (2007). The error falls as 1/sqrt(q), whatever the data.
    """

    independent: ClassVar[bool] = False
    frequencies: Array  # Ω, (d, q)
    phases: Array  # φ, (q,)

    @classmethod
    def of(cls, kernel: Kernel, d: int, q: int, *, rng: np.random.Generator) -> "FourierMap":
        """Return q features of d inputs for a shift-invariant kernel."""
        if kernel.name == "rbf":
            frequencies = rng.normal(scale=np.sqrt(2 * kernel.gamma), size=(d, q))
        elif kernel.name == "laplacian":
            frequencies = kernel.gamma * rng.standard_cauchy(size=(d, q))
        else:
            raise ValueError(
                "approximation='fourier' needs a shift-invariant kernel, rbf or laplacian, "
                f"got {kernel.name!r}; use approximation='nystroem'"
            )
        return cls(frequencies, rng.uniform(low=0.0, high=2 * np.pi, size=q))

    @property
    def rank(self) -> int:
        """The number q of features."""
        return len(self.phases)

    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, q)."""
        return fourier_features(X, self.frequencies, self.phases)

    def expansion(self, beta: Array, intercept: float = 0.0) -> FourierExpansion:
        """Return f(x) = G(x)·beta + intercept."""
        return FourierExpansion(self.frequencies, self.phases, beta, intercept)
