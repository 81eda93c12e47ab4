"""What fitting several settings costs, for planning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# libsvm's work per pair of rows in units of one multiplication of a matrix product: 1.3 s at
# n = 4370 where products run at 70 GF/s.
_SVR_PER_PAIR = 5000.0


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
    machines = sum(hasattr(p, "C") for p in settings)
    paths = sum(4.0 * n * getattr(p, "iterations", 0) * min(n, 1000) for p in settings)
    return Cost(
        flops=sum(f.flops for f in factors) + machines * _SVR_PER_PAIR * n**2 + paths + 1e6,
        bytes=sum(f.bytes for f in factors) + (8.0 * 2 * n**2 if machines else 0.0) + 1e7,
    )


def _factor(approximation: Any, n: int, d: int) -> Cost:
    """Return the cost of one feature map with its moments."""
    kind = getattr(approximation, "kind", "exact")
    if kind == "exact":
        # The kernel, its Cholesky factor, the Gram of that, one more factor; four such matrices.
        return Cost(flops=2.0 * n**2 * d + 1.5 * n**3, bytes=8.0 * 4 * n**2)
    q = min(approximation.landmarks, n)
    return Cost(flops=2.0 * n * q * (d + q) + 2.0 * q**3, bytes=8.0 * (2.0 * n * q + 4.0 * q**2))
