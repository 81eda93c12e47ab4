"""Changes of errors, measures and curves of a model between two samples of rows.

This is a permutation test. If both samples come from one distribution, every division of the
pooled rows into two parts of these sizes is equally likely. The differences of the observed
division are therefore compared with those of random divisions.

All quantities (errors, HGR, GDP and PF of every sensitive column, curves along it) share one band.
Each difference is standardised by the mean and standard deviation of the *other* divisions, and the
largest standardised difference of the observed division is ranked among those of all divisions.
Its rank is uniform, so the level is exact for any distribution and any number of quantities.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.linalg import EPS
from fkd.core.validation import FairnessWarning, as_column, as_sensitive, require_length
from fkd.measures.columns import is_constant
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION, Smoothing
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import check_draws

ERROR_RANK = "error_rank"
# Smallest number of rows of a sample.
FEWEST_COMPARED = 30
# Smallest number of defined values of a difference over divisions.
_FEWEST = 3
# Smallest effective number of rows of either side at a point.
_LEAST = 8
_MEASURES = tuple(measure.scaled() for measure in REPORTED.values())
Sample = tuple[ArrayLike, ArrayLike, Any]  # truth, prediction, sensitive columns


@dataclass(frozen=True)
class NumberChange:
    """One number on two samples of rows.

    Parameters
    ----------
    quantity, column
        mae, error (mean signed error), error_rank (mean rank of the signed error among all rows, as
        a share), or hgr, gdp, pf of a sensitive column.
    before, after
        Value on the earlier rows and on the later rows.
    change, low, high
        After minus before, minus the mean difference of random divisions, which corrects for
        unequal sample sizes, and the ends of its band.
    crossed
        Whether the band excludes zero.

    Examples
    --------
    >>> from fkd.measures import NumberChange
    >>> NumberChange("mae", "", 2.0, 3.0, 1.0, 0.4, 1.6, True).crossed
    True
    """

    quantity: str
    column: str
    before: float
    after: float
    change: float
    low: float
    high: float
    crossed: bool


@dataclass(frozen=True)
class CurveChange:
    """The mean of one column along s on two samples of rows.

    Parameters
    ----------
    quantity, column
        prediction, error, absolute_error or error_rank, and the sensitive column.
    points
        Values of s (g,), increasing.
    before, after
        Smoothed means at the points. NaN if a sample has too few rows there.
    change, low, high
        After minus before, with the ends of the band, which covers all points and quantities.
    crossed
        Whether the band excludes zero, per point.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import CurveChange
    >>> at, mean = np.array([20.0, 60.0]), np.array([1.0, 3.0])
    >>> moved = CurveChange("error", "age", at, mean, mean + 1, mean * 0 + 1, mean, mean, at > 30)
    >>> moved.points[moved.crossed]
    array([60.])
    """

    quantity: str
    column: str
    points: Array
    before: Array
    after: Array
    change: Array
    low: Array
    high: Array
    crossed: NDArray[np.bool_]


@dataclass(frozen=True)
class SampleChanges:
    """Result of `sample_changes`.

    Parameters
    ----------
    numbers, curves
        All quantities, with their joint band.
    chance
        p-value: share of divisions whose largest standardised difference is at least the observed.
    rows
        Number of rows before and after.
    level
        Probability that no band excludes zero if both samples come from one distribution.

    Examples
    --------
    >>> from fkd.measures import SampleChanges
    >>> SampleChanges((), (), 0.5, (400, 900), 0.95).crossed
    False
    """

    numbers: tuple[NumberChange, ...]
    curves: tuple[CurveChange, ...]
    chance: float
    rows: tuple[int, int]
    level: float

    @property
    def crossed(self) -> bool:
        """Whether any band excludes zero."""
        return any(one.crossed for one in self.numbers) or any(
            bool(one.crossed.any()) for one in self.curves
        )


def sample_changes(
    before: Sample,
    after: Sample,
    *,
    rng: np.random.Generator,
    names: Sequence[str] = (),
    sensitive_range: ArrayLike | None = None,
    permutations: int = 199,
    level: float = 0.95,
    most_rows: int = 20_000,
) -> SampleChanges:
    """Return the changes between two samples of rows that one model predicts.

    The quantities are mean absolute error, mean signed error, mean rank of the signed error, HGR,
    GDP and PF of every sensitive column, and along it the mean prediction, signed error, absolute
    error and rank. Ranks are shares among all rows of both samples: the difference of their means
    is P(a later row has the larger error than an earlier one) - 1/2.

    If both samples come from one distribution, a change is reported with probability at most
    1 - level. Rows must be independent, and none of them may have been used to train the model.

    Parameters
    ----------
    before, after
        Truth (n,), prediction (n,) and sensitive columns (n,) or (n, l), at least 30 rows each.
    rng
        Source of the divisions.
    names
        Names of the sensitive columns. Default: their numbers.
    sensitive_range
        Smallest and largest value (l, 2), the unit of s for GDP. Default: those of all these rows.
    permutations
        Number of random divisions. With 199 a level of 0.95 is exact.
    level
        Probability that no change is reported under one distribution, in (0, 1).
    most_rows
        Larger samples are reduced to this number of rows at random.

    Returns
    -------
    SampleChanges
        Numbers, curves and the p-value of the largest change.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import sample_changes
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 80, size=600)
    >>> wage = age + rng.normal(size=600)
    >>> then, now = slice(0, 300), slice(300, 600)
    >>> found = sample_changes(
    ...     (wage[then], age[then], age[then]),
    ...     (wage[now] + 3 * (age[now] > 60), age[now], age[now]),
    ...     rng=rng,
    ...     permutations=39,
    ... )
    >>> error = next(curve for curve in found.curves if curve.quantity == "error")
    >>> bool(found.crossed and error.points[error.crossed].min() > 50)
    True
    """
    check_draws(permutations, level)
    if (permutations + 1) * (1 - level) < 1:
        fewest = int(np.ceil(1 / (1 - level))) - 1
        raise ValueError(
            f"permutations must be at least {fewest} for a band of level {level:g}, got "
            f"{permutations}"
        )
    y, f, S, n_before = _pooled(before, after, rng, most_rows)
    names = tuple(names) or tuple(str(j) for j in range(S.shape[1]))
    for name, s in zip(names, S.T, strict=True):
        if is_constant(s):
            raise ValueError(f"sensitive column {name} must vary, got {s[0]:g} in every row")
    error = f - y
    # Few rows dominate the mean of long-tailed errors. The band of their ranks is narrower.
    V = np.column_stack([f, error, np.abs(error), rankdata(error) / len(y)])
    divisions = _divisions(n_before, len(y), permutations, rng)
    U = _in_range_units(S, sensitive_range)
    with warnings.catch_warnings(action="ignore", category=FairnessWarning):
        numbers = [[_numbers(y[d], f[d], V[d], U[d]) for d in (own, ~own)] for own in divisions]
    curves = [_permuted_curves(V, s, divisions) for s in S.T]
    # By division, side and quantity: the numbers, then the points of every curve.
    flat = [means.reshape(*means.shape[:2], -1) for _, means in curves]
    sides = np.concatenate([np.array(numbers), *flat], axis=2)
    differences = sides[:, 1] - sides[:, 0]
    size = np.nan_to_num(np.abs(sides[0])).max(axis=0)
    bands = permuted_bands(differences[0], differences[1:], size, level)
    # One line per quantity: before, after, change, low, high.
    lines = np.column_stack([*sides[0], bands.change, bands.low, bands.high])
    labels = [("mae", ""), (ERROR, ""), (ERROR_RANK, "")]
    labels += [(measure.name, column) for column in names for measure in _MEASURES]
    found = []
    for label, line, outside in zip(labels, lines, bands.outside, strict=False):
        if np.isfinite(line).all():
            was, now, change, low, high = line.tolist()
            found.append(NumberChange(*label, was, now, change, low, high, bool(outside)))
    k, rows = len(labels), (n_before, len(y) - n_before)
    changed = _curve_changes(names, [points for points, _ in curves], lines[k:], bands.outside[k:])
    return SampleChanges(tuple(found), tuple(changed), bands.chance, rows, level)


def _pooled(
    before: Sample, after: Sample, rng: np.random.Generator, most_rows: int
) -> tuple[Array, Array, Array, int]:
    """Return truth, prediction and sensitive columns of both samples, and the rows before."""

    def checked(y_true: ArrayLike, y_pred: ArrayLike, sensitive: Any, which: str) -> list[Array]:
        y, f = as_column(y_true, f"truth {which}"), as_column(y_pred, f"prediction {which}")
        require_length(f, len(y), f"prediction {which}")
        if len(y) < FEWEST_COMPARED:
            raise ValueError(
                f"the sample {which} must have at least {FEWEST_COMPARED} rows to be compared, "
                f"got {len(y)}"
            )
        columns = [y, f, as_sensitive(sensitive, len(y))]
        if len(y) <= most_rows:
            return columns
        kept = np.sort(rng.choice(len(y), most_rows, replace=False))
        return [column[kept] for column in columns]

    samples = [checked(*before, "before"), checked(*after, "after")]
    widths = [S.shape[1] for _, _, S in samples]
    if widths[0] != widths[1]:
        raise ValueError(
            f"before and after must have as many sensitive columns, got {widths[0]} and {widths[1]}"
        )
    y, f, S = (np.concatenate(columns) for columns in zip(*samples, strict=True))
    return y, f, S, len(samples[0][0])


def _in_range_units(S: Array, sensitive_range: ArrayLike | None) -> Array:
    """Return the columns in units of their range, or of a wider one that is given, (l, 2)."""
    low, high = S.min(axis=0), S.max(axis=0)
    if sensitive_range is not None:
        given = np.asarray(sensitive_range, dtype=np.float64).reshape(-1, 2)
        low, high = np.minimum(given[:, 0], low), np.maximum(given[:, 1], high)
    return np.asarray((S - low) / (high - low))


def _divisions(
    n_before: int, n: int, permutations: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return masks of the first side, (r + 1, n). The first mask is the observed division."""
    divisions = np.zeros((permutations + 1, n), dtype=bool)
    divisions[0, :n_before] = True
    for division in divisions[1:]:
        division[rng.permutation(n)[:n_before]] = True
    return divisions


