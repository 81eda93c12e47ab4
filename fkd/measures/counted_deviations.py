"""Standard deviations of HGR, GDP of very many rows, from quarters that many models share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.measures.cells import Nodes
from fkd.measures.columns import is_constant
from fkd.measures.counted_intervals import CountedMeasure, measured_state, rounded
from fkd.measures.counted_pairs import CountedRows
from fkd.measures.subsamples import PARTS, corrected_draws


@dataclass(frozen=True)
class DrawnQuarters:
    """A sensitive column rounded to its points, with quarters of its rows that were drawn once.

    Parameters
    ----------
    s
        The column (n,), n >= 8.
    quarters
        Positions of rows, each drawn by `fkd.measures.subsamples.quarter`; at least two.
    """

    s: Array
    quarters: Sequence[NDArray[np.intp]]

    @cached_property
    def _rounded(self) -> tuple[Nodes, NDArray[np.int32]]:
        nodes, index = rounded(self.s)
        return nodes, index.astype(np.int32)

    def deviations(
        self, measures: Sequence[CountedMeasure], f: Array, *, margins: Literal["range", "given"]
    ) -> dict[CountedMeasure, float]:
        """Return the standard deviation of each measure over other rows of the same source.

        25 draws tell it to a seventh; for ends that are quantiles it would take twice as many.

        Parameters
        ----------
        measures
            As for `counted_intervals`.
        f
            Predictions of the same rows (n,), checked.
        margins
            Of GDP.
        """
        if is_constant(f) or is_constant(self.s):
            return dict.fromkeys(measures, 0.0)
        (f_nodes, f_index), (s_nodes, s_index) = rounded(f), self._rounded
        rows = CountedRows(f_nodes, s_nodes, f_index.astype(np.int32), s_index)
        # Every row counts four times, so that bandwidths stay those of all rows.
        states = (rows.counted(drawn, s_index, times=PARTS) for drawn in self.quarters)
        draws = np.array(
            [[measured_state(name, state, margins) for name in measures] for state in states]
        )
        spread = corrected_draws(0.0, draws, len(f)).std(axis=0, ddof=1)
        return dict(zip(measures, spread.tolist(), strict=True))
