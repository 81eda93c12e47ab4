"""Weights, quantiles and scales of single columns, shared by the measures.

A weight of k counts as k equal rows. Quantiles, standard deviations, ranks and bandwidths are
those of the repeated rows.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from fkd.core.arrays import Array
from fkd.core.validation import as_numbers, warn_user, weight_vector
from fkd.core.weights import row_count, weighted_mean

# A standard deviation below this share of the largest magnitude counts as rounding.
CONSTANT_SPREAD = 1e-12
# Scale of s for GDP: by range, by rank, or as given, which must then be within [0, 1].
GdpMargins = Literal["range", "rank", "given"]
# Scale of both sides for HGR: by standard deviation, as published, or by rank.
HgrMargins = Literal["standard", "rank"]
# Largest share of the weight for one row: with more, a shuffled column is nearly constant.
_LARGEST_SHARE = 0.5
# Eight of ten rows lie between these quantiles. In a Gaussian column their distance is 2.56
# standard deviations.
_CENTRAL, _GAUSSIAN = (0.1, 0.9), 2.56
# Central rows within this share of a window are smoothed to one value.
_NARROW = 0.4
# With few rows every window is wide. Outliers are only assumed if the central rows fill less than
# this share of the range.
_CROWDED = 0.12
# Smallest share and number of rows beyond the grid that are reported as a group.
_RARE, _FEWEST = 0.005, 5


def survey_weights(sample_weight: ArrayLike) -> Array:
    """Return weights scaled to sum to the number of rows whose weight is above zero.

    Measures count a weight of three as three equal rows, and bandwidths shrink with the number of
    rows. Survey weights count the people that a row represents, millions in total. Unscaled, they
    would make bandwidths far too narrow for the rows at hand.

    Parameters
    ----------
    sample_weight
        Weights (n,), >= 0, in any unit.

    Returns
    -------
    Array
        The weights (n,), with a mean of one over the rows above zero.

    Examples
    --------
    >>> from fkd.measures import survey_weights
    >>> survey_weights([300.0, 100.0, 0.0]).tolist()
    [1.5, 0.5, 0.0]
    """
    w = weight_vector(sample_weight, np.size(sample_weight))
    if w is None:
        raise ValueError("sample_weight must be one number per row, got None; leave it out")
    scaled: Array = w * (np.count_nonzero(w) / w.sum(axis=0))
    return scaled


def drop_zero_weights(sample_weight: Any, *columns: Array) -> tuple[Array | None, list[Array]]:
    """Return the weights above zero, and the rows of each column that have them.

    Without weights, or without zeros, all rows are returned.
    """
    w = weight_vector(sample_weight, len(columns[0]))
    if w is None or (w > 0).all():
        return w, [*columns]
    require_two_rows(w)
    return w[w > 0], [column[w > 0] for column in columns]


def require_two_rows(w: Array) -> None:
    """Raise if fewer than two weights are above zero."""
    if np.count_nonzero(w) < 2:
        raise ValueError("sample_weight must be above 0 in at least two rows, got one such row")


def require_no_dominant_row(w: Array) -> None:
    """Raise if one row has more than half of the weight: shuffling it has no effect."""
    share = float(w.max() / w.sum(axis=0))
    if share > _LARGEST_SHARE:
        raise ValueError(
            f"sample_weight must not give more than {_LARGEST_SHARE:.0%} of all weight to one row "
            f"if rows are shuffled, got {share:.1%}. Clip the largest weights, or use none."
        )


def total_weight(w: Array | None, n: int) -> float:
    """Return the sum of the weights, or n without weights. Bandwidths depend on it."""
    total = row_count(n, w)
    if w is not None and total < 2:
        raise ValueError(
            f"sample_weight must sum to at least 2, got {total:g}: a weight of k counts as k rows. "
            "fkd.measures.survey_weights scales weights to the number of rows"
        )
    return total


def is_constant(values: Array) -> bool:
    """Return whether the spread of a vector is at most rounding, in any unit."""
    scaled = scale_below_one(values)
    return bool(scaled.std(axis=0) <= CONSTANT_SPREAD * np.abs(scaled).max(axis=0))


def scale_below_one(values: Array) -> Array:
    """Divide a vector by the power of two that brings its largest magnitude below one.

    The division is exact. Squares of small numbers no longer underflow.
    """
    _, exponent = np.frexp(np.abs(values).max(axis=0))
    return np.asarray(np.ldexp(values, -exponent))


def per_column(measure: Callable[[Array], float], S: Array) -> float | Array:
    """Return `measure` of the only column as a float, of several columns as an array (l,)."""
    values = np.array([measure(s) for s in S.T], dtype=np.float64)
    return float(values[0]) if len(values) == 1 else values


def standard_deviation(values: Array, w: Array | None, *, ddof: int = 0) -> float:
    """Return the standard deviation of one column, with each row repeated w times."""
    if w is None:
        return float(values.std(axis=0, ddof=ddof))
    squares = w @ (values - weighted_mean(values, w)) ** 2
    return float(np.sqrt(squares / (total_weight(w, len(values)) - ddof)))


def order_statistics(values: Array, w: Array, positions: ArrayLike) -> Array:
    """Return the values at positions, from 0 on, of the sorted rows, each repeated w times."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(w[order])
    index = np.searchsorted(ends, as_numbers(positions, "positions"), side="right")
    return np.asarray(values[order][np.minimum(index, len(values) - 1)])


