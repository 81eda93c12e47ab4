"""Pairwise fairness on many quarters of the same rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array, row_blocks
from fkd.core.border import as_column, require_length
from fkd.measures.columns import is_constant
from fkd.measures.pair_counts import dense_ranks
from fkd.measures.pair_orders import PairOrders
from fkd.measures.pair_parts import signed_gap
from fkd.measures.subsamples import quarter

# Entries of a tile of pairs; its four masks stay in a processor's outer cache.
PAIR_TILE_CELLS = 1 << 21

# Measured: from about here on counting each quarter by itself is faster than all pairs for all.
QUARTERS_FROM = 1 << 13

Presence = NDArray[np.floating[Any]]


def pairwise_on_quarters(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    replicates: int,
    rng: np.random.Generator,
    w: Array | None = None,
) -> Array:
    """Return `pairwise_fairness` of several predictions on the same quarters, NaN without pairs.

    Both ways draw the same quarters, and count the same pairs in them.

    Parameters
    ----------
    y, predictions, s
        Truth, predictions, one sensitive column, each (n,).
    replicates
        Number of quarters.
    rng
        Source of the quarters.
    w
        How many rows each row stands for (n,), above zero.

    Returns
    -------
    Array
        Values (predictions, replicates).
    """
    if len(y) < QUARTERS_FROM:
        counts = draw_counts(len(y), replicates, rng, w)
        return np.array([resampled_pairwise_fairness(y, f, s, counts) for f in predictions])
    values = np.empty((len(predictions), replicates))
    constant = [is_constant(f) for f in predictions]
    whole, ranks = PairOrders(dense_ranks(y), dense_ranks(s), w), [*map(dense_ranks, predictions)]
    for b in range(replicates):
        rows = quarter(len(y), rng)
        part = whole.take(rows)
        values[:, b] = [
            0.0 if same else abs(signed_gap(part, f[rows]))
            for f, same in zip(ranks, constant, strict=True)
        ]
    return values


def draw_counts(
    n: int, replicates: int, rng: np.random.Generator, w: Array | None = None
) -> Presence:
    """Return how often, once or never, each of n rows is in each quarter, (n, replicates).

    With weights w times instead of once, in float64, since their sums need more digits.
    """
    kind: type[np.floating[Any]] = np.float32 if w is None else np.float64
    counts: Presence = np.zeros((n, replicates), dtype=kind, order="F")
    for b in range(replicates):
        rows = quarter(n, rng)
        counts[rows, b] = 1 if w is None else w[rows]
    return counts


def resampled_pairwise_fairness(
    y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike, counts: Presence
) -> Array:
    """Return `pairwise_fairness` of every resample, NaN where it has no pairs, (replicates,).

    A resample changes how often a pair counts, never whether it is ranked rightly. So pairs are
    looked at once for all resamples, whose sums are matrix products: O(n² replicates), but at the
    speed of a product, tens of times faster than counting each resample alone.

    Parameters
    ----------
    y_true, y_pred, sensitive
        Truth, predictions, one sensitive column, each (n,).
    counts
        Of `draw_counts`.
    """
    f = as_column(y_pred, "y_pred")
    y, s = as_column(y_true, "y_true"), as_column(sensitive, "sensitive")
    for name, column in (("y_true", y), ("sensitive", s), ("counts", counts[:, 0])):
        require_length(np.asarray(column, dtype=np.float64), len(f), name)
    if is_constant(f):
        return np.zeros(counts.shape[1])
    order = np.argsort(-y, kind="stable")
    y, f, s, W = y[order], f[order], s[order], np.asarray(counts[order])
    # Pairs, then those ranked rightly, where the row of larger truth has the larger s; the same
    # where it has the smaller s.
    sums = np.zeros((4, W.shape[1]))
    for rows in row_blocks(len(f), max(1, PAIR_TILE_CELLS // len(f))):
        later = slice(rows.start, None)  # rows of larger truth come first
        larger = y[rows, None] > y[later]
        right = f[rows, None] > f[later]
        for i, condition in enumerate((s[rows, None] > s[later], s[rows, None] < s[later])):
            pairs = larger & condition
            for j, mask in enumerate((pairs, pairs & right)):
                # Exact in float32: no row's sum exceeds n < 2²⁴.
                found = mask.astype(W.dtype) @ W[later]
                sums[2 * i + j] += np.einsum("ib,ib->b", found, W[rows], dtype=np.float64)
    # Few rows of a rare s, or of a rare y, may all be absent from one quarter.
    pairs_above, pairs_below = (np.where(sums[i] > 0, sums[i], np.nan) for i in (0, 2))
    gaps: Array = np.abs(sums[1] / pairs_above - sums[3] / pairs_below)
    return gaps
