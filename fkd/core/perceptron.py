"""A fitted neural network as plain arrays, which predicts without any framework."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, row_blocks

# Klambauer et al. (2017): with these two numbers SELU keeps mean 0, variance 1 through a layer.
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
# Batches whose rows a training takes at a time: so many of any size begin and end at vector
# registers, so that no number depends on how often rows are taken.
TAKEN_BATCHES = 64


def selu(A: Array) -> Array:
    """Return scale·A where positive, scale·alpha·(exp(A) - 1) elsewhere."""
    negative = SELU_ALPHA * np.expm1(np.minimum(A, 0.0))
    activated: Array = SELU_SCALE * np.where(A > 0, A, negative)
    return activated


@dataclass(frozen=True)
class Perceptron:
    """f(x) of fully connected layers: SELU after each but the last, which has one output."""

    weights: tuple[Array, ...]  # (d, w₁), (w₁, w₂), ..., (w, 1)
    biases: tuple[Array, ...]  # (w₁,), (w₂,), ..., (1,)

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        A: Array = np.asarray(X, dtype=np.float64)
        blocks = [
            self.hidden(A[rows]) @ self.weights[-1][:, 0] for rows in row_blocks(len(A), BLOCK_ROWS)
        ]
        f: Array = np.concatenate(blocks) + self.biases[-1][0]
        return f

    def hidden(self, X: Any) -> Array:
        """Return the last hidden layer, the representation that the linear output reads."""
        Z: Array = np.asarray(X, dtype=np.float64)
        d = len(self.weights[0])
        if Z.ndim != 2 or Z.shape[1] != d:
            raise ValueError(f"X must be two-dimensional with {d} columns, got shape {Z.shape}")
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            Z = selu(Z @ W + b)
        return Z

    def arrays(self) -> dict[str, AnyArray]:
        """Return weights with biases, numbered from the input."""
        return {**_numbered("W", self.weights), **_numbered("b", self.biases)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the network that `arrays` was taken from."""
        depth = sum(name.startswith("W") for name in arrays)
        return cls(
            tuple(arrays[f"W{i}"] for i in range(depth)),
            tuple(arrays[f"b{i}"] for i in range(depth)),
        )


def _numbered(letter: str, layers: Sequence[Array]) -> dict[str, AnyArray]:
    """Return the layers under the letter with their number."""
    return {f"{letter}{i}": layer for i, layer in enumerate(layers)}
