"""Weights, quantiles and scales of single columns, and counts of two columns in cells.

A weight of k counts as k equal rows. Quantiles, standard deviations, ranks and bandwidths are
those of the repeated rows.

`count_cells` counts rows in the cells of a table of two columns. A column with few levels is
counted at its levels. Any other column is counted at equidistant points: a row between two points
is shared between them in proportion to its distance (linear binning). Shares are integers, so
counts of blocks of rows add up exactly, in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_numbers, require_length, warn_user, weight_vector
from fkd.core.weights import row_count, weighted_mean

# A standard deviation below this share of the largest magnitude counts as rounding.
CONSTANT_SPREAD = 1e-12
# Eight of ten rows lie between these quantiles. In a Gaussian column their distance is 2.56
# standard deviations.
_CENTRAL, _GAUSSIAN = (0.1, 0.9), 2.56
# Central rows within this share of a window are smoothed to one value.
_NARROW = 0.4
# With few rows every window is wide. Outliers are only assumed if the central rows fill less than
# this share of the range.
_CROWDED = 0.12


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


def equal_columns(**columns: ArrayLike | None) -> list[Any]:
    """Return named columns as vectors with as many rows as the first one. None stays None."""
    found: list[Any] = []
    for name, column in columns.items():
        found.append(None if column is None else as_column(column, name))
        if column is not None:
            require_length(found[-1], len(found[0]), name)
    return found


def row_arrays(columns: Sequence[ArrayLike | None]) -> list[Any]:
    """Return the arguments of a measure as arrays with equal row counts. None stays None."""
    if not columns or columns[-1] is None:
        raise ValueError("columns must end with an array, got none")
    found = [
        None if column is None else as_numbers(column, f"argument {i}")
        for i, column in enumerate(columns)
    ]
    first = next(column for column in found if column is not None)
    for i, column in enumerate(found):
        if column is None:
            continue
        if column.ndim == 0:
            raise ValueError(f"argument {i} must have rows, got a single number")
        require_length(column, len(first), f"argument {i}")
    return found


def drop_zero_weights(
    sample_weight: ArrayLike | None, *columns: Array | None
) -> tuple[Array | None, list[Any]]:
    """Return the weights above zero, and the rows of each column that have them.

    Without weights, or without zeros, all rows are returned. None stays None, but the last column
    must be an array.
    """
    assert columns[-1] is not None
    w = weight_vector(sample_weight, len(columns[-1]))
    if w is None or w.all():
        return w, [*columns]
    if np.count_nonzero(w) < 2:
        raise ValueError("sample_weight must be above 0 in at least two rows, got one such row")
    return w[w > 0], [None if column is None else column[w > 0] for column in columns]


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


def float_or_array(values: Sequence[float] | Array) -> float | Array:
    """Return a single value as a float, several as an array (l,)."""
    return float(values[0]) if len(values) == 1 else np.asarray(values, dtype=np.float64)


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
    index = np.searchsorted(ends, np.asarray(positions), side="right")
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
    _, inverse = np.unique(s, return_inverse=True)
    at_level = np.bincount(inverse, weights=w)
    return np.asarray((np.cumsum(at_level) - at_level / 2)[inverse] / row_count(len(s), w))


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


# Largest number of levels that are kept, and number of equidistant points otherwise.
NODES = 2048
# Shares of one row sum to this number. For fewer than 2^33 rows, sums of products of two shares
# stay below 2^53, so that they are exact in float64.
SHARES = 1 << 10
MOST_COUNTED = 1 << 33

# Rows per allowed level that are examined before a whole column is sorted.
_SAMPLE_FACTOR = 8

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Nodes:
    """Points of one column at which its rows are counted.

    Parameters
    ----------
    points
        Increasing (m,).
    step
        Distance between neighbours, or 0.0 if the points are the levels of the column.

    Examples
    --------
    >>> from fkd.measures import Nodes
    >>> Nodes.between(0.0, 1.0, number=5).points.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    points: Array
    step: float

    @classmethod
    def levels(cls, values: Array) -> "Nodes":
        """Return the distinct values as points."""
        return cls(np.unique(values), 0.0)

    @classmethod
    def between(cls, low: float, high: float, number: int = NODES) -> "Nodes":
        """Return equidistant points from low to high."""
        return cls(np.linspace(low, high, number), (high - low) / (number - 1))

    @classmethod
    def few_levels(cls, values: Array, limit: int) -> "Nodes | None":
        """Return the distinct values as points, or None if there are more than `limit`."""
        # The first rows usually decide, which avoids sorting all rows.
        if len(np.unique(values[: _SAMPLE_FACTOR * limit])) > limit:
            return None
        nodes = cls.levels(values)
        return nodes if len(nodes.points) <= limit else None

    def shares(self, values: Array) -> list[tuple[Counts, Counts]]:
        """Return pairs of point indices (n,) and shares (n,). Rows beyond the ends get no share."""
        last = len(self.points) - 1
        if not self.step:
            index = np.minimum(np.searchsorted(self.points, values), last)
            return [(index, np.where(self.points[index] == values, SHARES, 0))]
        positions = (values - self.points[0]) / self.step
        inside = (positions >= 0) & (positions <= last)
        index = np.clip(positions, 0, last - 1).astype(np.int64)
        upper = np.rint((positions - index) * SHARES, where=inside, out=np.zeros(len(values)))
        above = upper.astype(np.int64)
        return [(index, np.where(inside, SHARES - above, 0)), (index + 1, above)]

    def scaled(self, origin: float, unit: float) -> "Nodes":
        """Return the points as distances from an origin, in another unit."""
        return Nodes((self.points - origin) / unit, self.step / unit)

    def window(self, h: float) -> float:
        """Return the bandwidth at the points that corresponds to a bandwidth h at the rows.

        Sharing a row between neighbours adds step² / 6 to its variance on average.
        """
        if self.step >= h:
            raise ValueError(
                f"points must be closer than the window {h:g} of the measure, got steps of "
                f"{self.step:g}. Use a narrower range or more points"
            )
        return float(np.sqrt(h**2 - self.step**2 / 6))


def count_cells(
    f: Array, f_nodes: Nodes, s: Array, s_nodes: Nodes, w: Array | None = None
) -> Counts | Array:
    """Return the rows in each pair of points, in units of SHARES², (points of f, points of s).

    Counts are integers unless a weight is fractional or the weights sum to 2^33 or more.
    """
    shape = len(f_nodes.points), len(s_nodes.points)
    cells = np.zeros(shape[0] * shape[1])
    of_s = s_nodes.shares(s)
    for row, share in f_nodes.shares(f):
        for column, other in of_s:
            # Integers below 2^53 are exact in float64.
            shares = share * other if w is None else share * other * w
            cells += np.bincount(row * shape[1] + column, weights=shares, minlength=len(cells))
    whole = w is None or bool((w == np.rint(w)).all() and w.sum() < MOST_COUNTED)
    return cells.reshape(shape).astype(np.int64) if whole else cells.reshape(shape)
