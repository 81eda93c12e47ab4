"""Intervals of HGR with GDP of two predictions of very many rows, each quarter counted in cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.border import as_column
from fkd.core.parameters import choice
from fkd.measures.cells import Nodes
from fkd.measures.columns import is_constant
from fkd.measures.counted_intervals import (
    CountedMeasure,
    greatest,
    measured_rows,
    measured_state,
    rounded,
    state_of_cells,
)
from fkd.measures.intervals import (
    IntervalPair,
    as_equal_rows,
    check_draws,
    pair_of_draws,
    require_rows,
)
from fkd.measures.noise_floor import NoiseFloor
from fkd.measures.states import MeasureState
from fkd.measures.subsamples import PARTS, quarter


@dataclass(frozen=True)
class CountedRows:
    """Rows by the number of their cell, so that counting some of them is all that measuring needs.

    Parameters
    ----------
    f_nodes, s_nodes
        Points to which prediction and attribute are rounded.
    f_index, s_index
        The number of each row's point, (n,).
    """

    f_nodes: Nodes
    s_nodes: Nodes
    f_index: NDArray[np.int32]
    s_index: NDArray[np.int32]

    @classmethod
    def of(cls, f: Array, s: Array) -> "CountedRows":
        """Return rows at the points next to them, at most 512 a column."""
        (f_nodes, f_index), (s_nodes, s_index) = rounded(f), rounded(s)
        return cls(f_nodes, s_nodes, f_index.astype(np.int32), s_index.astype(np.int32))

    def counted(
        self, rows: NDArray[np.intp] | slice, s_index: NDArray[np.int32], times: int = 1
    ) -> MeasureState:
        """Return so many times some of the rows, each beside one of the given attributes."""
        shape = len(self.f_nodes.points), len(self.s_nodes.points)
        cells = self.f_index[rows] * np.int32(shape[1]) + s_index[rows]
        counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
        return state_of_cells(self.f_nodes, self.s_nodes, times * counts)


def counted_pair(
    measures: Sequence[CountedMeasure],
    first: ArrayLike,
    second: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    margins: Literal["range", "given"] = "range",
    replicates: int = 1000,
    level: float = 0.95,
) -> dict[str, IntervalPair]:
    """Return what `bootstrap_pair` says of two predictions, of several measures at once.

    All of them see the same quarters of the rows. Columns of more than 512 values are rounded to as
    many equidistant points for the draws, as in `counted_interval`; estimates are those of the rows
    as they are.

    Parameters
    ----------
    measures
        Some of "hgr" with standard margins, "gdp" on the published grid, "gdp_plugin" at the rows.
    first, second
        Two predictions (n,), n >= 8.
    sensitive
        One sensitive column (n,).
    rng
        Source of the quarters.
    margins
        Of GDP, as there.
    replicates
        Number of quarters.
    level
        Share of the draws inside the interval, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import counted_pair
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> found = counted_pair(["gdp"], f, f - s, s, rng=rng, replicates=50)
    >>> bool(found["gdp"].difference.low > 0)
    True
    """
    check_draws(replicates, level)
    for measure in measures:
        choice("measures", measure, get_args(CountedMeasure))
    f, g, s = as_equal_rows((first, second, sensitive))
    n = len(s)
    require_rows(n)
    draws = np.zeros((len(measures), 2, replicates))
    sides = [
        None if is_constant(one) or is_constant(s) else CountedRows.of(one, s) for one in (f, g)
    ]
    for b in range(replicates):
        rows = quarter(n, rng)
        for i, side in enumerate(sides):
            if side is not None:
                # Every row counts four times, so that bandwidths stay those of all rows.
                state = side.counted(rows, side.s_index, times=PARTS)
                draws[:, i, b] = [measured_state(measure, state, margins) for measure in measures]
    return {
        measure: pair_of_draws(
            [measured_rows(measure, one, s, margins) for one in (f, g)],
            [*values],
            n,
            level,
            (0.0, greatest(measure)),
        )
        for measure, values in zip(measures, draws, strict=True)
    }


def counted_floor(
    y_pred: ArrayLike,
    sensitive: ArrayLike,
    *,
    rng: np.random.Generator,
    permutations: int = 200,
    quantile: float = 0.95,
) -> NoiseFloor:
    """Return what `noise_floor` says of HGR with standard margins, rows counted in cells.

    Parameters
    ----------
    y_pred, sensitive
        Predictions and one sensitive column, each (n,), n >= 2.
    rng
        Source of the permutations.
    permutations
        Number of shuffles.
    quantile
        Which quantile to report, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import counted_floor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> floor = counted_floor(s + rng.normal(size=400), s, rng=rng, permutations=20)
    >>> bool(floor.mean < floor.upper)
    True
    """
    check_draws(permutations, quantile)
    f, s = as_equal_rows((as_column(y_pred, "y_pred"), as_column(sensitive, "sensitive")))
    values = np.zeros(permutations)
    if not (is_constant(f) or is_constant(s)):
        rows = CountedRows.of(f, s)
        for b in range(permutations):
            shuffled = rng.permutation(rows.s_index)
            values[b] = rows.counted(slice(None), shuffled).hgr()
    upper = float(np.quantile(values, quantile))
    return NoiseFloor(float(values.mean(axis=0)), upper, quantile, permutations)
