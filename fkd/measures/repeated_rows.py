"""Rows that count as if they were there as often as their weights say."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_numbers, weight_vector
from fkd.core.row_weights import row_count, weighted_mean

# Of one row: with more of the weight a shuffled column is next to constant.
_LARGEST_SHARE = 0.5


def survey_weights(sample_weight: ArrayLike) -> Array:
    """Return weights scaled to sum to the number of rows whose weight is above zero.

    Measures take a weight of three for three equal rows, and as many rows have a narrower window
    than a third of them. The weights of a survey count the people that a row stands for, millions
    in all, whom nobody asked: scaled by this they keep their proportions, while windows stay those
    of the rows there are.

    Parameters
    ----------
    sample_weight
        Weights (n,), >= 0, in any unit.

    Returns
    -------
    Array
        The weights (n,) in the unit of one average row; zeros stay.

    Examples
    --------
    >>> from fkd.measures import survey_weights
    >>> survey_weights([300.0, 100.0, 0.0]).tolist()
    [1.5, 0.5, 0.0]
    """
    w = weight_vector(sample_weight, np.size(sample_weight))
    if w is None:
        raise ValueError("sample_weight must be one number per row, got None; leave it out instead")
    scaled: Array = w * (np.count_nonzero(w) / w.sum(axis=0))
    return scaled


def weighed(sample_weight: Any, *columns: Array) -> tuple[Array | None, list[Array]]:
    """Return the weights above zero with their rows of each column; None leaves all as they are."""
    w = weight_vector(sample_weight, len(columns[0]))
    if w is None or (w > 0).all():
        return w, [*columns]
    require_two(w)
    return w[w > 0], [column[w > 0] for column in columns]


def require_two(w: Array) -> None:
    """Refuse weights that leave a single row, of which nothing can be measured."""
    if np.count_nonzero(w) < 2:
        raise ValueError(
            "sample_weight must be above 0 in at least two rows, got one such row; weigh more rows"
        )


def require_many(w: Array) -> None:
    """Refuse weights of which one row has nearly all: there is nothing to shuffle it with."""
    share = float(w.max() / w.sum(axis=0))
    if share > _LARGEST_SHARE:
        raise ValueError(
            f"sample_weight must not give more than {_LARGEST_SHARE:.0%} of all weight to one row "
            f"where rows are shuffled, got {share:.1%}; cut the largest weights, or leave them out"
        )


def rows_in_all(w: Array | None, n: int) -> float:
    """Return how many rows the rows stand for, on which every window depends."""
    total = row_count(n, w)
    if w is not None and total < 2:
        raise ValueError(
            f"sample_weight must sum to at least 2, got {total:g}: a weight says how many rows one "
            "row stands for; fkd.measures.survey_weights scales any weights to the number of rows"
        )
    return total


def deviation_of(values: Array, w: Array | None, *, ddof: int = 0) -> float:
    """Return the standard deviation of one column, as if each row were there w times."""
    if w is None:
        return float(values.std(axis=0, ddof=ddof))
    squares = w @ (values - weighted_mean(values, w)) ** 2
    return float(np.sqrt(squares / (rows_in_all(w, len(values)) - ddof)))


def in_order(values: Array, w: Array, places: ArrayLike) -> Array:
    """Return what stands at some places, from 0 on, of the sorted rows, each there w times."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(w[order])
    index = np.searchsorted(ends, as_numbers(places, "places"), side="right")
    return np.asarray(values[order][np.minimum(index, len(values) - 1)])


def quantiles_of(values: Array, shares: ArrayLike, w: Array | None) -> Array:
    """Return quantiles of one column, those of numpy where each row is there w times."""
    shares = np.asarray(shares, dtype=np.float64)
    if w is None:
        return np.asarray(np.quantile(values, shares))
    places = shares * (rows_in_all(w, len(values)) - 1)
    below = np.floor(places)
    low, high = in_order(values, w, np.stack([below, below + 1]))
    # From the nearer end, so that equal ends give just their value.
    part, step = places - below, high - low
    return np.asarray(np.where(part < 0.5, low + part * step, high - (1 - part) * step))
