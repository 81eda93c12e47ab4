"""Changes of a model's numbers and curves between two samples of rows.

Rows of the two samples are exchanged at random. If both come from one distribution, every division
is equally likely, so the observed change has an even rank among those of the exchanged rows.
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
from fkd.measures.profiles import ABSOLUTE, ERROR, POINTS, PREDICTION, Places
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import check_draws


@dataclass(frozen=True)
class NumberChange:
    """One number on two samples of rows.

    Parameters
    ----------
    quantity, column
        mae, error (the mean signed one), error_rank (its mean rank among all rows, as a share), or
        hgr, gdp, pf of a sensitive column.
    before, after
        On the earlier rows, on the later ones.
    change, low, high
        After minus before, less what the two numbers of rows alone make of it; ends of its band.
    crossed
        Whether the band leaves out zero.

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
        prediction, error, absolute_error or error_rank, along which sensitive column.
    points
        Values of s (g,), rising.
    before, after
        Means near each of them; NaN where a sample has too few rows.
    change, low, high
        After minus before with the ends of its band, which is one for all points and quantities.
    crossed
        Where the band leaves out zero.

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
    """Everything that was compared on two samples, as `sample_changes` returns it.

    Parameters
    ----------
    numbers, curves
        Each with the band that holds all of them at once.
    chance
        How often rows of one distribution differ as much somewhere.
    rows
        How many rows were compared, before and after.
    level
        Share of samples of one distribution in which no band leaves out zero.

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
        """Whether something changed by more than exchanged rows would."""
        return any(one.crossed for one in self.numbers) or any(
            bool(one.crossed.any()) for one in self.curves
        )


# Fewer values of a difference have no spread to measure it by.
_FEWEST = 3


@dataclass(frozen=True)
class PermutedBands:
    """Differences with the band that holds all of them at once.

    Parameters
    ----------
    change
        Each difference less its mean over exchanges, which is what the numbers of rows alone make
        of it; NaN where it is not known.
    low, high
        Ends of the band around it.
    outside
        Whether the band leaves out zero.
    chance
        How often exchanged rows differ as much somewhere, in (0, 1].
    """

    change: Array
    low: Array
    high: Array
    outside: NDArray[np.bool_]
    chance: float


def permuted_bands(observed: Array, permuted: Array, size: Array, level: float) -> PermutedBands:
    """Return the bands of differences (k,) by the same ones of exchanged rows, (r, k).

    If both samples are drawn from one distribution, the true division of the rows is one of all
    that are equally likely. Each division is measured by the others (their mean, their deviation),
    so that none is told apart; the greatest of its k standardised differences then has a rank among
    r + 1 that is even. One of the k lies outside in at most a share 1 - level of samples, exactly,
    whatever the distribution is.

    Parameters
    ----------
    observed
        Differences of the two samples; NaN where one cannot be taken.
    permuted
        The same of rows that were exchanged at random.
    size
        How large the two numbers are of which each is the difference: below their rounding it is
        none.
    level
        Share of samples of equal distribution in which all k lie inside, in (0, 1).
    """
    X = np.vstack([observed, permuted])
    center, deviation = _by_others(X)
    rounding = len(X) * EPS * size
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(X - center) / deviation
    # A quantity that never varies, such as that of a constant prediction, says nothing.
    z[np.isnan(z) | (np.abs(X - center) <= rounding)] = 0.0
    greatest = z.max(axis=1)
    rank = int(np.ceil(level * len(X)))
    bound = float(np.sort(greatest)[min(rank, len(X)) - 1])
    change = X[0] - center[0]
    reach = bound * deviation[0]
    return PermutedBands(
        change,
        change - reach,
        change + reach,
        z[0] > bound,
        float((greatest >= greatest[0]).mean()),
    )


def _by_others(X: Array) -> tuple[Array, Array]:
    """Return mean and deviation of each column over all other rows, for every row."""
    known = np.isfinite(X)
    n = known.sum(axis=0)
    few = n < _FEWEST
    middle = np.where(known, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    D = np.where(known, X - middle, 0.0)
    others = np.maximum(n - known, 1)
    mean = -D / others
    squares = (D**2).sum(axis=0) - D**2 - others * mean**2
    deviation = np.sqrt(np.maximum(squares, 0.0) / np.maximum(others - 1, 1))
    center = np.where(known & ~few, middle + mean, np.nan)
    return center, deviation


# Fewer rows on either side than this say nothing of a curve, and hardly anything of HGR.
FEWEST_COMPARED = 30
ERROR_RANK = "error_rank"
Sample = tuple[ArrayLike, ArrayLike, Any]  # truth, prediction, sensitive columns
_MEASURES = tuple(measure.scaled() for measure in REPORTED.values())


@dataclass(frozen=True)
class ExchangedRows:
    """The rows of both samples, those of the first before those of the second."""

    y: Array
    f: Array
    S: Array
    U: Array  # S in units of its range
    ranks: Array  # of the signed errors among all rows, in (0, 1]
    names: tuple[str, ...]
    n_before: int

    @classmethod
    def of(
        cls,
        before: Sample,
        after: Sample,
        rng: np.random.Generator,
        most: int,
        unit: ArrayLike | None,
        names: tuple[str, ...],
    ) -> "ExchangedRows":
        """Return the checked rows of both samples, at most so many of each."""
        first, second = (
            _drawn(*_checked(*sample, which), rng, most)
            for sample, which in ((before, "before"), (after, "after"))
        )
        if first[2].shape[1] != second[2].shape[1]:
            raise ValueError(
                f"before and after must have as many sensitive columns, got {first[2].shape[1]} "
                f"and {second[2].shape[1]}"
            )
        y, f, S = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        names = names or tuple(str(j) for j in range(S.shape[1]))
        for name, s in zip(names, S.T, strict=True):
            if is_constant(s):
                raise ValueError(f"sensitive column {name} must vary, got {s[0]:g} in every row")
        ends = np.column_stack([S.min(axis=0), S.max(axis=0)])
        if unit is not None:
            given = np.asarray(unit, dtype=np.float64).reshape(-1, 2)
            ends = np.column_stack(
                [np.minimum(given[:, 0], ends[:, 0]), np.maximum(given[:, 1], ends[:, 1])]
            )
        U = (S - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        return cls(y, f, S, U, rankdata(f - y) / len(y), names, len(first[0]))

    @property
    def labels(self) -> list[tuple[str, str]]:
        """What the numbers are, in their order."""
        measured = [(m.name, column) for column in self.names for m in _MEASURES]
        return [("mae", ""), (ERROR, ""), (ERROR_RANK, ""), *measured]

    @property
    def columns(self) -> Array:
        """What is followed along s, (n, 4).

        Ranks beside errors: of long-tailed errors a few decide the mean, and its band is wide.
        """
        error = self.f - self.y
        return np.column_stack([self.f, error, np.abs(error), self.ranks])

    def numbers(self, side: NDArray[np.bool_]) -> list[float]:
        """Return error and measures of one side; NaN where one is undefined."""
        y, f, U = self.y[side], self.f[side], self.U[side]
        error = f - y
        means = np.column_stack([np.abs(error), error, self.ranks[side]]).mean(axis=0)
        found = [float(mean) for mean in means]
        for u in U.T:
            for measure in _MEASURES:
                try:
                    found.append(float(measure(*measure.columns(y, f, u))))
                except UndefinedMeasureError:
                    found.append(np.nan)
        return found


def _checked(y: ArrayLike, f: ArrayLike, S: Any, which: str) -> tuple[Array, Array, Array]:
    """Return one sample as arrays of equally many rows."""
    truth, predicted = as_column(y, f"truth {which}"), as_column(f, f"prediction {which}")
    require_length(predicted, len(truth), f"prediction {which}")
    if len(truth) < FEWEST_COMPARED:
        raise ValueError(
            f"the sample {which} must have at least {FEWEST_COMPARED} rows to be compared, got "
            f"{len(truth)}"
        )
    return truth, predicted, as_sensitive(S, len(truth))


def _drawn(
    y: Array, f: Array, S: Array, rng: np.random.Generator, most: int
) -> tuple[Array, Array, Array]:
    """Return at most so many rows, drawn without replacement."""
    if len(y) <= most:
        return y, f, S
    kept = np.sort(rng.choice(len(y), most, replace=False))
    return y[kept], f[kept], S[kept]


# Rows that must count at a point on either side, were all of them to count alike.
_LEAST = 8


@dataclass(frozen=True)
class ExchangedCurves:
    """Curves of every column on both sides of every division.

    The window at a point is that of all rows together, so that both sides are smoothed alike even
    where they have other shares of the rows along s.

    Parameters
    ----------
    points
        Mean of s in each window, over all rows (g,).
    means
        By division, side, column and point, (r, 2, k, g); NaN where a side has too few rows.
    """

    points: Array
    means: Array

    @classmethod
    def of(cls, V: Array, s: Array, divisions: NDArray[np.bool_]) -> "ExchangedCurves":
        """Return the curves of columns (n, k) for divisions (r, n), true on the first side."""
        places = Places.of(s, POINTS)
        r, k, g = len(divisions), V.shape[1], len(places.points)
        first, whole = np.zeros((k + 2, g, r)), np.zeros((k + 2, g))
        at = np.zeros(g)
        for rows in row_blocks(len(V), BLOCK_ROWS):
            B = places.weights(rows)
            A = divisions[:, rows].T.astype(np.float64)
            at += B @ s[rows]
            for j, W in enumerate([*(B * v for v in V[rows].T), B, B**2]):
                first[j] += W @ A
                whole[j] += W.sum(axis=1)
        sides = np.stack([first, whole[:, :, None] - first])  # (2, k + 2, g, r)
        weight, squares = sides[:, k], sides[:, k + 1]
        seen = weight**2 >= _LEAST * np.maximum(squares, np.finfo(np.float64).tiny)
        means = np.where(seen[:, None], sides[:, :k] / np.where(seen, weight, 1.0)[:, None], np.nan)
        return cls(at / whole[k], means.transpose(3, 0, 1, 2))

    @property
    def flat(self) -> Array:
        """Columns and points in one row, (r, 2, k * g)."""
        return self.means.reshape(*self.means.shape[:2], -1)


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
    """Return what changed between two samples of rows that one model predicts.

    Mean absolute and mean signed error, rank of the signed error, HGR, GDP and PF of every
    sensitive column, mean prediction, signed and absolute error and that rank along it, all under
    one band. Ranks are among all rows of both samples, as shares: their difference is the chance
    that a later row has the greater error than an earlier one, less a half. The band comes from
    exchanging rows between the samples: if both are drawn from one distribution, something is
    called a change in at most a share 1 - level of cases, whatever that distribution is and however
    many quantities there are.
    Rows must be independent of each other, and none of them may have trained the model.

    Parameters
    ----------
    before, after
        Truth (n,), prediction (n,), sensitive columns (n,) or (n, l), at least 30 rows each.
    rng
        Source of the exchanges.
    names
        What the sensitive columns are called; their numbers if not said.
    sensitive_range
        Least and greatest value (l, 2), the unit of s for GDP; by default of all these rows.
    permutations
        How often rows are exchanged; 199 make a level of 0.95 exact.
    level
        Share of samples of one distribution in which nothing is called a change, in (0, 1).
    most_rows
        Of a larger sample so many rows are drawn.

    Returns
    -------
    SampleChanges
        Numbers, curves, the chance of the greatest change.

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
    rows = ExchangedRows.of(before, after, rng, most_rows, sensitive_range, tuple(names))
    divisions = _divisions(rows.n_before, len(rows.y), permutations, rng)
    curves = [ExchangedCurves.of(rows.columns, s, divisions) for s in rows.S.T]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        sides = np.array([[rows.numbers(side) for side in (d, ~d)] for d in divisions])
    sides = np.concatenate([sides, *(curve.flat for curve in curves)], axis=2)
    differences = sides[:, 1] - sides[:, 0]
    size = np.nan_to_num(np.abs(sides[0])).max(axis=0)
    bands = permuted_bands(differences[0], differences[1:], size, level)
    told = np.column_stack([*sides[0], bands.change, bands.low, bands.high])
    k = len(rows.labels)
    numbers = tuple(
        NumberChange(*label, *_five(line), bool(outside))
        for label, line, outside in zip(rows.labels, told[:k], bands.outside[:k], strict=True)
        if np.isfinite(line).all()
    )
    return SampleChanges(
        numbers,
        tuple(_curve_changes(rows.names, curves, told[k:], bands.outside[k:])),
        bands.chance,
        (rows.n_before, len(rows.y) - rows.n_before),
        level,
    )


def _five(line: Array) -> tuple[float, float, float, float, float]:
    """Return before, after, change, low, high as plain numbers."""
    before, after, change, low, high = line.tolist()
    return before, after, change, low, high


def _divisions(
    n_before: int, n: int, permutations: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return which rows are on the first side, (r + 1, n): the true division before the others."""
    divisions = np.zeros((permutations + 1, n), dtype=bool)
    divisions[0, :n_before] = True
    for division in divisions[1:]:
        division[rng.permutation(n)[:n_before]] = True
    return divisions


def _curve_changes(
    names: Sequence[str],
    curves: Sequence[ExchangedCurves],
    told: Array,
    outside: NDArray[np.bool_],
) -> Iterator[CurveChange]:
    """Yield the curves of every column, whose points follow each other in what is told."""
    start = 0
    for name, curve in zip(names, curves, strict=True):
        for quantity in (PREDICTION, ERROR, ABSOLUTE, ERROR_RANK):
            part = slice(start, start + len(curve.points))
            before, after, change, low, high = told[part].T
            yield CurveChange(
                quantity, name, curve.points, before, after, change, low, high, outside[part]
            )
            start = part.stop