def quantiles_of(values: Array, shares: ArrayLike, w: Array | None) -> Array:
    """Return `np.quantile` of one column, with each row repeated w times."""
    shares = np.asarray(shares, dtype=np.float64)
    if w is None:
        return np.asarray(np.quantile(values, shares))
    positions = shares * (total_weight(w, len(values)) - 1)
    below = np.floor(positions)
    low, high = order_statistics(values, w, np.stack([below, below + 1]))
    # Interpolated from the nearer end, so that equal ends give their value exactly.
    part, step = positions - below, high - low
    return np.asarray(np.where(part < 0.5, low + part * step, high - (1 - part) * step))


def by_range(s: Array) -> Array:
    """Return s scaled to [0, 1] by its range."""
    low = s.min(axis=0)
    return np.asarray((s - low) / (s.max(axis=0) - low))


def by_rank(s: Array, w: Array | None = None) -> Array:
    """Return the rank of each s as a share in (0, 1). Ties get their mean rank."""
    if w is None:
        return np.asarray((rankdata(s) - 0.5) / len(s))
    _, inverse = np.unique(s, return_inverse=True)
    at_level = np.bincount(inverse, weights=w)
    return np.asarray((np.cumsum(at_level) - at_level / 2)[inverse] / w.sum(axis=0))


def normal_scores(values: Array, w: Array | None = None) -> Array:
    """Return the standard normal quantiles of the ranks."""
    return np.asarray(ndtri(by_rank(values, w)))


def mean_absolute_error(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of |prediction - target|."""
    return mean_value(np.abs(f - y), sample_weight=sample_weight)


def mean_signed_error(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of prediction - target."""
    return mean_value(f - y, sample_weight=sample_weight)


def mean_value(values: Array, *, sample_weight: Array | None = None) -> float:
    """Return the weighted mean of a column as a float, to be used as a measure."""
    return float(weighted_mean(values, sample_weight))


def warn_outliers(values: Array, window: float, w: Array | None = None) -> None:
    """Warn if the window of a measure is much wider than the central rows.

    Parameters
    ----------
    values
        One column.
    window
        Bandwidth of the measure, in the unit of the column.
    w
        Weights (n,).
    """
    low, high = quantiles_of(values, _CENTRAL, w)
    # For a Gaussian column this is the standard deviation. A width of zero hides nothing: the
    # other rows then differ from the equal ones.
    width = float(high - low) / _GAUSSIAN
    if 0 < width < min(_NARROW * window, _CROWDED * float(np.ptp(values))):
        warn_user(
            f"eight of ten rows lie between {low:g} and {high:g}, but outliers widen the window of "
            f"this measure to {window:g}, which hides dependence among most rows. Use "
            "margins='rank', or set margins explicitly"
        )


def warn_rare_groups(values: Array, reach: float, window: float, w: Array | None = None) -> None:
    """Warn if a group of rows lies beyond the grid of a measure.

    Parameters
    ----------
    values
        One column.
    reach, window
        Distance from the mean that the grid covers, and the bandwidth, in standard deviations.
    w
        Weights (n,).
    """
    z = values - weighted_mean(values, w)
    scale, n = standard_deviation(z, w), total_weight(w, len(z))
    for side in (z, -z) if scale > 0 else ():
        beyond = side > reach * scale
        rows = beyond.sum() if w is None else w[beyond].sum()
        if rows < max(_FEWEST, _RARE * n) or beyond.all():
            continue
        # A group, unlike a tail, is farther from the other rows than it is wide.
        apart = side[beyond].min() - side[~beyond].max()
        if apart > max(window * scale, np.ptp(side[beyond])):
            warn_user(
                f"{rows:.15g} of {n:.15g} rows stand apart, more than {reach:.1f} standard "
                "deviations from the mean, beyond the grid of this measure. Use gdp for them, or "
                "set margins explicitly"
            )
