"""The removal path in integer arithmetic, to any precision."""

from math import isqrt
from typing import Any

import numpy as np

from fkd.core.arrays import AnyArray, Array


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
