"""Intervals as small bars, drawn to one scale where numbers can be compared."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.reproduction.verdict import Verdict

WIDTH = 130.0
_MARGIN = 0.06  # of the scale, on both sides: room for a marker at an end


@dataclass(frozen=True)
class Bar:
    """Where an interval lies, and where the claim is true, in units of the drawing."""

    true_from: float
    true_to: float
    low: float
    value: float
    high: float


def bars(verdicts: Sequence[Verdict]) -> list[Bar | None]:
    """Return a bar per verdict, none where there is no interval; equal units share a scale."""
    scales: dict[str, list[float]] = defaultdict(list)
    for verdict in verdicts:
        scales[verdict.unit] += _numbers(verdict)
    return [_bar(verdict, scales[verdict.unit]) for verdict in verdicts]


def _numbers(verdict: Verdict) -> list[float]:
    """Return what a scale has to show: the interval and the ends of the claim's region."""
    shown = (verdict.low, verdict.value, verdict.high, verdict.true_above, verdict.true_below)
    return [number for number in shown if number is not None]


def _bar(verdict: Verdict, scale: Sequence[float]) -> Bar | None:
    if verdict.low is None or verdict.value is None or verdict.high is None:
        return None
    start = min(scale)
    # Where nothing varies any width will do.
    span = (max(scale) - start) or 1.0

    def place(number: float) -> float:
        return WIDTH * (_MARGIN + (1 - 2 * _MARGIN) * (number - start) / span)

    return Bar(
        true_from=0.0 if verdict.true_above is None else place(verdict.true_above),
        true_to=WIDTH if verdict.true_below is None else place(verdict.true_below),
        low=place(verdict.low),
        value=place(verdict.value),
        high=place(verdict.high),
    )
