"""Where along a sensitive column a curve is looked at, with how much each row counts there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.linalg import rank_cut
from fkd.core.validation import as_column, as_numbers, as_sensitive, require_length
from fkd.measures.columns import by_rank, in_order, is_constant, rows_in_all, weighed
from fkd.measures.gdp import rate
from fkd.measures.groups import (
    DECILES,
    MOST_LEVELS,
    THIRDS,
    GroupMeans,
    LeftOutStratum,
    control_groups,
    means_by_pair,
    means_by_quantile,
    weighed_rows,
    why_not,
)
from fkd.measures.hgr import LeakingFunction, leaking_function
from fkd.measures.resampling import check_draws

# Rows farther than so many windows do not count: a trace of them would be a mean told for sure.
_REACH = 3.0
# A level with fewer rows has no spread to tell an interval from.
LEAST_AT_LEVEL = 2
# Half of the window that GDP smooths by: ranks, spread evenly over (0, 1), deviate by sqrt(1/12).
# A curve is looked at in detail, while GDP is one number.
_WINDOW = 0.5 * float(np.sqrt(1 / 12))


@dataclass(frozen=True)
class Places:
    """Points of s with the rank of each row, or its level where levels are few."""

    points: Array  # (g,)
    at: Array  # (g,), the rank or level of each point
    of_rows: Array  # (n,)
    window: float  # 0.0 where rows count at their own level alone
    w: Array | None = None  # (n,), how many rows each row stands for

    @classmethod
    def of(cls, s: Array, points: int, w: Array | None = None) -> "Places":
        """Return at most so many points of a column that varies."""
        levels, counts = np.unique(s, return_counts=True)
        if len(levels) <= MOST_LEVELS:
            drawn = levels[counts >= LEAST_AT_LEVEL]
            if not len(drawn):
                raise ValueError(
                    f"sensitive must have a value that {LEAST_AT_LEVEL} rows share, or more than "
                    f"{MOST_LEVELS} values, got {len(s)} rows; more rows are needed"
                )
            return cls(drawn, drawn, s, 0.0, w)
        ranks, n = by_rank(s, w), rows_in_all(w, len(s))
        # Of rows in order, those at equal steps: many equal rows are one point.
        steps = np.linspace(0, n - 1, points).round()
        chosen = np.sort(s)[steps.astype(np.intp)] if w is None else in_order(s, w, steps)
        drawn, first = np.unique(chosen), np.argsort(s, kind="stable")
        at = ranks[first][np.searchsorted(s[first], drawn)]
        return cls(drawn, at, ranks, rate(n) * _WINDOW, w)

    def weights(self, rows: slice) -> Array:
        """Return how much a row that is there once counts at each point, (g, rows)."""
        if not self.window:
            return np.asarray(self.at[:, None] == self.of_rows[rows], dtype=np.float64)
        z = (self.at[:, None] - self.of_rows[rows]) / self.window
        return np.where(np.abs(z) <= _REACH, np.exp(-0.5 * z**2), 0.0)


@dataclass(frozen=True)
class LevelRows:
    """Columns of some rows, added up where these count alike at every point.

    A million rows of eighty ages have eighty places. Where all differ, a level is a row.

    Parameters
    ----------
    places
        Points, with the levels in place of rows.
    once, twice
        Sum of the weights of each level's rows, of their squares, (levels,).
    totals
        Weighted sums of the columns, (levels, k).
    centers
        Means of the columns by squared weights, (levels, k).
    around
        Squared distances from them, weighted by squares, (levels, k).
    """

    places: Places
    once: Array
    twice: Array
    totals: Array
    centers: Array
    around: Array

    @classmethod
    def of(cls, V: Array, places: Places) -> "LevelRows":
        """Return the rows of columns V, (n, k)."""
        levels, index = np.unique(places.of_rows, return_inverse=True)
        w = np.ones(len(V)) if places.w is None else places.w

        def added(values: Array) -> Array:
            found = np.bincount(index, weights=values, minlength=len(levels))
            return np.asarray(found, dtype=np.float64)

        twice = added(w**2)
        centers = [added(w**2 * v) / twice for v in V.T]
        around = [added(w**2 * (v - c[index]) ** 2) for v, c in zip(V.T, centers, strict=True)]
        return cls(
            replace(places, of_rows=levels, w=None),
            added(w),
            twice,
            np.column_stack([added(w * v) for v in V.T]),
            np.column_stack(centers),
            np.column_stack(around),
        )

    def at(self, some: NDArray[np.bool_]) -> "LevelRows":
        """Return the same rows at some of the points."""
        points = replace(self.places, points=self.places.points[some], at=self.places.at[some])
        return replace(self, places=points)

    @cached_property
    def _sums(self) -> Array:
        """Of every column, then of weights, then of squared ones, (g, k + 2)."""
        sums = np.zeros((len(self.places.points), self.totals.shape[1] + 2))
        for levels in row_blocks(len(self.once), BLOCK_ROWS):
            B = self.places.weights(levels)
            sums[:, :-2] += B @ self.totals[levels]
            sums[:, -2] += B @ self.once[levels]
            sums[:, -1] += B**2 @ self.twice[levels]
        return sums

    @property
    def weight(self) -> Array:
        """By how much rows count at each point, (g,)."""
        return self._sums[:, -2]

    @property
    def squares(self) -> Array:
        """Sum of the squares of what each row counts there, (g,)."""
        return self._sums[:, -1]

    @property
    def means(self) -> Array:
        """Of every column at every point, (k, g)."""
        return (self._sums[:, :-2] / self.weight[:, None]).T

    def spreads(self) -> Iterator[Array]:
        """Yield for each column the sums over rows of their distances from two points' means.

        Of a row that counts b at one point and c at another: b c (v - mean) (v - other mean),
        (g, g).
        """
        g = len(self.places.points)
        H = np.zeros((self.totals.shape[1], g, g))
        for levels in row_blocks(len(self.once), BLOCK_ROWS):
            B = self.places.weights(levels)
            size = np.sqrt(self.twice[levels])
            for j, mean in enumerate(self.means):
                # Around a level's own center distances from it and from the mean do not mix.
                inner = B * np.sqrt(self.around[levels, j])
                outer = B * (size * (self.centers[levels, j] - mean[:, None]))
                H[j] += inner @ inner.T + outer @ outer.T
        yield from H


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


TARGET, PREDICTION, ERROR, ABSOLUTE = "target", "prediction", "error", "absolute_error"
OTHER_PREDICTION, OTHER_ERROR = "other_prediction", "other_error"
OTHER_ABSOLUTE = "other_absolute_error"
# What the prediction differs by from that of the other model, row by row.
GAIN, ABSOLUTE_CHANGE = "gain", "absolute_error_change"


@dataclass(frozen=True)
class Profile:
    """Means along one sensitive column.

    Parameters
    ----------
    curves
        By name: target, prediction, error (prediction minus target) and absolute error; of another
        model the same with `other_` before it, `gain` (how much more is predicted than by the
        other), `absolute_error_change`.
    groups
        The same means by deciles, each column at the place of its name in `curves`.
    leak, other_leak
        The function of s that is given away most, by the prediction and by that of the other
        model; None for a constant prediction, or without another model.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import Profile, curves_along, means_by_quantile
    >>> age = np.arange(100.0)
    >>> (curve,) = curves_along(2 * age, age, rng=np.random.default_rng(0))
    >>> profile = Profile({"prediction": curve}, means_by_quantile(2 * age, age), None)
    >>> profile.names
    ('prediction',)
    """

    curves: Mapping[str, CurveBand]
    groups: tuple[GroupMeans, ...]
    leak: LeakingFunction | None
    other_leak: LeakingFunction | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order in which groups hold their means."""
        return tuple(self.curves)


