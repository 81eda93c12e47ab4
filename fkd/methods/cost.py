"""What fitting several settings costs, for planning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.svm import STATE_BYTES
from fkd.core.svr import PRECOMPUTED_ROWS

# libsvm's work per pair of rows in units of one multiplication of a matrix product: 1.3 s at
# n = 4370 where products run at 70 GF/s.
_SVR_PER_PAIR = 5000.0
# Passes that a batched machine takes at usual penalties, of two products each.
_PASSES = 50


@dataclass(frozen=True)
class Cost:
    """Floating point operations with the largest memory at one time in bytes."""

    flops: float
    bytes: float


def kernel_cost(settings: Sequence[Any], n: int, d: int) -> Cost:
    """Return the cost of kernel methods on n rows of d inputs; nearly nothing for others.

    Settings of one kernel share its factor. A setting that has a `C` fits a support vector machine.
    """
    kernels = {
        (p.gamma, getattr(p, "approximation", None)) for p in settings if hasattr(p, "gamma")
    }
    factors = [_factor(approximation, n, d) for _, approximation in kernels]
    batched = [p for p in settings if getattr(p, "solver", None) == "batched"]
    machines = [p for p in settings if hasattr(p, "C") and p not in batched]
    paths = sum(4.0 * n * getattr(p, "iterations", 0) * min(n, 1000) for p in settings)
    # A machine reads a fair kernel matrix or fair features beside the ones they are made from.
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
    """Return the columns of the matrix that a support vector machine reads."""
    approximation: Any = getattr(setting, "approximation", None)
    exact = getattr(approximation, "kind", "exact") == "exact"
    batched = getattr(setting, "solver", None) == "batched"
    if exact or (n <= PRECOMPUTED_ROWS and not batched):
        return n
    return min(int(approximation.landmarks), n)


def _factor(approximation: Any, n: int, d: int) -> Cost:
    """Return the cost of one feature map with its moments."""
    kind = getattr(approximation, "kind", "exact")
    if kind == "exact":
        # The kernel, its Cholesky factor, the Gram of that, one more factor; four such matrices.
        return Cost(flops=2.0 * n**2 * d + 1.5 * n**3, bytes=8.0 * 4 * n**2)
    q = min(approximation.landmarks, n)
    # Features live for one block of rows; under a shared map encoded rows do so too.
    held = BLOCK_ROWS * (d + 4.0 * q) + 4.0 * q**2
    if approximation.shared:
        return Cost(flops=2.0 * q**3, bytes=8.0 * held)
    return Cost(flops=streaming_flops(approximation, n, d) + 2.0 * q**3, bytes=8.0 * (held + n * d))
