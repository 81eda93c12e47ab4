"""Random quarters of the rows, which tell how far a measure on all rows is off."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array

# Larger parts give intervals that are too wide where a measure cannot fall any further (PF of a
# fair prediction: 99.5 % at a half), smaller ones too narrow elsewhere: docs/measures.md.
PARTS = 4
FEWEST_ROWS = 2 * PARTS
# Rows from which on only those of the quarter are shuffled, which takes a quarter of the time.
_MANY = 1 << 16


def quarter(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a quarter of the numbers below n, each at most once, rounded down."""
    if n >= _MANY:
        return rng.choice(n, n // PARTS, replace=False, shuffle=False)
    rows: NDArray[np.intp] = rng.permutation(n)[: n // PARTS]
    return rows


def repeated(rows: NDArray[np.intp], w: Array | None = None) -> NDArray[np.intp]:
    """Return the rows of a quarter four times over, once where weights can say so.

    A measure of all equally often repeated rows is that of the rows themselves, but for what it
    derives from their number: bandwidths and grids stay those of n rows.
    """
    return np.tile(rows, PARTS) if w is None else rows


def measured_on(
    measure: Callable[..., Any],
    columns: Sequence[Array | None],
    rows: NDArray[np.intp],
    w: Array | None,
) -> Any:
    """Return a measure of some rows, with weights as one that stand for as many as all rows do."""
    own = [None if column is None else column[rows] for column in columns]
    if w is None:
        return measure(*own)
    scale = w.sum(axis=0) / w[rows].sum(axis=0)
    return measure(*own, sample_weight=scale * w[rows])


def corrected_draws(
    estimate: float | Array, draws: Array, n: int, part: int | None = None
) -> Array:
    """Return estimate + sqrt(b / (n - b)) (draw - mean of draws), b the rows of a draw.

    For a measure that behaves like a mean of rows, draws of b out of n rows have the variance
    1/b - 1/n where the measure itself has 1/n. What few rows add to the level of a measure, such as
    HGR's noise, is in the mean of the draws too, so it cancels.

    Parameters
    ----------
    estimate
        The measure on all n rows, one number or (l,).
    draws
        The measure on random rows of them, (replicates,) or (replicates, l).
    part
        How many rows, a quarter if not said.
    """
    b = n // PARTS if part is None else part
    spread = np.sqrt(b / (n - b)) * (draws - draws.mean(axis=0))
    corrected: Array = estimate + spread
    return corrected


def ends(estimate: float | Array, draws: Array, level: float) -> tuple[Array, Array]:
    """Return the quantiles between which a share `level` of the draws lies, and the estimate."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.minimum(low, estimate), np.maximum(high, estimate)
