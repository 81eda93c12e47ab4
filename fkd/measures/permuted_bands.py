"""Bands of many differences at once, from what exchanging rows between two samples gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.core.linalg import EPS

# Fewer values of a difference have no spread to measure it by.
_FEWEST = 3


@dataclass(frozen=True)
class PermutedBands:
    """Differences with the band that holds all of them at once.

    Parameters
    ----------
    change
        Each difference less its mean over exchanges, which is what the numbers of rows alone make
        of it; NaN where it is not known.
    low, high
        Ends of the band around it.
    outside
        Whether the band leaves out zero.
    chance
        How often exchanged rows differ as much somewhere, in (0, 1].
    """

    change: Array
    low: Array
    high: Array
    outside: NDArray[np.bool_]
    chance: float


def permuted_bands(observed: Array, permuted: Array, size: Array, level: float) -> PermutedBands:
    """Return the bands of differences (k,) by the same ones of exchanged rows, (r, k).

    If both samples are drawn from one distribution, the true division of the rows is one of all
    that are equally likely. Each division is measured by the others (their mean, their deviation),
    so that none is told apart; the greatest of its k standardised differences then has a rank among
    r + 1 that is even. One of the k lies outside in at most a share 1 - level of samples, exactly,
    whatever the distribution is.

    Parameters
    ----------
    observed
        Differences of the two samples; NaN where one cannot be taken.
    permuted
        The same of rows that were exchanged at random.
    size
        How large the two numbers are of which each is the difference: below their rounding it is
        none.
    level
        Share of samples of equal distribution in which all k lie inside, in (0, 1).
    """
    X = np.vstack([observed, permuted])
    center, deviation = _by_others(X)
    rounding = len(X) * EPS * size
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(X - center) / deviation
    # A quantity that never varies, such as that of a constant prediction, says nothing.
    z[np.isnan(z) | (np.abs(X - center) <= rounding)] = 0.0
    greatest = z.max(axis=1)
    rank = int(np.ceil(level * len(X)))
    bound = float(np.sort(greatest)[min(rank, len(X)) - 1])
    change = X[0] - center[0]
    reach = bound * deviation[0]
    return PermutedBands(
        change,
        change - reach,
        change + reach,
        z[0] > bound,
        float((greatest >= greatest[0]).mean()),
    )


def _by_others(X: Array) -> tuple[Array, Array]:
    """Return mean and deviation of each column over all other rows, for every row."""
    known = np.isfinite(X)
    n = known.sum(axis=0)
    few = n < _FEWEST
    middle = np.where(known, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    D = np.where(known, X - middle, 0.0)
    others = np.maximum(n - known, 1)
    mean = -D / others
    squares = (D**2).sum(axis=0) - D**2 - others * mean**2
    deviation = np.sqrt(np.maximum(squares, 0.0) / np.maximum(others - 1, 1))
    center = np.where(known & ~few, middle + mean, np.nan)
    return center, deviation
