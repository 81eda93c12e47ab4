"""The unit in which a measure sees a column."""

from typing import Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from fkd.core.arrays import Array
from fkd.core.cautions import caution
from fkd.core.row_weights import weighted_mean
from fkd.measures.repeated_rows import deviation_of, quantiles_of, rows_in_all

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
        caution(
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
            caution(
                f"{rows:.15g} of {n:.15g} rows stand apart, more than {reach:.1f} standard "
                "deviations from the mean, where this measure sees nothing: what a model does to "
                "them is hidden; look at gdp, or name the margins that are meant"
            )
