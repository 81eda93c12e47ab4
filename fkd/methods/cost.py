"""Estimates of time and memory of a fit, for planning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.svm import STATE_BYTES
from fkd.core.svr import PRECOMPUTED_ROWS

# Work of libsvm per pair of rows, in multiplications of a matrix product: 1.3 s for 4370 rows on a
# machine whose products run at 70 GF/s.
_SVR_PER_PAIR = 5000.0
# Usual number of passes of the batched solver, of two products each.
_PASSES = 50


@dataclass(frozen=True)
class Cost:
    """Floating point operations, and the largest memory at one time in bytes."""

    flops: float
    bytes: float


def kernel_cost(settings: Sequence[Any], n: int, d: int) -> Cost:
    """Return the cost of kernel methods on n rows of d inputs; nearly 0 for other methods.

    Settings of one kernel share its factor. A setting that has a `C` fits a support vector machine.
    """
    kernels = {
        (p.gamma, getattr(p, "approximation", None)) for p in settings if hasattr(p, "gamma")
    }
    factors = [_factor(approximation, n, d) for _, approximation in kernels]
    batched = [p for p in settings if getattr(p, "solver", None) == "batched"]
    machines = [p for p in settings if hasattr(p, "C") and p not in batched]
    paths = sum(4.0 * n * getattr(p, "iterations", 0) * min(n, 1000) for p in settings)
    # Plain and fair kernel matrix, or plain and fair features.
    width = max((_width(p, n) for p in machines), default=0)
    return Cost(
        flops=sum(f.flops for f in factors)
        + len(machines) * _SVR_PER_PAIR * n**2
        + sum(_PASSES * 4.0 * n * _width(p, n) for p in batched)
        + paths
        + 1e6,
        bytes=sum(f.bytes for f in factors)
        + 8.0 * 2 * n * width
        + min(4.0 * n * len(batched), STATE_BYTES)
        + 1e7,
    )


def streaming_flops(approximation: Any, n: int, d: int) -> float:
    """Return the cost of one pass over n rows: kernel, whitening, moments."""
    q = min(int(approximation.landmarks), n)
    return 2.0 * n * q * (d + q)


def _width(setting: Any, n: int) -> int:
    """Return the number of columns of the matrix that a support vector machine reads."""
    approximation: Any = getattr(setting, "approximation", None)
    exact = getattr(approximation, "kind", "exact") == "exact"
    batched = getattr(setting, "solver", None) == "batched"
    if exact or (n <= PRECOMPUTED_ROWS and not batched):
        return n
    return min(int(approximation.landmarks), n)


def _factor(approximation: Any, n: int, d: int) -> Cost:
    """Return the cost of one feature map and its moments."""
    kind = getattr(approximation, "kind", "exact")
    if kind == "exact":
        # Kernel matrix, its Cholesky factor, the Gram matrix of that and its factor.
        return Cost(flops=2.0 * n**2 * d + 1.5 * n**3, bytes=8.0 * 4 * n**2)
    q = min(approximation.landmarks, n)
    # Features of one block of rows; under a shared map the rows are also encoded by block.
    held = BLOCK_ROWS * (d + 4.0 * q) + 4.0 * q**2
    if approximation.shared:
        return Cost(flops=2.0 * q**3, bytes=8.0 * held)
    return Cost(flops=streaming_flops(approximation, n, d) + 2.0 * q**3, bytes=8.0 * (held + n * d))
