"""How steady the machine was: the same product, timed again and again between the measurements."""

import time
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from fkd.core.arrays import Array

# A product of some tens of milliseconds: longer than a time slice, so that a busy neighbour shows.
_SIZE, _REPEATS = 1024, 3
LIMIT = 0.15


@dataclass
class Calibration:
    """Seconds of one product, each the best of a few: by the clock, by the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self) -> None:
        """Time the product once more."""
        A = np.full((_SIZE, _SIZE), 0.5)
        with threadpool_limits(1):
            times = [_product(A) for _ in range(_REPEATS)]
        for seconds, found in zip((self.wall, self.cpu), zip(*times, strict=True), strict=True):
            seconds.append(min(found))

    @property
    def variation(self) -> float:
        """How much longer than undisturbed the slowest product took.

        Undisturbed is the least time that the processor itself has counted: under a constant load
        the clock's times are alike, and all of them too long.
        """
        return max(self.wall) / min(self.cpu) - 1.0

    def plain(self) -> dict[str, float | int]:
        """Return what a results file says of it."""
        return {
            "products": len(self.wall),
            "least_cpu_seconds": min(self.cpu),
            "greatest_seconds": max(self.wall),
            "variation": self.variation,
            "limit": LIMIT,
        }


def _product(A: Array) -> tuple[float, float]:
    """Return the seconds of one product by the clock, by the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    A @ A
    return time.perf_counter() - wall, time.process_time() - cpu


# Of the benchmark that runs: there is one per process at a time.
_current = Calibration()


def between() -> None:
    """Time the product between two measurements."""
    _current.take()


def fresh() -> Calibration:
    """Return the calibration of the benchmark that begins now."""
    global _current
    _current = Calibration()
    return _current
