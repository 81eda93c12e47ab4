"""Why a look at new rows counts as crossed, in sentences."""

from collections.abc import Mapping

import numpy as np

from fkd.measures import CurveChange, NumberChange
from fkd.measures.drift import ERROR_RANK
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION
from tasks.watch.watch_values import Watch

ERRORS = {
    "mae": "mean absolute error",
    ERROR: "mean signed error",
    ERROR_RANK: "mean rank of the signed error",
}
CURVES = {
    PREDICTION: "mean prediction",
    ERROR: "mean signed error",
    ABSOLUTE: "mean absolute error",
    ERROR_RANK: "mean rank of the signed error",
}


def reasons_of(watch: Watch, limits: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence per number and curve outside the band, then per limit left behind.

    A limit is left behind where the record kept it and the whole band of the new value lies above.
    """
    changes = watch.changes
    return (
        *(number_words(watch, one) for one in changes.numbers if one.crossed),
        *(_curve(watch, one) for one in changes.curves if one.crossed.any()),
        *(
            f"{one.quantity} on {one.column} is {one.after:.4f} with a band from "
            f"{_lowest(one):.4f} on, above the limit {limits[one.quantity]:g}"
            for one in changes.numbers
            if one.quantity in limits and one.before <= limits[one.quantity] < _lowest(one)
        ),
    )


def number_words(watch: Watch, one: NumberChange) -> str:
    """Return a number's way from record to new rows."""
    name = ERRORS[one.quantity] if not one.column else f"{one.quantity} on {one.column}"
    moved = "rose" if one.change > 0 else "fell"
    shown = [short(value) for value in (one.before, one.after, one.change, one.low, one.high)]
    unit = f" {word}" if not one.column and (word := unit_of(watch, one.quantity)) else ""
    before, after, change, low, high = shown
    return f"{name} {moved} from {before} to {after}{unit} (by {change}, band {low} to {high})"


def unit_of(watch: Watch, quantity: str) -> str:
    """Return what an error or a curve is counted in; nothing for a rank, which is a share."""
    return "" if quantity == ERROR_RANK else watch.unit


def short(value: float) -> str:
    """Return a number with four figures, thousands apart, without an exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return np.format_float_positional(float(f"{value:.4g}"), trim="-")


def _curve(watch: Watch, one: CurveChange) -> str:
    """Return where a curve moved most among the points outside the band."""
    where = np.flatnonzero(one.crossed)
    most = where[np.argmax(np.abs(one.change[where]))]
    word = "higher" if one.change[most] > 0 else "lower"
    unit = f" {named}" if (named := unit_of(watch, one.quantity)) else ""
    return (
        f"{CURVES[one.quantity]} along {one.column} moved at {len(where)} of {len(one.points)} "
        f"points, most at {short(one.points[most])}: {short(abs(one.change[most]))}{unit} {word} "
        f"(band {short(one.low[most])} to {short(one.high[most])})"
    )


def _lowest(one: NumberChange) -> float:
    """Return the lower end of the band around the new value."""
    return one.after - (one.high - one.low) / 2
