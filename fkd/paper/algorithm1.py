"""Algorithm 1 of the paper as printed, for comparison with `fkd.core.removal`."""

from collections.abc import Iterator

import numpy as np

from fkd.core.arrays import Array
from fkd.core.validation import positive, whole


def algorithm_1(K: Array, S: Array, *, ridge: float, iterations: int) -> tuple[Array, Array]:
    """Return K_m and T_m with K_m = K T_m, by the printed recursion.

    Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair Null-Space Projections for
    Continuous Attributes to Kernel Methods". It costs O(m n³) and loses accuracy at large m.

    Parameters
    ----------
    K
        Kernel matrix (n, n).
    S
        Sensitive columns (n, l), linearly independent.
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    """
    *_, last = recursion(K, S, ridge=ridge, iterations=iterations)
    return last


def recursion(
    K: Array, S: Array, *, ridge: float, iterations: int
) -> Iterator[tuple[Array, Array]]:
    """Yield K_i and T_i of `algorithm_1` for i = 0, 1, ..., iterations."""
    positive("ridge", ridge)
    identity = np.eye(len(K))
    K_i, T_i = K, identity
    yield K_i, T_i
    for _ in range(whole("iterations", iterations, low=0)):
        B = np.linalg.inv(K_i + ridge * identity)
        tau = np.linalg.inv(S.T @ B @ K_i @ B @ S)
        M = (B @ S @ tau) @ (S.T @ B)  # this order costs O(n² l)
        T = identity - M @ K_i
        K_i = K_i @ T
        T_i = T_i @ T
        yield K_i, T_i
