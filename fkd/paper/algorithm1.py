"""Algorithm 1 of the paper, for comparison with `fkd.core.removal`.

`algorithm_1` is the printed recursion. `removed_columns` computes the same in integer arithmetic,
to any precision.
"""

from collections.abc import Iterator
from math import isqrt
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array
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


def removed_columns(K: Array, S: Array, *, ridge: float, iterations: int, bits: int = 400) -> Array:
    """Return F (n, m·l) with K_m = K - F Fᵀ, correct to the last digit of float64.

    The Krylov vectors are combinations of rows, orthogonalised with respect to K. This form loses
    too many digits for float64. It is slow, for tests and benchmarks.

    Parameters
    ----------
    K
        Positive definite, (n, n). Its float64 values are taken as exact.
    S
        Sensitive columns (n, l) that stay linearly independent in all iterations.
    ridge, iterations
        As in `fkd.core.removal.removal_path`.
    bits
        Binary digits after the point.
    """
    fixed_K = _fixed(K, bits)
    L = _cholesky(fixed_K + _fixed(ridge * np.eye(len(K)), bits), bits)
    coefficients: list[AnyArray] = []
    removed: list[AnyArray] = []
    block = list(_fixed(S, bits).T)
    for _ in range(iterations):
        solved = [_solve(L, a, bits) for a in block]
        block = []
        for a in solved:
            # Twice: otherwise the digits that each step cancels are lost, 220 in 200 steps.
            for b, f in 2 * list(zip(coefficients, removed, strict=True)):
                a = a - ((f @ a >> bits) * b >> bits)
            u = fixed_K @ a >> bits
            norm = isqrt(a @ u)
            block.append((a << bits) // norm)
            coefficients.append(block[-1])
            removed.append((u << bits) // norm)
    # The division of integers is correctly rounded.
    return np.array([[value / (1 << bits) for value in f] for f in removed]).T


def _fixed(A: Any, bits: int) -> AnyArray:
    """Return A·2^bits as Python integers."""
    # Scaling by a power of two is exact. Only digits below the last bit are lost.
    return np.asarray(np.vectorize(int, otypes=[object])(np.ldexp(A, bits)))


def _cholesky(A: AnyArray, bits: int) -> AnyArray:
    """Return the lower factor of a positive definite fixed-point matrix."""
    L = A.copy()
    for j in range(len(L)):
        L[j:, j] = (L[j:, j] << bits) // isqrt(L[j, j] << bits)
        column = L[j + 1 :, j]
        L[j + 1 :, j + 1 :] -= np.multiply.outer(column, column) >> bits
    return L


def _solve(L: AnyArray, b: AnyArray, bits: int) -> AnyArray:
    """Return (L Lᵀ)⁻¹ b in fixed-point numbers."""
    b = b.copy()
    for j in range(len(b)):
        b[j] = (b[j] << bits) // L[j, j]
        b[j + 1 :] -= b[j] * L[j + 1 :, j] >> bits
    for j in reversed(range(len(b))):
        b[j] = (b[j] << bits) // L[j, j]
        b[:j] -= b[j] * L[j, :j] >> bits
    return b
