"""Losses that are zero on an interval, linear beyond it.

With x = f - y the loss is C times the distance of x from [low, high]: the tube [-epsilon, epsilon]
of regression, [0, inf) or (-inf, 0] of a hinge for a row of class 1 or -1.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fkd.core.arrays import AnyArray, Array

Loss = Literal["tube", "hinge"]


@dataclass(frozen=True)
class MarginLoss:
    """The losses of some rows under several machines, in one precision."""

    low: AnyArray  # (k,) of each machine, or (rows, 1)
    high: AnyArray
    most: AnyArray  # C over the scale of the multipliers, (k,) or (rows, k)

    @classmethod
    def of(
        cls, kind: Loss, y: AnyArray, epsilon: Array, most: Array, weights: Array | None
    ) -> "MarginLoss":
        """Return the losses of rows y in the precision of y.

        Parameters
        ----------
        kind, y, epsilon
            Which loss; targets (rows,), half widths of the tube (k,).
        most, weights
            Greatest multiplier of a row (k,), factors of it (rows,) or None.
        """
        limits = most if weights is None else weights[:, None] * most
        if kind == "tube":
            low, high = -epsilon, epsilon
        else:
            low = np.where(y > 0, 0.0, -np.inf)[:, None]
            high = np.where(y > 0, np.inf, 0.0)[:, None]
        return cls(*(part.astype(y.dtype, copy=False) for part in (low, high, limits)))

    def multipliers(self, p: AnyArray, out: AnyArray) -> AnyArray:
        """Return u = p - prox(p), which is the loss's slope at prox(p), written to `out`."""
        # Bounds of a column each: np.clip takes five times as long as the two halves of it.
        np.maximum(p, self.low, out=out)
        np.minimum(out, self.high, out=out)
        np.subtract(p, out, out=out)
        np.maximum(out, -self.most, out=out)
        return np.asarray(np.minimum(out, self.most, out=out))

    def total(self, x: Array) -> Array:
        """Return the sum over rows of each machine's loss at x = f - y, (k,)."""
        distance = np.abs(x - np.clip(x, self.low, self.high))
        return np.asarray((self.most * distance).sum(axis=0))

    def support(self, a: Array) -> Array:
        """Return the sum over rows of sup a·x over x in [low, high], (k,).

        Multipliers of a hinge have the sign for which that is 0.
        """
        low, high = (np.where(np.isinf(side), 0.0, side) for side in (self.low, self.high))
        return np.asarray(np.maximum(a * low, a * high).sum(axis=0))
