"""Confidence intervals of any measure by resampling rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.arrays import Array
from fkd.measures.checks import as_numbers, require_length
from fkd.measures.pair_resampling import draw_counts, resampled_pairwise_fairness
from fkd.measures.pairwise import pairwise_fairness

Measure = Callable[..., float | Array]


@dataclass(frozen=True)
class Interval:
    """A value with the percentile interval of its resampled versions."""

    estimate: float | Array
    low: float | Array
    high: float | Array
    level: float
    replicates: int


def bootstrap_interval(
    measure: Measure,
    *columns: ArrayLike,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return measure(*columns) with its percentile bootstrap interval.

    Parameters
    ----------
    measure
        Any function of row-aligned arrays, such as `gdp` or `pairwise_fairness`; options go in by
        `functools.partial`.
    columns
        Its positional arguments, all with the same number of rows.
    rng
        Source of the resampled rows.
    replicates
        Number of resamples; 1000 give the ends of a 95 % interval to about a twentieth of its
        length.
    level
        Share of the replicates inside the interval, in (0, 1).

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays.
    """
    checked = _as_rows(columns)

    def statistic(rows: NDArray[np.intp]) -> float | Array:
        return measure(*(column[rows] for column in checked))

    return _percentiles(statistic, len(checked[0]), rng, replicates, level)


def bootstrap_difference(
    measure: Measure,
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return measure(*first) - measure(*second) with its percentile bootstrap interval.

    Both sides see the same resampled rows, so what the two predictions have in common cancels.

    Parameters
    ----------
    measure
        Any function of row-aligned arrays.
    first, second
        Its positional arguments for either prediction, such as (y_pred, sensitive_features).
    rng
        Source of the resampled rows.
    replicates
        Number of resamples.
    level
        Share of the replicates inside the interval, in (0, 1).

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays.
    """
    checked = _as_rows((*first, *second))
    left, right = checked[: len(first)], checked[len(first) :]

    def statistic(rows: NDArray[np.intp]) -> float | Array:
        one = measure(*(column[rows] for column in left))
        return one - measure(*(column[rows] for column in right))

    return _percentiles(statistic, len(checked[0]), rng, replicates, level)


def pairwise_interval(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return what `bootstrap_interval(pairwise_fairness, ...)` returns, tens of times sooner."""
    _check(replicates, level)
    y, f, s = _as_rows((y_true, y_pred, sensitive))
    counts = draw_counts(len(f), replicates, rng)
    values = resampled_pairwise_fairness(y, f, s, counts)
    return _interval(pairwise_fairness(y, f, s), values, level)


def _check(replicates: int, level: float) -> None:
    """Refuse what gives no interval."""
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def _percentiles(
    statistic: Callable[[NDArray[np.intp]], float | Array],
    n: int,
    rng: np.random.Generator,
    replicates: int,
    level: float,
) -> Interval:
    """Interval of a statistic of row numbers."""
    _check(replicates, level)
    values = np.array([statistic(rng.integers(n, size=n)) for _ in range(replicates)])
    return _interval(statistic(np.arange(n)), values, level)


def _interval(estimate: float | Array, values: Array, level: float) -> Interval:
    """Return an estimate with the percentiles of its resampled versions."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    if values.ndim == 1:
        low, high = float(low), float(high)
    return Interval(estimate, low, high, level, len(values))


def _as_rows(columns: Sequence[ArrayLike]) -> list[Array]:
    """Return the arguments as arrays of equally many rows."""
    if not columns:
        raise ValueError("columns must hold at least one array, got none")
    checked = [as_numbers(column, f"argument {i}") for i, column in enumerate(columns)]
    for i, column in enumerate(checked):
        if column.ndim == 0:
            raise ValueError(f"argument {i} must have rows, got a single number")
        require_length(column, len(checked[0]), f"argument {i}")
    return checked
