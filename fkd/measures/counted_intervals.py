"""Intervals of HGR or GDP of very many rows, by drawing counts of cells instead of rows."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.border import as_column, require_length
from fkd.core.parameters import choice
from fkd.measures.cells import SHARES, Nodes
from fkd.measures.columns import is_constant
from fkd.measures.gdp import gdp
from fkd.measures.hgr import hgr
from fkd.measures.intervals import Interval, check_draws, interval_of_draws, require_rows
from fkd.measures.states import MeasureState
from fkd.measures.subsamples import PARTS

CountedMeasure = Literal["hgr", "gdp", "gdp_plugin"]
# Rounding to so many points moves a row by a thousandth of the range at most.
POINTS = 512
# numpy draws no more, as its arithmetic would round.
MOST_ROWS = 10**9 - 1
# Rows of a cell from which on its count is drawn faster than they are one by one.
_ROWS_A_CELL = 32


def counted_interval(
    measure: CountedMeasure,
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    margins: Literal["range", "given"] = "range",
    replicates: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Return a measure with the interval of `bootstrap_interval`, its draws as fast for any n.

    A measure of columns with few values depends on how many rows each pair of values has, and of a
    random quarter of the rows these numbers have the multivariate hypergeometric distribution: they
    are drawn from it. Predictions of more than 512 values are rounded to as many equidistant points
    for the draws, and so is the attribute; the estimate is that of the rows as they are.

    Parameters
    ----------
    measure
        "hgr" with standard margins, "gdp" on the published grid, or "gdp_plugin" at the rows.
    y_pred, sensitive
        Predictions and one sensitive column, each (n,), 8 <= n < 10^9.
    rng
        Source of the counts.
    margins
        Of GDP, as there.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import counted_interval
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = counted_interval("gdp", f, s, rng=rng, replicates=50)
    >>> bool(found.low > 0.1)
    True
    """
    return counted_intervals(
        [measure],
        y_pred,
        sensitive,
        rng=rng,
        margins=margins,
        replicates=replicates,
        level=level,
    )[measure]


def counted_intervals(
    measures: Sequence[CountedMeasure],
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    margins: Literal["range", "given"] = "range",
    replicates: int = 1000,
    level: float = 0.95,
) -> dict[CountedMeasure, Interval]:
    """Return several measures with the intervals of `counted_interval`, all from the same draws.

    Parameters
    ----------
    measures
        As there, any number of them.
    y_pred, sensitive, rng, margins, replicates, level
        As there.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import counted_intervals
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = counted_intervals(["hgr", "gdp"], f, s, rng=rng, replicates=50)
    >>> bool(found["hgr"].low > 0.5)
    True
    """
    check_draws(replicates, level)
    for measure in measures:
        choice("measure", measure, get_args(CountedMeasure))
    f, s = as_column(y_pred, "y_pred"), as_column(sensitive, "sensitive")
    require_length(s, len(f), "sensitive")
    require_rows(len(f))
    if len(f) > MOST_ROWS:
        raise ValueError(f"y_pred must have at most {MOST_ROWS} rows to draw, got {len(f)}")
    draws = np.zeros((replicates, len(measures)))
    if not (is_constant(f) or is_constant(s)):
        whole = rounded_state(f, s)
        for draw in draws:
            state = quarter_of_cells(whole, rng)
            draw[:] = [measured_state(measure, state, margins) for measure in measures]
    found = {}
    for measure, values in zip(measures, draws.T, strict=True):
        estimate, bounds = measured_rows(measure, f, s, margins), (0.0, greatest(measure))
        found[measure] = interval_of_draws(estimate, values, len(f), level, bounds)
    return found


def greatest(measure: str) -> float:
    """Return what a measure can be at most; none is below 0."""
    return 1.0 if measure == "hgr" else np.inf


def rounded_state(f: Array, s: Array) -> MeasureState:
    """Return all rows, each counted at the one point next to it."""
    f_nodes, f_index = rounded(f)
    s_nodes, s_index = rounded(s)
    shape = len(f_nodes.points), len(s_nodes.points)
    cells = np.bincount(f_index * shape[1] + s_index, minlength=shape[0] * shape[1])
    return state_of_cells(f_nodes, s_nodes, cells.reshape(shape))


def quarter_of_cells(whole: MeasureState, rng: np.random.Generator) -> MeasureState:
    """Return the counts of a random quarter of the rows, each of which counts four times."""
    rows = np.asarray(whole.cells // SHARES**2, dtype=np.int64)
    taken = np.flatnonzero(rows)
    drawn = np.zeros(rows.size, dtype=np.int64)
    # Both ways draw from the same distribution: one costs as much as there are rows, the other,
    # several times dearer for each, as there are cells.
    way: Literal["count", "marginals"]
    way = "count" if whole.rows < _ROWS_A_CELL * len(taken) else "marginals"
    drawn[taken] = rng.multivariate_hypergeometric(
        rows.ravel()[taken], whole.rows // PARTS, method=way
    )
    return state_of_cells(whole.f_nodes, whole.s_nodes, PARTS * drawn.reshape(rows.shape))


def state_of_cells(f_nodes: Nodes, s_nodes: Nodes, rows: NDArray[np.int64]) -> MeasureState:
    """Return whole rows at points that are the levels of both columns."""
    ends = []
    for nodes, taken in ((f_nodes, rows.any(axis=1)), (s_nodes, rows.any(axis=0))):
        points = nodes.points[taken]
        ends.append((float(points[0]), float(points[-1])))
    return MeasureState(f_nodes, s_nodes, rows * SHARES**2, int(rows.sum()), ends[0], ends[1])


def rounded(values: Array) -> tuple[Nodes, NDArray[np.int64]]:
    """Return the points of a column with the number of that next to each row."""
    nodes = Nodes.few_levels(values, POINTS)
    if nodes is None:
        points = np.linspace(values.min(), values.max(), POINTS)
        places = (values - points[0]) * ((POINTS - 1) / (points[-1] - points[0]))
        return Nodes(points, 0.0), np.rint(places).astype(np.int64)
    return nodes, np.searchsorted(nodes.points, values)


def measured_rows(measure: str, f: Array, s: Array, margins: Literal["range", "given"]) -> float:
    """Return a measure of the rows as they are."""
    if measure == "hgr":
        return float(hgr(f, s, margins="standard"))
    return float(gdp(f, s, estimator="grid" if measure == "gdp" else "plugin", margins=margins))


def measured_state(measure: str, state: MeasureState, margins: Literal["range", "given"]) -> float:
    """Return the same measure of counted rows."""
    if measure == "hgr":
        return state.hgr()
    return state.gdp(estimator="grid" if measure == "gdp" else "plugin", margins=margins)