def _numbers(y: Array, f: Array, V: Array, U: Array) -> list[float]:
    """Return mean errors and measures of one side. A measure that is undefined is NaN."""
    error, absolute, rank = V[:, 1:].mean(axis=0).tolist()
    found = [absolute, error, rank]
    for u in U.T:
        for measure in _MEASURES:
            try:
                found.append(float(measure(*measure.columns(y, f, u))))
            except UndefinedMeasureError:
                found.append(np.nan)
    return found


def _permuted_curves(V: Array, s: Array, divisions: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return curves of columns (n, k) on both sides of divisions (r, n), true on the first side.

    The smoothing weights are those of the pooled rows, so that both sides are smoothed in the same
    way even if s is distributed differently.

    Returns
    -------
    tuple
        Mean of s in each window, over all rows (g,), and means by division, side, column and
        point, (r, 2, k, g). NaN if a side has too few rows.
    """
    smoothing = Smoothing.from_column(s)
    r, k, g = len(divisions), V.shape[1], len(smoothing.positions)
    first, whole = np.zeros((k + 2, g, r)), np.zeros((k + 2, g))
    sums_of_s = np.zeros(g)
    for rows in row_blocks(len(V), BLOCK_ROWS):
        B = smoothing.weights(rows)
        A = divisions[:, rows].T.astype(np.float64)
        sums_of_s += B @ s[rows]
        for j, W in enumerate([*(B * v for v in V[rows].T), B, B**2]):
            first[j] += W @ A
            whole[j] += W.sum(axis=1)
    sides = np.stack([first, whole[:, :, None] - first])  # (2, k + 2, g, r)
    weight, squares = sides[:, k], sides[:, k + 1]
    enough = weight**2 >= _LEAST * np.maximum(squares, np.finfo(np.float64).tiny)
    divisor = np.where(enough, weight, 1.0)[:, None]
    means = np.where(enough[:, None], sides[:, :k] / divisor, np.nan)
    return sums_of_s / whole[k], means.transpose(3, 0, 1, 2)


def _curve_changes(
    names: Sequence[str], points: Sequence[Array], lines: Array, outside: NDArray[np.bool_]
) -> Iterator[CurveChange]:
    """Yield the curves of every column from consecutive lines, one per point."""
    start = 0
    for name, own in zip(names, points, strict=True):
        for quantity in (PREDICTION, ERROR, ABSOLUTE, ERROR_RANK):
            part = slice(start, start + len(own))
            was, now, change, low, high = lines[part].T
            yield CurveChange(quantity, name, own, was, now, change, low, high, outside[part])
            start = part.stop


@dataclass(frozen=True)
class PermutedBands:
    """Differences with their joint band.

    Parameters
    ----------
    change
        Differences minus their mean over other divisions. NaN if undefined.
    low, high
        Ends of the band around the change.
    outside
        Whether the band excludes zero.
    chance
        p-value of the largest standardised difference, in (0, 1].
    """

    change: Array
    low: Array
    high: Array
    outside: NDArray[np.bool_]
    chance: float


def permuted_bands(observed: Array, permuted: Array, size: Array, level: float) -> PermutedBands:
    """Return the joint band of differences (k,) from those of random divisions, (r, k).

    Every division is standardised by mean and standard deviation of the others, so that the
    observed one is treated like the rest. The largest of its k standardised differences then has a
    uniform rank among r + 1. One of the k lies outside of the band with probability at most
    1 - level, for any distribution.

    Parameters
    ----------
    observed
        Differences of the two samples. NaN if undefined.
    permuted
        The same for random divisions of the pooled rows.
    size
        Magnitude of the two numbers of each difference. Differences below their rounding error are
        ignored.
    level
        Probability that all k lie inside if both samples come from one distribution, in (0, 1).
    """
    X = np.vstack([observed, permuted])
    center, deviation = _leave_one_out_moments(X)
    rounding = len(X) * EPS * size
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(X - center) / deviation
    # A quantity without variation, such as HGR of a constant prediction, is never a change.
    z[np.isnan(z) | (np.abs(X - center) <= rounding)] = 0.0
    largest = z.max(axis=1)
    rank = int(np.ceil(level * len(X)))
    bound = float(np.sort(largest)[min(rank, len(X)) - 1])
    change = X[0] - center[0]
    reach = bound * deviation[0]
    return PermutedBands(
        change, change - reach, change + reach, z[0] > bound, float((largest >= largest[0]).mean())
    )


def _leave_one_out_moments(X: Array) -> tuple[Array, Array]:
    """Return for every row the mean and standard deviation of each column over the other rows."""
    known = np.isfinite(X)
    n = known.sum(axis=0)
    middle = np.where(known, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    D = np.where(known, X - middle, 0.0)
    others = np.maximum(n - known, 1)
    mean = -D / others
    squares = (D**2).sum(axis=0) - D**2 - others * mean**2
    deviation = np.sqrt(np.maximum(squares, 0.0) / np.maximum(others - 1, 1))
    center = np.where(known & (n >= _FEWEST), middle + mean, np.nan)
    return center, deviation
