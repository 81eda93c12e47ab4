"""Standard deviations of HGR, GDP of very many rows, from quarters that many models share."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.measures.columns import is_constant
from fkd.measures.counted_intervals import CountedMeasure, measured_state
from fkd.measures.counted_pairs import CountedRows
from fkd.measures.subsamples import PARTS, corrected_draws


def counted_deviations(
    measures: Sequence[CountedMeasure],
    f: Array,
    s: Array,
    quarters: Iterable[NDArray[np.intp]],
    *,
    margins: Literal["range", "given"],
) -> dict[CountedMeasure, float]:
    """Return the standard deviation of each measure over other rows of the same source.

    Half the draws tell it as well as quantiles of all would tell the ends of an interval.

    Parameters
    ----------
    measures
        As for `counted_intervals`.
    f, s
        Predictions, one sensitive column, both (n,), both of them checked.
    quarters
        Positions of rows, each drawn by `fkd.measures.subsamples.quarter`; at least two.
    margins
        Of GDP.
    """
    if is_constant(f) or is_constant(s):
        return dict.fromkeys(measures, 0.0)
    rows = CountedRows.of(f, s)
    # Every row counts four times, so that bandwidths stay those of all rows.
    states = (rows.counted(drawn, rows.s_index, times=PARTS) for drawn in quarters)
    draws = np.array(
        [[measured_state(name, state, margins) for name in measures] for state in states]
    )
    spread = corrected_draws(0.0, draws, len(f)).std(axis=0, ddof=1)
    return dict(zip(measures, spread.tolist(), strict=True))
