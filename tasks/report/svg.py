"""Curves with bands as SVG, which a page shows without scripts or other files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fkd.core.arrays import Array

WIDTH, HEIGHT = 400, 270


class _Margin(NamedTuple):
    left: int
    right: int
    top: int
    bottom: int


MARGIN = _Margin(66, 8, 10, 46)
_LEFT, _RIGHT, _TOP, _BOTTOM = MARGIN
_TICKS = 5
_ROUNDING = 1e-9  # of a logarithm that should be whole
# Units of long numbers on an axis: the hundredfold and more is told in them.
_UNITS = ((1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class DrawnCurve:
    """One line of a figure, with the bands around it where it has some.

    Parameters
    ----------
    label
        What the legend calls it.
    look
        The class that the page's style gives colour and dashes to: model, other, truth.
    points, values
        The line.
    inner, outer
        Low and high of each point, then of the whole curve.
    """

    label: str
    look: str
    points: Array
    values: Array
    inner: tuple[Array, Array] | None = None
    outer: tuple[Array, Array] | None = None

    @property
    def all_values(self) -> Array:
        """Everything that must be in sight."""
        bands = [end for band in (self.inner, self.outer) if band for end in band]
        return np.concatenate([self.values, *bands])


@dataclass(frozen=True)
class CurveFigure:
    """Curves on one pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[DrawnCurve, ...]
    caption: str = ""
    zero: bool = False  # whether zero means something here
    ticks: tuple[float, ...] = ()  # where groups of rows end, along x

    @property
    def alt(self) -> str:
        """The figure for those who cannot see it."""
        told = [
            f"{curve.label}: from {curve.values[0]:.4g} at {curve.points[0]:.4g} to "
            f"{curve.values[-1]:.4g} at {curve.points[-1]:.4g}, between {curve.values.min():.4g} "
            f"and {curve.values.max():.4g}"
            for curve in self.curves
        ]
        return f"{self.y_label} along {self.x_label}. {'; '.join(told)}."

    @property
    def inside(self) -> Markup:
        """All that is drawn; every text in it is escaped."""
        axes = _axes(self)
        return Markup("").join([frame(axes, self), *(_curve(axes, one) for one in self.curves)])

    @property
    def svg(self) -> Markup:
        """The figure as one element that follows the page's colours, light or dark."""
        return _element(self.alt, self.inside)

    def copy_of(self, name: str) -> Markup:
        """Return the figure as an element that shows what is drawn elsewhere under a name."""
        return _element(self.alt, Markup('<use href="#{}"/>').format(name))


@dataclass(frozen=True)
class Axes:
    """Where values lie on the paper."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        """Return how far to the right a value lies."""
        low, high = self.x
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def up(self, value: float) -> float:
        """Return how far down a value lies."""
        low, high = self.y
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def line(self, x: Array, y: Array) -> str:
        """Return the points of a path."""
        pairs = zip(x, y, strict=True)
        return " ".join(f"{self.across(a):.1f},{self.up(b):.1f}" for a, b in pairs)


def _element(alt: str, inside: Markup) -> Markup:
    """Return an SVG element with its description."""
    return Markup(
        '<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, alt, inside)


def nice_ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers within a range."""
    raw = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
    first = math.ceil(low / step)
    return [step * i for i in range(first, math.floor(high / step) + 1)]


def tick_words(ticks: Sequence[float]) -> list[str]:
    """Return round numbers with as many decimals as tell them apart, long ones in thousands."""
    greatest = max((abs(tick) for tick in ticks), default=0.0)
    unit, letter = next(((u, w) for u, w in _UNITS if greatest >= 100 * u), (1.0, ""))
    scaled = [tick / unit for tick in ticks]
    step = scaled[1] - scaled[0] if len(scaled) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + _ROUNDING))
    if round(step * 10**decimals, 6) % 1:
        decimals += 1  # steps of 2.5
    # Adding zero turns a rounded -0 into 0.
    return [f"{round(tick, decimals) + 0.0:.{decimals}f}{letter}" for tick in scaled]


def _axes(figure: CurveFigure) -> Axes:
    """Return ranges that hold all curves with their bands."""
    x = np.concatenate([curve.points for curve in figure.curves])
    y = np.concatenate([curve.all_values for curve in figure.curves])
    low, high = float(y.min(axis=0)), float(y.max(axis=0))
    if figure.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    left, right = float(x.min(axis=0)), float(x.max(axis=0))
    if left == right:
        left, right = left - 1.0, right + 1.0
    return Axes((left, right), (low - margin, high + margin))


