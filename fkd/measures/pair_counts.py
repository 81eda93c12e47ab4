"""Exact numbers of row pairs that stand in the same order under several keys."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array, row_blocks

Ranks = NDArray[np.int64]

TILE_CELLS = 1 << 18  # booleans of one tile: they stay in the cache
# Measured: from about here sorting beats comparing each row with each.
SORT_FROM = 30_000


def dense_ranks(values: Array) -> Ranks:
    """Return 0 for the least value, 1 for the next one, equal values sharing a rank."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int64, copy=False)


def dominating_pairs(*keys: Ranks) -> int:
    """Return the number of ordered pairs (i, j) with key[i] > key[j] for every key.

    Both ways of counting are exact, so the switch between them cannot be seen in the result.

    Parameters
    ----------
    keys
        Dense ranks (n,), one vector per key.

    Returns
    -------
    int
        A number between 0 and n (n - 1) / 2.
    """
    return count_by_tiles(keys) if len(keys[0]) < SORT_FROM else count_by_sorting(keys)


def count_by_tiles(keys: Sequence[Ranks]) -> int:
    """Return the number of dominating pairs by comparing each row with each, O(n²)."""
    n = len(keys[0])
    # Narrow integers compare several times faster, and the ranks of a tiled problem are small.
    narrow = [key.astype(np.int32) for key in keys]
    total = 0
    for tile in row_blocks(n, max(1, TILE_CELLS // n)):
        above = np.greater(narrow[0][tile, None], narrow[0])
        for key in narrow[1:]:
            above &= np.greater(key[tile, None], key)
        total += int(np.count_nonzero(above))
    return total


def count_by_sorting(keys: Sequence[Ranks]) -> int:
    """Return the number of dominating pairs in O(n log^d n) for d keys."""
    # The loops over bits go to the keys with the fewest levels, the sort to the richest one.
    table = np.stack(keys)
    table = table[np.argsort(table.max(axis=1))]
    combinations = prod(int(top) + 1 for top in table.max(axis=1))
    if combinations >= 2**62:
        raise ValueError(
            f"keys must have fewer than 2^62 combinations of levels, got {combinations:.1e}; "
            "count a sample of the rows"
        )
    group = np.zeros(table.shape[1], dtype=np.int64)
    return _count_in_groups(table, group, table, group)


def _count_in_groups(low: Ranks, low_group: Ranks, high: Ranks, high_group: Ranks) -> int:
    """Pairs of a high and a low column (d, ·) of one group, the high one above in all d rows."""
    if low.shape[1] == 0 or high.shape[1] == 0:
        return 0
    if len(low) == 1:
        return _count_by_search(low[0], low_group, high[0], high_group)
    width = int(max(low[0].max(axis=0), high[0].max(axis=0)))
    total = 0
    # a > b exactly when, above some bit, they agree, while in it a has 1 where b has 0.
    for bit in range(width.bit_length()):
        zero, one = (low[0] >> bit) & 1 == 0, (high[0] >> bit) & 1 == 1
        prefixes = (width >> (bit + 1)) + 1
        total += _count_in_groups(
            low[1:, zero],
            low_group[zero] * prefixes + (low[0, zero] >> (bit + 1)),
            high[1:, one],
            high_group[one] * prefixes + (high[0, one] >> (bit + 1)),
        )
    return total


def _count_by_search(low: Ranks, low_group: Ranks, high: Ranks, high_group: Ranks) -> int:
    """Pairs of one group with high > low, by binary search in the sorted low ones."""
    levels = int(max(low.max(axis=0), high.max(axis=0))) + 1
    ladder = np.sort(low_group * levels + low)
    start = high_group * levels
    below = np.searchsorted(ladder, start + high) - np.searchsorted(ladder, start)
    return int(below.sum(axis=0))
