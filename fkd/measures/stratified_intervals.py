"""Confidence intervals of a measure within groups, by random quarters of each group."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.cautions import FairnessWarning
from fkd.measures.bootstrap import Measure
from fkd.measures.intervals import UNBOUNDED, Bounds, Interval
from fkd.measures.pair_resampling import draw_counts, resampled_pairwise_fairness
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.strata import (
    Stratum,
    UndefinedMeasureError,
    as_rows,
    measured_groups,
    taken,
    weighted_mean,
)
from fkd.measures.subsamples import corrected_draws, ends, quarter, repeated


def stratified_interval(
    measure: Measure,
    *columns: ArrayLike | None,
    control_features: ArrayLike,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
) -> Interval:
    """Return `by_stratum(...).mean` with an interval for its mean over fresh samples.

    The groups are those of all rows, and so are their weights; quarters are drawn within each of
    them, otherwise as in `bootstrap_interval`. Quarters on which the measure finds no pairs are
    left out, as long as most have some; `replicates` of the result says how many were looked at.

    Parameters
    ----------
    measure
        Any measure; `pairwise_fairness` of one sensitive column as it is, without options, takes
        the quick way of `pairwise_interval`.
    columns
        Its positional arguments, the sensitive columns last.
    control_features
        One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
        numbers are levels; more numbers are cut at their quintiles.
    rng
        Source of the quarters.
    replicates
        Number of quarters of each group.
    level
        Share of the draws inside the interval, in (0, 1).
    bounds
        Least and greatest value that the measure can have, where the interval ends at the latest.

    Returns
    -------
    Interval
        Floats, or arrays (l,) if the measure returns arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import gdp, stratified_interval
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> job = rng.integers(2, size=400)
    >>> found = stratified_interval(gdp, f, s, control_features=job, rng=rng, replicates=50)
    >>> bool(found.low <= found.estimate <= found.high)
    True
    """
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    checked = as_rows(columns)
    found, _ = measured_groups(measure, checked, control_features)
    total = sum(stratum.rows for _, stratum in found)
    weights = [stratum.rows / total for _, stratum in found]
    corrected = [
        _corrected(measure, list(taken(checked, group)), stratum, rng, replicates)
        for group, stratum in found
    ]
    # Groups are drawn from independently, so any draw of one goes with any of another.
    fewest = min(len(draws) for draws in corrected)
    draws = np.asarray(weighted_mean([draws[:fewest] for draws in corrected], weights))
    estimate = weighted_mean([stratum.value for _, stratum in found], weights)
    low, high = (np.clip(end, *bounds) for end in ends(estimate, draws, level))
    if draws.ndim == 1:
        return Interval(estimate, float(low), float(high), level, fewest)
    return Interval(estimate, low, high, level, fewest)


def _corrected(
    measure: Measure,
    columns: Sequence[Array | None],
    stratum: Stratum,
    rng: np.random.Generator,
    replicates: int,
) -> Array:
    """Return draws of one group's value on the scale of the group's number of rows."""
    if measure is pairwise_fairness and np.ndim(stratum.value) == 0:
        y, f, s = (np.asarray(column) for column in columns)
        draws = resampled_pairwise_fairness(y, f, s, draw_counts(stratum.rows, replicates, rng))
    else:
        draws = _looped(measure, columns, stratum, rng, replicates)
    defined = draws[~np.isnan(draws.reshape(len(draws), -1)).any(axis=1)]
    if 2 * len(defined) <= replicates:
        raise ValueError(
            f"control_features must leave pairs to compare in most quarters of every group, got "
            f"{len(defined)} of {replicates} in {stratum.label!r} ({stratum.rows} rows); take "
            "fewer or coarser groups, or more rows"
        )
    return corrected_draws(stratum.value, defined, stratum.rows)


def _looped(
    measure: Measure,
    columns: Sequence[Array | None],
    stratum: Stratum,
    rng: np.random.Generator,
    replicates: int,
) -> Array:
    """Return the measure on quarters of one group, one after another; NaN where it is undefined."""
    undefined = np.full(np.shape(stratum.value), np.nan)
    draws: list[Any] = []
    with warnings.catch_warnings():
        # What there is to say of the rows was said of all of them.
        warnings.simplefilter("ignore", FairnessWarning)
        for _ in range(replicates):
            rows = repeated(quarter(stratum.rows, rng))
            try:
                draws.append(measure(*(None if c is None else c[rows] for c in columns)))
            except UndefinedMeasureError:
                draws.append(undefined)
    return np.array(draws, dtype=np.float64)