def frame(axes: Axes, figure: CurveFigure) -> Markup:
    """Return grid, ticks, labels."""
    parts = []
    base, end = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    ticks = nice_ticks(*axes.y)
    for tick, word in zip(ticks, tick_words(ticks), strict=True):
        y = axes.up(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{end}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{escape(word)}</text>')
    ticks = nice_ticks(*axes.x)
    for tick, word in zip(ticks, tick_words(ticks), strict=True):
        x = axes.across(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{base}"/>')
        parts.append(f'<text x="{x:.1f}" y="{base + 16}" class="middle">{escape(word)}</text>')
    parts += [
        f'<path class="tick" d="M{axes.across(at):.1f} {base}v-6"/>'
        for at in figure.ticks
        if axes.x[0] <= at <= axes.x[1]
    ]
    if figure.zero:
        parts.append(f'<path class="zero" d="M{_LEFT} {axes.up(0.0):.1f}H{end}"/>')
    middle, label = (_LEFT + end) / 2, escape(_short(figure.x_label, 52))
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 8}" class="middle">{label}</text>')
    half = (_TOP + base) / 2
    parts.append(
        f'<text transform="translate(13 {half:.0f}) rotate(-90)" class="middle">'
        f"{escape(_short(figure.y_label, 34))}</text>"
    )
    return Markup("".join(parts))


def _short(label: str, most: int) -> str:
    """Return a label that fits its axis; the whole of it stands in the figure's description."""
    return label if len(label) <= most else f"{label[: most - 1].rstrip()}…"


def _curve(axes: Axes, curve: DrawnCurve) -> Markup:
    """Return bands below, the line above, dots where the points are few."""
    parts = []
    for band, name in ((curve.outer, "outer"), (curve.inner, "inner")):
        if band is not None:
            there = axes.line(curve.points, band[0])
            back = axes.line(curve.points[::-1], band[1][::-1])
            parts.append(f'<polygon class="{name}" points="{there} {back}"/>')
    parts.append(f'<polyline points="{axes.line(curve.points, curve.values)}"/>')
    if len(curve.points) <= 10:
        parts += [
            f'<circle cx="{axes.across(x):.1f}" cy="{axes.up(y):.1f}" r="3"/>'
            for x, y in zip(curve.points, curve.values, strict=True)
        ]
    return Markup('<g class="{}">{}</g>').format(curve.look, Markup("".join(parts)))


@dataclass(frozen=True)
class FrontFigure:
    """Error against a measure, with the limits that choose one of the points.

    Parameters
    ----------
    points
        (measure, error) of every trial.
    chosen
        The one that is chosen.
    low, high
        The limits that choose it; None where there is no next one.
    x_label, y_label
        Of the axes.
    """

    points: tuple[tuple[float, float], ...]
    chosen: tuple[float, float]
    low: float
    high: float | None
    x_label: str
    y_label: str

    @property
    def alt(self) -> str:
        """The figure for those who cannot see it."""
        end = "on" if self.high is None else f"to below {self.high:.4g}"
        return (
            f"{self.y_label} against {self.x_label} of {len(self.points)} trials. A limit from "
            f"{self.low:.4g} {end} chooses the one at {self.chosen[0]:.4g} with an error of "
            f"{self.chosen[1]:.4g}."
        )

    @property
    def svg(self) -> Markup:
        """The figure as one element; every text in it is escaped."""
        axes = _front_axes(self.points)
        end = axes.x[1] if self.high is None else min(self.high, axes.x[1])
        left, right = axes.across(self.low), axes.across(end)
        top, foot = MARGIN.top, HEIGHT - MARGIN.bottom
        dots = "".join(
            f'<circle class="dot" cx="{axes.across(x):.1f}" cy="{axes.up(y):.1f}" r="3.2"/>'
            for x, y in self.points
        )
        ring = (
            f'<circle class="ring" cx="{axes.across(self.chosen[0]):.1f}" '
            f'cy="{axes.up(self.chosen[1]):.1f}" r="8"/>'
        )
        band = (
            f'<rect class="range" x="{left:.1f}" y="{top}" width="{max(0.0, right - left):.1f}" '
            f'height="{foot - top}"/><path class="limit" d="M{left:.1f} {top}V{foot}"/>'
        )
        parts = frame(axes, CurveFigure("", self.x_label, self.y_label, ()))
        return Markup(
            '<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>'
        ).format(WIDTH, HEIGHT, self.alt, parts, Markup(band + dots + ring))


def _front_axes(points: tuple[tuple[float, float], ...]) -> Axes:
    """Return ranges that hold all points with a margin."""
    ends = []
    for values in zip(*points, strict=True):
        low, high = min(values), max(values)
        margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        ends.append((low - margin, high + margin))
    return Axes(ends[0], ends[1])
