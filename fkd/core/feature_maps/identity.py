"""The inputs as their own features."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fkd.core.arrays import Array
from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.predictors import KernelExpansion


@dataclass(frozen=True)
class IdentityMap(FeatureMap):
    """G(x) = x: the kernel is linear, so removal is iterative null-space projection (INLP)."""

    independent: ClassVar[bool] = False
    d: int

    @property
    def rank(self) -> int:
        """The number of inputs."""
        return self.d

    def transform(self, X: Array) -> Array:
        """Return X in float64."""
        return np.asarray(X, dtype=np.float64)

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = x·beta + intercept, one centre of a linear kernel."""
        return KernelExpansion("linear", 1.0, 1, 0.0, beta[None, :], np.ones(1), intercept)
