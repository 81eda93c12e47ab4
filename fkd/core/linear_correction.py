"""An affine change of low rank that takes sensitive information out of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fkd.core.arrays import AnyArray, Array


@dataclass(frozen=True)
class LinearCorrection:
    """x ↦ x[:d] - (x - mean) R Lᵀ.

    Rows may hold more columns than the d that come out: those behind are what the correction looks
    at besides, such as the sensitive attribute itself.
    """

    mean: Array  # (d + l,) or (d,)
    R: Array  # one row per column that comes in, (len(mean), w)
    L: Array  # one row per column that comes out, (d, w)

    def __call__(self, X: Array) -> Array:
        """Return the corrected rows, (k, d)."""
        return X[:, : len(self.L)] - ((X - self.mean) @ self.R) @ self.L.T

    def pulled_back(self, beta: Array) -> tuple[Array, float]:
        """Return weights with constant that give on plain rows what `beta` gives on corrected."""
        self.check_whole()
        w = self.R @ (self.L.T @ beta)
        return beta - w, float(self.mean @ w)

    def check_whole(self) -> None:
        """Refuse a correction of rows of which some columns are only looked at."""
        if len(self.L) != len(self.R):
            raise ValueError(
                f"a correction can be pulled back where {len(self.R)} columns go in and come out, "
                f"got {len(self.L)} that come out"
            )

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields as arrays."""
        return {"mean": self.mean, "R": self.R, "L": self.L}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the correction that `arrays` was taken from."""
        return cls(*(np.asarray(arrays[name], dtype=np.float64) for name in ("mean", "R", "L")))
