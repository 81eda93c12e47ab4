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
    StratifiedValue,
    Stratum,
    UndefinedMeasureError,
    as_rows,
    mean_over_groups,
    measured_groups,
    taken,
    weighed_rows,
)
from fkd.measures.subsamples import corrected_draws, ends, measured_on, quarter, repeated


def stratified_interval(
    measure: Measure,
    *columns: ArrayLike | None,
    control_features: ArrayLike,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
    sample_weight: ArrayLike | None = None,
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
    sample_weight
        How many rows each row stands for (n,), >= 0, which the measure gets by this keyword. Rows
        are drawn with their weights, a heavy one as one row; those of a quarter are scaled to the
        sum of all, so that bandwidths stay.

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
    checked, control, w = weighed_rows(as_rows(columns), control_features, sample_weight)
    found, left_out = measured_groups(measure, checked, control, w)
    value = StratifiedValue(tuple(stratum for _, stratum in found), left_out)
    corrected = [
        _corrected(measure, [*taken([*checked, w], group)], stratum, rng, replicates)
        for group, stratum in found
    ]
    # Groups are drawn from independently, so any draw of one goes with any of another.
    fewest = min(len(draws) for draws in corrected)
    draws = np.asarray(mean_over_groups([draws[:fewest] for draws in corrected], value.weights))
    low, high = (np.clip(end, *bounds) for end in ends(value.mean, draws, level))
    if draws.ndim == 1:
        return Interval(value.mean, float(low), float(high), level, fewest)
    return Interval(value.mean, low, high, level, fewest)


def _corrected(
    measure: Measure,
    columns: Sequence[Array | None],
    stratum: Stratum,
    rng: np.random.Generator,
    replicates: int,
) -> Array:
    """Return draws of one group's value on the scale of the group's number of rows.

    The last of the columns are the weights, None without any.
    """
    if measure is pairwise_fairness and np.ndim(stratum.value) == 0:
        y, f, s = (np.asarray(column) for column in columns[:-1])
        counts = draw_counts(stratum.rows, replicates, rng, columns[-1])
        draws = resampled_pairwise_fairness(y, f, s, counts)
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
    *own, w = columns
    undefined = np.full(np.shape(stratum.value), np.nan)
    draws: list[Any] = []
    with warnings.catch_warnings():
        # What there is to say of the rows was said of all of them.
        warnings.simplefilter("ignore", FairnessWarning)
        for _ in range(replicates):
            rows = repeated(quarter(stratum.rows, rng), w)
            try:
                draws.append(measured_on(measure, own, rows, w))
            except UndefinedMeasureError:
                draws.append(undefined)
    return np.array(draws, dtype=np.float64)
