"""Pairwise fairness of very many rows, on random parts that do not grow with them."""

from collections.abc import Sequence

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.columns import is_constant
from fkd.measures.pairwise import PairwiseRows
from fkd.measures.strata import UndefinedMeasureError
from fkd.measures.subsamples import PARTS

# Rows of a part: their pairs are counted in a hundredth of a second.
PART_ROWS = 1 << 13
# Fewer rows are looked at by quarters.
PARTS_FROM = PARTS * PART_ROWS


def pairwise_on_parts(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
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
    whole = PairwiseRows(y, s, sample_weight=w)
    signs = [
        1.0 if same else np.copysign(1.0, signed_gap(whole, f))
        for f, same in zip(predictions, constant, strict=True)
    ]
    values = np.zeros((len(predictions), replicates))
    for b in range(replicates):
        rows = rng.choice(len(y), PART_ROWS, replace=False, shuffle=False)
        part = PairwiseRows(y[rows], s[rows], sample_weight=None if w is None else w[rows])
        for i, f in enumerate(predictions):
            if not constant[i]:
                values[i, b] = signs[i] * signed_gap(part, f[rows])
    return values


def signed_gap(rows: PairwiseRows, f: Array) -> float:
    """Return the first rate less the second, NaN where there are no pairs to compare."""
    try:
        above, below = rows.rates(f)
    except UndefinedMeasureError:
        return float("nan")
    return float(np.subtract(above, below))
