"""The figures of a model's history: drift from look to look, curves where they moved."""

import itertools
from collections.abc import Sequence

import numpy as np

from fkd.measures import MEASURES, CurveChange
from tasks.report.svg_curves import CurveFigure, DrawnCurve
from tasks.watch.change_words import CURVES, ERRORS, unit_of
from tasks.watch.watch_values import Watch

_CAPTION = (
    "Change since the record of the champion of the time, with the band that holds all numbers "
    "and curves of a look at once. Marks at the foot: the first look at another champion."
)


def drift_figures(watches: Sequence[Watch]) -> tuple[CurveFigure, ...]:
    """Return one figure per number that was compared, along the looks."""
    named = dict.fromkeys(
        (one.quantity, one.column) for watch in watches for one in watch.changes.numbers
    )
    return tuple(_drift(watches, quantity, column) for quantity, column in named)


def curve_figures(watch: Watch) -> tuple[CurveFigure, ...]:
    """Return the curves of one look that left their band."""
    return tuple(_moved(watch, one) for one in watch.changes.curves if one.crossed.any())


def _drift(watches: Sequence[Watch], quantity: str, column: str) -> CurveFigure:
    """Return one number's change from look to look."""
    found = [
        (place, one.change, one.low, one.high)
        for place, watch in enumerate(watches, 1)
        for one in watch.changes.numbers
        if (one.quantity, one.column) == (quantity, column)
    ]
    points, change, low, high = np.array(found, dtype=np.float64).T
    unit = unit_of(watches[-1], quantity)
    changed = tuple(
        float(place)
        for place, (before, after) in enumerate(itertools.pairwise(watches), 2)
        if before.version != after.version
    )
    title = f"{MEASURES[quantity].label} on {column}" if column else ERRORS[quantity].capitalize()
    return CurveFigure(
        title,
        "look, in their order",
        f"change ({unit})" if unit and not column else "change",
        (DrawnCurve("new rows minus record", "model", points, change, outer=(low, high)),),
        _CAPTION,
        zero=True,
        ticks=changed,
    )


def _moved(watch: Watch, one: CurveChange) -> CurveFigure:
    """Return how far a curve has moved, along its column."""
    known = np.isfinite(one.change)
    drawn = DrawnCurve(
        "new rows minus record",
        "model",
        one.points[known],
        one.change[known],
        outer=(one.low[known], one.high[known]),
    )
    words = watch.words.get(one.column, one.column)
    name, unit = CURVES[one.quantity], unit_of(watch, one.quantity)
    return CurveFigure(
        f"{watch.rows_from}: {name}",
        words,
        f"change ({unit})" if unit else "change",
        (drawn,),
        f"The {name} near each value, new rows minus record.",
        zero=True,
    )
