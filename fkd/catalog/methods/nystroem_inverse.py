"""What settings of the paper's Nystroem inverse need of the training rows."""

from typing import Protocol

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.kernels import Kernel
from fkd.core.training import Training
from fkd.paper.kernel_tiles import KernelPasses, KernelRows

# Up to this many training rows a kernel matrix that is read in passes is computed once and kept.
WHOLE_ROWS = 10_000


class OnInverse(Protocol):
    """Parameters that decide a path with the approximate inverse."""

    @property
    def fraction(self) -> float:
        """Share of the rows that stand for all."""

    @property
    def center_sensitive(self) -> bool:
        """Whether the sensitive columns are centred first."""


def inverse_landmarks(training: Training, parameters: OnInverse) -> IntArray:
    """Return the rows that stand for all, drawn once for all iterations."""
    n, rng = len(training.X), np.random.default_rng(training.seed)
    size = max(1, round(parameters.fraction * n))
    return np.sort(rng.choice(n, size=size, replace=False))


def removed_columns(training: Training, parameters: OnInverse) -> Array:
    """Return the sensitive columns as they are removed, (n, l)."""
    S = training.S
    return np.asarray(S - S.mean(axis=0)) if parameters.center_sensitive else S


def kernel_passes(training: Training, gamma: float, landmarks: IntArray) -> KernelPasses:
    """Return the RBF kernel matrix of the training rows, and the columns of some of them."""
    if training.passes is not None:
        passes: KernelPasses = training.passes(gamma, landmarks)
        return passes
    kernel = Kernel("rbf", gamma)
    if len(training.X) > WHOLE_ROWS:
        return KernelRows(kernel, training.X, landmarks)
    return KernelRows(Kernel("precomputed"), kernel.gram(training.X), landmarks)
