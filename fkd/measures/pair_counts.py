"""Exact numbers of row pairs that stand in the same order under several keys, looked at in turn."""

from collections.abc import Sequence

import numpy as np

from fkd.core.arrays import Array, row_blocks
from fkd.measures.ascents import Ranks
from fkd.measures.pair_orders import OrderCounts

TILE_CELLS = 1 << 18  # booleans of one tile: they stay in the cache


def dense_ranks(values: Array) -> Ranks:
    """Return 0 for the least value, 1 for the next one, equal values sharing a rank."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int64, copy=False)


def count_by_tiles(keys: Sequence[Ranks], w: Array | None = None) -> float:
    """Return the number of ordered pairs (i, j) with key[i] > key[j] for every key, in O(n²).

    Parameters
    ----------
    keys
        Dense ranks (n,), one vector per key.
    w
        How many rows each row stands for (n,): pairs count w[i] w[j] each.
    """
    n = len(keys[0])
    # Narrow integers compare several times faster, and the ranks of a tiled problem are small.
    narrow = [key.astype(np.int32) for key in keys]
    total: float = 0
    for tile in row_blocks(n, max(1, TILE_CELLS // n)):
        above = np.greater(narrow[0][tile, None], narrow[0])
        for key in narrow[1:]:
            above &= np.greater(key[tile, None], key)
        total += int(np.count_nonzero(above)) if w is None else float(w[tile] @ (above @ w))
    return total


def orders_by_tiles(y: Ranks | None, s: Ranks, f: Ranks, w: Array | None = None) -> OrderCounts:
    """Return what `PairOrders(y, s, w).counts(f)` does, by comparing each row with each."""
    conditions = [(s,), (_reversed(s),)] if y is None else [(y, s), (y, _reversed(s))]
    pairs, right, wrong = zip(
        *(
            [count_by_tiles([*given, *order], w) for order in ((), (f,), (_reversed(f),))]
            for given in conditions
        ),
        strict=True,
    )
    return OrderCounts((pairs[0], pairs[1]), (right[0], right[1]), (wrong[0], wrong[1]))


def _reversed(ranks: Ranks) -> Ranks:
    """Dense ranks of the opposite order."""
    reversed_ranks: Ranks = ranks.max(axis=0) - ranks
    return reversed_ranks