@dataclass(frozen=True)
class StratumProfile:
    """Means by thirds of s within one group of the control columns.

    Parameters
    ----------
    label
        Of the group.
    rows
        How many it has.
    groups
        Its thirds, from the least s to the greatest, with their means.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import StratumProfile, means_by_quantile
    >>> age = np.arange(90.0)
    >>> cooks = StratumProfile("cooks", 90, means_by_quantile(2 * age, age, groups=3))
    >>> [third.rows for third in cooks.groups]
    [30, 30, 30]
    """

    label: str
    rows: int
    groups: tuple[GroupMeans, ...]


def profile_along(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    other: ArrayLike | None = None,
    draws: int = 2000,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> Profile:
    """Return means of predictions, truth and errors along one sensitive column, with bands.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive
        One column (n,) that varies.
    rng
        Source of the bands.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    draws
        How many draws the bands come from.
    level
        Share of samples in which an interval, or a band, holds what it is for, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means, groups and windows are those of rows
        that are there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    Profile
        Curves by name, the same means by deciles of s, and what the prediction gives away most.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_along
    >>> age = np.arange(100.0)
    >>> found = profile_along(age, 0.5 * age + 25, age, rng=np.random.default_rng(0))
    >>> found.names
    ('target', 'prediction', 'error', 'absolute_error')
    >>> [round(float(found.groups[i].mean[2]), 6) for i in (0, -1)]  # error of least and greatest s
    [22.75, -22.25]
    """
    columns = means_of(y_true, y_pred, other)
    s = as_column(sensitive, "sensitive")
    V = np.column_stack(list(columns.values()))
    w = sample_weight
    curves = curves_along(V, s, rng=rng, draws=draws, level=level, sample_weight=w)
    return Profile(
        dict(zip(columns, curves, strict=True)),
        means_by_quantile(V, s, groups=DECILES, level=level, sample_weight=w),
        _leak(columns[PREDICTION], s, w),
        None if other is None else _leak(columns[OTHER_PREDICTION], s, w),
    )


def profile_within(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    control_features: ArrayLike,
    other: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[StratumProfile, ...], tuple[LeftOutStratum, ...]]:
    """Return means of predictions, truth and errors by thirds of s within groups of other columns.

    A group is left out, by name and with the reason, if it has fewer than 30 rows or if s is
    constant in it.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive
        One column (n,).
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means and groups are those of rows that are
        there so often; an interval takes a heavy row for the one row that it is;
        a group is left out by its rows, not by their weights.

    Returns
    -------
    tuple
        The groups with their means, target, prediction, error (prediction minus target) and
        absolute error in this order; then the groups left out.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_within
    >>> age, job = np.arange(100.0), np.repeat(["cook", "pilot"], [90, 10])
    >>> (cooks,), (pilots,) = profile_within(age, age + 5, age, control_features=job)
    >>> [round(float(third.mean[2]), 6) for third in cooks.groups]
    [5.0, 5.0, 5.0]
    >>> pilots.why
    'fewer than 30 rows'
    """
    V = np.column_stack(list(means_of(y_true, y_pred, other).values()))
    s = as_column(sensitive, "sensitive")
    require_length(s, len(V), "sensitive")
    rows, control, w = weighed_rows([V, s], control_features, sample_weight)
    V, s = (np.asarray(column) for column in rows)
    found, left_out = [], []
    for group in control_groups(control, len(s), w):
        index, n = group.index, len(group.index)
        own = None if w is None else w[index]
        if why := why_not(s[index, None], own):
            left_out.append(LeftOutStratum(group.label, n, why))
        else:
            thirds = means_by_quantile(
                V[index], s[index], groups=THIRDS, level=level, sample_weight=own
            )
            found.append(StratumProfile(group.label, n, thirds))
    return tuple(found), tuple(left_out)


def profile_of_pair(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    other: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> tuple[tuple[GroupMeans, ...], tuple[LeftOutStratum, ...]]:
    """Return means of predictions, truth and errors by thirds of two sensitive columns at once.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in one unit, which is that of every mean.
    sensitive_features
        Two columns (n, 2), each cut by itself.
    other
        Predictions of another model on the same rows, such as one with nothing removed; its means
        and those of the differences are then added.
    level
        Share of samples in which an interval holds its mean, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0. Means and groups are those of rows that are
        there so often; an interval takes a heavy row for the one row that it is.

    Returns
    -------
    tuple
        The groups of at least 30 rows with their means, target, prediction, error (prediction
        minus target) and absolute error in this order; then the others with what they lack.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import profile_of_pair
    >>> age, income = np.repeat(np.arange(30.0), 30), np.tile(np.arange(30.0), 30)
    >>> groups, left_out = profile_of_pair(age, age + 5, np.column_stack([age, income]))
    >>> print(len(groups), groups[0].rows, groups[0].ranges, round(groups[0].mean[2], 6))
    9 100 ((0.0, 9.0), (0.0, 9.0)) 5.0
    """
    columns = means_of(y_true, y_pred, other)
    V = np.column_stack(list(columns.values()))
    S = as_sensitive(sensitive_features, len(V))
    if S.shape[1] != 2:
        raise ValueError(f"sensitive_features must be two columns here, got {S.shape[1]}")
    return means_by_pair(V, S[:, 0], S[:, 1], level=level, sample_weight=sample_weight)


def means_of(
    y_true: ArrayLike, y_pred: ArrayLike, other: ArrayLike | None = None
) -> dict[str, Array]:
    """Return by name the columns whose means a profile holds, each (n,)."""
    y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
    require_length(y, len(f), "y_true")
    columns = {TARGET: y, PREDICTION: f, ERROR: f - y, ABSOLUTE: np.abs(f - y)}
    if other is None:
        return columns
    g = as_column(other, "other")
    require_length(g, len(f), "other")
    return {
        **columns,
        OTHER_PREDICTION: g,
        OTHER_ERROR: g - y,
        OTHER_ABSOLUTE: np.abs(g - y),
        GAIN: f - g,
        ABSOLUTE_CHANGE: np.abs(f - y) - np.abs(g - y),
    }


def _leak(f: Array, s: Array, sample_weight: ArrayLike | None) -> LeakingFunction | None:
    """Return what a prediction gives away, None where it says the same of all rows."""
    w, (f, s) = weighed(sample_weight, f, s)
    return None if is_constant(f) else leaking_function(f, s, sample_weight=w)
