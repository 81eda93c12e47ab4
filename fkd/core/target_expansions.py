"""Fitted predictors of several targets on one feature map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, Rows, row_blocks
from fkd.core.kernels import Kernel
from fkd.core.predictors import FourierExpansion, KernelExpansion, MapExpansion


@dataclass(frozen=True)
class TargetExpansions:
    """f(x) = (f₁(x), ..., f_k(x)): one expansion per target."""

    parts: tuple[MapExpansion, ...]

    def predict(self, X: Any) -> Array:
        """Return one column of predictions per target, (n, k), each as its part alone has it."""
        shared = self._on_one_set_of_centers()
        if shared is None:
            return np.column_stack([part.predict(X) for part in self.parts])
        first, coefs = shared
        k = Kernel(first.kernel, first.gamma, first.degree, first.coef0)
        A: Rows = X if isinstance(X, csr_array) else np.asarray(X, dtype=np.float64)
        out = np.empty((A.shape[0], len(coefs)))
        for rows in row_blocks(A.shape[0], BLOCK_ROWS):
            K = k(A[rows], first.centers)
            for j, coef in enumerate(coefs):
                # One product per target: one with several columns would round by their number.
                out[rows, j] = K @ coef
        return np.asarray(out + np.array([part.intercept for part in self.parts]))

    def _on_one_set_of_centers(self) -> tuple[KernelExpansion, list[Array]] | None:
        """Return what is shared with the weights of each, None where nothing is."""
        first, *_ = self.parts
        if not isinstance(first, KernelExpansion):
            return None
        same = [p for p in self.parts if isinstance(p, KernelExpansion)]
        if any(p.centers is not first.centers for p in same):
            return None
        return first, [p.coef for p in same]

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of all parts, numbered."""
        return {
            f"{i}.{name}": value
            for i, part in enumerate(self.parts)
            for name, value in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansions that `arrays` was taken from."""
        numbered: dict[int, dict[str, AnyArray]] = {}
        for key, value in arrays.items():
            i, _, name = key.partition(".")
            numbered.setdefault(int(i), {})[name] = value
        return cls(tuple(_part(numbered[i]) for i in sorted(numbered)))


def _part(arrays: Mapping[str, AnyArray]) -> MapExpansion:
    kind = KernelExpansion if "kernel" in arrays else FourierExpansion
    return kind.from_arrays(arrays)
