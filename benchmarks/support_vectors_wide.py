"""Forty support vector regressions on a million rows with a thousand features each."""

from benchmarks.record import Record
from benchmarks.support_vectors import compared

RANK = 1000
SIZES = (100_000,)


def run() -> Record:
    """Return seconds a model, gaps, memory of both solvers on 1000 features."""
    return compared(RANK, SIZES)
