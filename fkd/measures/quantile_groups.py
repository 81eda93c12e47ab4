"""Rows in groups of like size along one column."""

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.measures.repeated_rows import quantiles_of


def quantile_codes(numbers: Array, groups: int, w: Array | None = None) -> NDArray[np.intp]:
    """Return the number of each row's group, from 0 at the least values on.

    Equal numbers stay together, so where many are equal the groups are fewer or of unlike size.

    Parameters
    ----------
    numbers
        One column (n,).
    groups
        How many groups there are at most.
    w
        How many rows each row stands for, (n,): groups are of like size in these.
    """
    edges = quantiles_of(numbers, np.arange(1, groups) / groups, w)
    below = numbers[numbers < numbers.max(axis=0)]
    if not len(below):
        return np.zeros(len(numbers), dtype=np.intp)
    # Where most rows share the greatest value, those below it are still a group of their own.
    edges = np.unique(np.minimum(edges, below.max(axis=0)))
    _, codes = np.unique(np.searchsorted(edges, numbers, side="left"), return_inverse=True)
    return np.asarray(codes, dtype=np.intp)


def merged_codes(codes: NDArray[np.intp], least: int) -> NDArray[np.intp]:
    """Return the groups with those of fewer than `least` rows joined to the one before them.

    Parameters
    ----------
    codes
        Group of each row, numbered from 0 without a gap.
    least
        Rows that a group has at least, unless all rows together are fewer.
    """
    counts = np.bincount(codes)
    names = np.zeros(len(counts), dtype=np.intp)
    held = int(counts[0])
    for i in range(1, len(counts)):
        # The last group may be too small for itself, which the groups before it cannot know.
        enough = held >= least and int(counts[i:].sum(axis=0)) >= least
        names[i] = names[i - 1] + enough
        held = int(counts[i]) if enough else held + int(counts[i])
    return names[codes]
