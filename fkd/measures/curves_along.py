"""Means of columns as smooth functions of a sensitive attribute, with bands."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_numbers, require_length
from fkd.core.linalg import rank_cut
from fkd.measures.bootstrap import check_draws
from fkd.measures.columns import is_constant
from fkd.measures.level_rows import LevelRows
from fkd.measures.places import LEAST_AT_LEVEL, Places
from fkd.measures.repeated_rows import weighed

# Of this many points a curve is drawn; neighbours are closer than any window.
POINTS = 41


@dataclass(frozen=True)
class CurveBand:
    """The mean of a column near each value of s, with the doubt about it.

    Parameters
    ----------
    points
        Mean of s in each window, rising (g,).
    mean
        Mean of the column in the same window.
    low, high
        Ends of the interval of each point by itself.
    lowest, highest
        Ends of the band that holds the whole curve at once.
    rows
        How many rows count at each point, were all of them to count alike.
    level
        Share of samples in which an interval, or the band, holds what it is for.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import CurveBand
    >>> at, mean = np.array([20.0, 60.0]), np.array([1.0, 3.0])
    >>> curve = CurveBand(at, mean, mean - 1, mean + 1, mean - 2, mean + 2, np.array([9, 9]), 0.95)
    >>> bool((curve.lowest <= curve.low).all())
    True
    """

    points: Array
    mean: Array
    low: Array
    high: Array
    lowest: Array
    highest: Array
    rows: Array
    level: float


def curves_along(
    values: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    points: int = POINTS,
    draws: int = 2000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[CurveBand, ...]:
    """Return E[v | s] as a curve with bands, for each column v of `values`.

    The window is Gaussian in the ranks of s, cut at three deviations: it sees the same share of
    the rows everywhere, and no unit or outlier of s changes it. A column of at most ten levels is
    not smoothed: the mean at each level is that of its rows. The bands are those of the smoothed
    mean; what is lost by smoothing is not in them. They come from its multiplier bootstrap with
    Gaussian multipliers, which given the rows is a Gaussian process: it is drawn from its
    covariance. Student's t stands in where few rows count.

    Parameters
    ----------
    values
        Columns (n,) or (n, k), such as predictions, target or errors. What two models differ by is
        a column too: its band is then paired, row by row.
    sensitive
        One column (n,) that varies.
    rng
        Source of the draws.
    points
        Greatest number of points on a curve that is smoothed.
    draws
        How often the process is drawn.
    level
        Share of samples in which an interval, or the band, holds what it is for, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Points, windows and means are those of rows
        that are there so often; a band takes a heavy row for the one row that it is.

    Returns
    -------
    tuple of CurveBand
        One curve per column, all at the same points.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import curves_along
    >>> age = np.arange(100.0)
    >>> (curve,) = curves_along(2 * age, age, rng=np.random.default_rng(0))
    >>> print(round(curve.points[20], 6), round(curve.mean[20], 6))
    50.0 100.0
    """
    V = as_numbers(values, "values")
    V = V[:, None] if V.ndim == 1 else V
    s = as_column(sensitive, "sensitive")
    require_length(V, len(s), "values")
    w, (V, s) = weighed(sample_weight, V, s)
    check_draws(draws, level)
    if is_constant(s):
        raise ValueError(
            f"sensitive must vary for a curve along it, got {len(s)} times {s[0]:g}; name another "
            "column"
        )
    rows = LevelRows.of(np.column_stack([V, s]), Places.of(s, points, w))
    # One row between many that are equal would have no spread of its own either.
    rows = rows.at(rows.weight**2 >= LEAST_AT_LEVEL * rows.squares)
    # Where the window's rows lie on average: near the ends of s that is not its middle, and a mean
    # that rises evenly with s would be drawn too flat there.
    *means, drawn = rows.means
    # A Gaussian multiplier bootstrap of all curves sees the same draws.
    noise = rng.standard_normal((len(drawn), draws))
    return tuple(
        _with_bands(rows, drawn, mean, H, noise, level)
        for mean, H in zip(means, rows.spreads(), strict=False)
    )


def _with_bands(
    rows: LevelRows, drawn: Array, mean: Array, H: Array, noise: Array, level: float
) -> CurveBand:
    """Return one column's curve with its bands, from sums of its squared distances."""
    # Residuals from a mean of their own fall short by this much, as n - 1 says of n equal rows.
    short = 1 - rows.squares / rows.weight**2
    error = np.sqrt(np.diagonal(H) / short) / rows.weight
    spread = np.sqrt(np.diagonal(H))
    known = spread > rank_cut(len(mean), float(spread.max(axis=0)))
    H = H[np.ix_(known, known)] / spread[known, None] / spread[known]
    rows_at = rows.weight**2 / rows.squares
    widest = _supremum(H, noise[known], level)
    own, whole = (
        stdtrit(rows_at - 1, (1 + share) / 2) * error for share in (level, 2 * ndtr(widest) - 1)
    )
    return CurveBand(
        drawn,
        mean,
        mean - own,
        mean + own,
        mean - whole,
        mean + whole,
        rows_at,
        level,
    )


def _supremum(H: Array, noise: Array, level: float) -> float:
    """Return which bound the greatest of correlated Gaussians keeps in a share of draws."""
    if not len(H):
        return 0.0  # every column is constant at every point: there is no doubt
    eigenvalues, Q = np.linalg.eigh((H + H.T) / 2)
    drawn = (Q * np.sqrt(np.maximum(eigenvalues, 0.0))) @ noise
    return float(np.quantile(np.abs(drawn).max(axis=0), level))
