"""Pairwise fairness of very many rows, on random parts that do not grow with them."""

from collections.abc import Sequence

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.ascents import Ranks
from fkd.measures.columns import is_constant
from fkd.measures.pair_counts import dense_ranks
from fkd.measures.pair_orders import PairOrders
from fkd.measures.pairwise import PairwiseRows
from fkd.measures.subsamples import PARTS

# Rows of a part: their pairs are counted in a hundredth of a second.
PART_ROWS = 1 << 13
# Fewer rows are looked at by quarters.
PARTS_FROM = PARTS * PART_ROWS


def pairwise_on_parts(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    gaps: Sequence[float],
    replicates: int,
    rng: np.random.Generator,
    w: Array | None = None,
) -> Array:
    """Return the gap of the two rates on random parts, above 0 where it is as on all rows.

    The absolute value of a small part's gap would fold noise at zero that all rows do not have, so
    that gaps keep their sign; that of all rows is called positive.

    Parameters
    ----------
    y, predictions, s
        Truth, predictions, one sensitive column, each (n,).
    gaps
        Of each prediction on all rows, as `gaps_of` tells them.
    replicates
        Number of parts.
    rng
        Source of the parts.
    w
        How many rows each row stands for (n,), above zero.

    Returns
    -------
    Array
        Values (predictions, replicates), NaN where a part has no pairs to compare.
    """
    constant = [is_constant(f) for f in predictions]
    signs = np.copysign(1.0, gaps)
    values = np.zeros((len(predictions), replicates))
    # Ranked once: of some rows only the order matters, which is that of their ranks among all.
    whole = PairOrders(dense_ranks(y), dense_ranks(s), w)
    ranks = [dense_ranks(f) for f in predictions]
    for b in range(replicates):
        rows = rng.choice(len(y), PART_ROWS, replace=False, shuffle=False)
        part = whole.take(rows)
        for i, f in enumerate(ranks):
            if not constant[i]:
                values[i, b] = signs[i] * signed_gap(part, f[rows])
    return values


def gaps_of(y: Array, predictions: Sequence[Array], s: Array, w: Array | None) -> list[float]:
    """Return the first rate less the second of every prediction, 0 for a constant one."""
    whole = PairwiseRows(y, s, sample_weight=w)
    return [0.0 if is_constant(f) else float(np.subtract(*whole.rates(f))) for f in predictions]


def signed_gap(rows: PairOrders, f: Ranks) -> float:
    """Return the first rate less the second, NaN where there are no pairs to compare."""
    counts = rows.counts(f)
    if 0 in counts.pairs:
        return float("nan")
    above, below = (right / pairs for right, pairs in zip(counts.right, counts.pairs, strict=True))
    return above - below
