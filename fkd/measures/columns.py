"""Columns as the measures see them."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from fkd.core.arrays import Array
from fkd.core.validation import as_numbers, warn_user, weight_vector
from fkd.core.weights import row_count, weighted_mean

# Less spread than this, relative to the largest magnitude, is rounding, not order.
CONSTANT_SPREAD = 1e-12


def in_unit(values: Array) -> Array:
    """Return a vector divided by the power of two that brings its largest magnitude below one.

    No digit changes, and squares of the smallest numbers no longer vanish.
    """
    _, exponent = np.frexp(np.abs(values).max(axis=0))
    return np.asarray(np.ldexp(values, -exponent))


def is_constant(values: Array) -> bool:
    """Return whether the spread of a vector is no more than rounding, whatever its unit."""
    scaled = in_unit(values)
    return bool(scaled.std(axis=0) <= CONSTANT_SPREAD * np.abs(scaled).max(axis=0))


def per_column(measure: Callable[[Array], float], S: Array) -> float | Array:
    """Return `measure` of the only column as a float, of several columns as an array (l,)."""
    values = np.array([measure(s) for s in S.T], dtype=np.float64)
    return float(values[0]) if len(values) == 1 else values


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


# How GDP sees s: by its range, by its rank, or as it is, which must then be scaled to [0, 1].
GdpMargins = Literal["range", "rank", "given"]
# How HGR sees either side: by its standard deviation, as published, or by its rank.
HgrMargins = Literal["standard", "rank"]

# Between these quantiles lie most rows: so many standard deviations of a Gaussian column.
_MOST, _GAUSSIAN = (0.1, 0.9), 2.56
# A window of which they fill less than this share sees them as one.
_NARROW = 0.4
# Of few rows any window is wide: outliers are what most rows fill less than this of the range for.
_SLIVER = 0.12
# So many rows beyond the grid may be a group of people.
_RARE, _FEWEST = 0.005, 5


def by_range(s: Array) -> Array:
    """Return s scaled to [0, 1] by its own range."""
    low = s.min(axis=0)
    return np.asarray((s - low) / (s.max(axis=0) - low))


def by_rank(s: Array, w: Array | None = None) -> Array:
    """Return the rank of each s as a share in (0, 1), ties at their middle."""
    if w is None:
        return np.asarray((rankdata(s) - 0.5) / len(s))
    _, inverse = np.unique(s, return_inverse=True)
    there = np.bincount(inverse, weights=w)
    return np.asarray((np.cumsum(there) - there / 2)[inverse] / w.sum(axis=0))


def normal_scores(values: Array, w: Array | None = None) -> Array:
    """Return the normal quantiles of the ranks: what a Gaussian column of this order would hold."""
    return np.asarray(ndtri(by_rank(values, w)))


def warn_of_outliers(values: Array, window: float, w: Array | None = None) -> None:
    """Warn the caller of a measure whose window is far wider than where most rows lie.

    Parameters
    ----------
    values
        One column.
    window
        Bandwidth of the measure, in the unit of the column.
    w
        How many rows each row stands for.
    """
    low, high = quantiles_of(values, _MOST, w)
    # Of a Gaussian column this is the standard deviation. Most rows may also be equal, which hides
    # nothing: the others are then told apart from them.
    width = float(high - low) / _GAUSSIAN
    if 0 < width < min(_NARROW * window, _SLIVER * float(np.ptp(values))):
        warn_user(
            f"eight of ten rows lie between {low:g} and {high:g}, but outliers widen the window of "
            f"this measure to {window:g}: dependence among most rows is hidden; choose "
            "margins='rank', or name the margins that are meant"
        )


def warn_of_rare_groups(values: Array, reach: float, window: float, w: Array | None = None) -> None:
    """Warn the caller of a measure whose grid ends before a group of rows.

    Parameters
    ----------
    values
        One column.
    reach, window
        How far from the mean the measure sees, how wide a window it has, in standard deviations.
    w
        How many rows each row stands for.
    """
    z = values - weighted_mean(values, w)
    scale, n = deviation_of(z, w), rows_in_all(w, len(z))
    for side in (z, -z) if scale > 0 else ():
        beyond = side > reach * scale
        rows = beyond.sum() if w is None else w[beyond].sum()
        if rows < max(_FEWEST, _RARE * n) or beyond.all():
            continue
        # A tail comes in row by row; a group stands apart, farther than it is wide.
        apart = side[beyond].min() - side[~beyond].max()
        if apart > max(window * scale, np.ptp(side[beyond])):
            warn_user(
                f"{rows:.15g} of {n:.15g} rows stand apart, more than {reach:.1f} standard "
                "deviations from the mean, where this measure sees nothing: what a model does to "
                "them is hidden; look at gdp, or name the margins that are meant"
            )


def mean_error(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of |prediction minus target|."""
    return mean_of(np.abs(f - y), sample_weight=sample_weight)


def mean_excess(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of prediction minus target."""
    return mean_of(f - y, sample_weight=sample_weight)


def mean_of(errors: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of errors: who looks at many samples of the rows takes these once."""
    return float(weighted_mean(errors, sample_weight))
