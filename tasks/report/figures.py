"""Draw error against a measure of dependence for all trials.

`panels_of` returns panels as plain values. `panel_svg` draws one for the page, and `draw` draws
several for a PNG file.
"""

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib.artist import Artist
from matplotlib.axes import Axes as PlotAxes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fkd.measures import REPORTED, Measure
from fkd.measures.pareto import non_dominated
from tasks.report.html import (
    MAE_DECIMALS,
    TOP,
    Axes,
    element,
    error_label,
    has_own_unit,
    in_unit,
    joined,
    padded,
    params_text,
    strength_text,
    with_interval,
    with_std,
    with_std_in_unit,
)
from tasks.report.model import ReportData, ReportedNumber, SensitiveColumn, TrialSummary


@dataclass(frozen=True)
class Point:
    """One setting on a panel.

    Parameters
    ----------
    x, y
        The means.
    x_bar, y_bar
        Half the lengths of the error bars.
    text
        The lines of its tooltip.
    chosen
        True for the chosen model.
    """

    x: float
    y: float
    x_bar: float = 0.0
    y_bar: float = 0.0
    text: tuple[str, ...] = ()
    chosen: bool = False


@dataclass(frozen=True)
class Series:
    """One method on a panel.

    Parameters
    ----------
    label
        The name of the method.
    paths
        Points that differ in strength only, joined by a line.
    slot
        The index in the palette, equal on all panels. Dummies have their own palette.
    dummy, needs_sensitive
        As in `TrialSummary`.
    """

    label: str
    paths: tuple[tuple[Point, ...], ...]
    slot: int
    dummy: bool = False
    needs_sensitive: bool = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all paths."""
        return tuple(itertools.chain.from_iterable(self.paths))

    @property
    def legend(self) -> str:
        """The label, with † if predictions need the sensitive column."""
        return f"{self.label} †" if self.needs_sensitive else self.label

    @property
    def key(self) -> str:
        """A short name that is equal on all panels and contains no text from data."""
        return f"{'d' if self.dummy else 's'}{self.slot}"


@dataclass(frozen=True)
class Panel:
    """One pair of axes. Small values are better on both.

    Parameters
    ----------
    title, x_label, y_label, meaning
        Texts; `meaning` explains the x axis.
    series
        The methods.
    floor
        Mean and 95 % quantile of the measure on permuted rows, drawn as a line and a band.
    limit
        The largest x that the chosen model may have.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    floor: tuple[float, float] | None = None
    meaning: str = ""
    limit: float | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all series."""
        return tuple(point for series in self.series for point in series.points)

    @cached_property
    def front(self) -> tuple[Point, ...]:
        """The points on the Pareto front of all series, from left to right."""
        mask = non_dominated([(point.x, point.y) for point in self.points])
        best = itertools.compress(self.points, mask)
        return tuple(sorted(best, key=lambda point: (point.x, -point.y)))

    @property
    def alt(self) -> str:
        """The text alternative."""
        best = min(self.points, key=lambda p: p.y)
        return (
            f"{self.x_label} against {self.y_label} for {len(self.points)} settings of "
            f"{', '.join(series.label for series in self.series)}. The smallest {self.y_label} is "
            f"{best.y:.4g}, at {best.x:.3g}; {len(self.front)} settings form the Pareto front."
        )

    @property
    def x_range(self) -> tuple[float, float]:
        """A range of x that contains zero, error bars and noise floor."""
        ends = [point.x + side * point.x_bar for point in self.points for side in (-1, 1)]
        ends += self.floor or ()
        # A limit far to the right would press the points together.
        if self.limit is not None and self.limit <= 2 * max(0.0, *ends):
            ends.append(self.limit)
        # The margin leaves room for the marker of a dummy at zero.
        return padded(np.array(ends), 0.05, zero=True)


def y_range(panels: Iterable[Panel]) -> tuple[float, float]:
    """Return one range of y for several panels that contains all error bars."""
    points = [point for panel in panels for point in panel.points]
    return padded(np.array([p.y + side * p.y_bar for p in points for side in (-1, 1)]), 0.06)


def panels_of(report: ReportData, column: SensitiveColumn) -> tuple[Panel, ...]:
    """Return one panel for each reported measure that the trials have on a column."""
    target = report.target
    panels = []
    for name, measure in REPORTED.items():
        step = ""
        if measure.unit == "prediction" and has_own_unit(target):
            step = f" 0.01 is {in_unit(0.01, target)}."
        panels.append(
            Panel(
                title=f"{measure.label}: {measure.title}",
                x_label=f"{measure.label} on {column.text}",
                y_label=error_label(target),
                series=_all_series(report, column.name, measure),
                floor=column.noise_floor.get(name),
                meaning=measure.meaning + step,
                limit=report.champion.limits.get(name) if report.champion else None,
            )
        )
    return tuple(panel for panel in panels if panel.points)


def _all_series(report: ReportData, column: str, measure: Measure) -> tuple[Series, ...]:
    """Return one series per method that has a point, dummies last."""
    slots = {False: itertools.count(), True: itertools.count()}
    found = []
    for group in _groups(report.trials, lambda trial: trial.label):
        first = group[0]
        # A method without a point takes its slot as well, so that colours agree between panels.
        slot = next(slots[first.dummy])
        known = [trial for trial in group if trial.is_known(column, measure.name)]
        paths = tuple(
            tuple(
                _point(report, trial, measure, trial.scores[column][measure.name])
                for trial in sorted(path, key=lambda trial: trial.strength)
            )
            for path in _groups(known, params_text)
        )
        if paths:
            found.append(Series(first.label, paths, slot, first.dummy, first.needs_sensitive))
    return tuple(sorted(found, key=lambda series: series.dummy))


def _groups(
    trials: Iterable[TrialSummary], key: Callable[[TrialSummary], Hashable]
) -> list[list[TrialSummary]]:
    """Return groups of equal key, in order of first appearance."""
    groups: dict[Hashable, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(key(trial), []).append(trial)
    return list(groups.values())


def _point(
    report: ReportData, trial: TrialSummary, measure: Measure, score: ReportedNumber
) -> Point:
    """Return the point of a trial with its tooltip."""
    chosen = report.champion is not None and report.champion.trial == trial.key
    target = report.target

    def spread(number: ReportedNumber, decimals: int) -> str:
        if number.ends is None:
            return with_std(number, decimals)
        return with_interval((number.mean, *number.ends), decimals + 1)

    own = f"MAE {with_std_in_unit(trial.mae, target)} {target.unit}" if has_own_unit(target) else ""
    lines = (
        f"{trial.label} (the chosen model)" if chosen else trial.label,
        strength_text(trial),
        f"{measure.label} {spread(score, measure.decimals)}",
        f"MAE {spread(trial.mae, MAE_DECIMALS)}",
        own,
        params_text(trial).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"),
        "Predictions need the sensitive column." if trial.needs_sensitive else "",
        "Parameters searched: slightly optimistic." if trial.searched else "",
    )
    return Point(
        x=score.mean,
        y=trial.mae.mean * target.scale,
        x_bar=score.bar,
        y_bar=trial.mae.bar * target.scale,
        text=tuple(filter(None, lines)),
        chosen=chosen,
    )


def bars_sentence(trials: Iterable[TrialSummary]) -> str:
    """Return a sentence on the meaning of the error bars."""
    numbers = [
        n for t in trials for n in (t.mae, *(m for c in t.scores.values() for m in c.values()))
    ]
    if not any(number.ends for number in numbers):
        return "Error bars show one standard deviation over the folds."
    binned = [m.label for m in REPORTED.values() if m.interval == "binned"]
    others = [m.label for m in REPORTED.values() if m.interval != "binned"]
    return (
        f"Error bars of {joined(['MAE', *binned])} are 95 % intervals of the mean over all test "
        f"rows for the fitted models. Error bars of {joined(others)} show one standard deviation "
        "over the folds."
    )


@dataclass(frozen=True)
class Style:
    """Colour and marker of a series; `outline` is the marker as an SVG path in a 16 x 16 box."""

    colour: str
    marker: str
    outline: str


# After Okabe and Ito, distinct with every common colour blindness. Light colours are darkened to a
# contrast of 3 : 1 with the light and the dark page. Shapes repeat the distinction for grey prints.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C2649A", "#B8860B", "#2F96D3", "#7F5AA8")
_SHAPES = (
    ("o", "M8 2a6 6 0 1 0 .01 0z"),
    ("s", "M3 3h10v10H3z"),
    ("^", "M8 2l6.5 11h-13z"),
    ("D", "M8 1.5L14.5 8 8 14.5 1.5 8z"),
    ("v", "M8 14L1.5 3h13z"),
    ("P", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z"),
    ("X", "M4.5 2L8 5.5 11.5 2 14 4.5 10.5 8 14 11.5 11.5 14 8 10.5 4.5 14 2 11.5 5.5 8 2 4.5z"),
    ("p", "M8 2l6 4.5-2.3 7H4.3L2 6.5z"),
)
_DUMMY_COLOUR = "#767676"
_DUMMY_SHAPES = (
    ("*", "M8 1l2 4.8 5 .4-3.9 3.3 1.2 5L8 11.8 3.7 14.5l1.2-5L1 6.2l5-.4z"),
    ("h", "M8 1.5l5.6 3.3v6.4L8 14.5l-5.6-3.3V4.8z"),
)
COLOURS = {"floor": "#767676", "front": "#8A8A8A", "chosen": "#E5383B", "limit": "#C2403A"}


def style_of(series: Series) -> Style:
    """Return colour and marker of a series, equal on all panels."""
    if series.dummy:
        return Style(_DUMMY_COLOUR, *_DUMMY_SHAPES[series.slot % len(_DUMMY_SHAPES)])
    # Seven colours and eight shapes: the first 56 series are distinct.
    colour = _COLOURS[series.slot % len(_COLOURS)]
    return Style(colour, *_SHAPES[series.slot % len(_SHAPES)])


_PANEL_HEIGHT = 320
_MARKER_SCALE = 0.72  # of the 16 x 16 box of a shape
_CAP = 2.5  # half the length of the caps of error bars


def panel_svg(panel: Panel, y_limits: tuple[float, float] | None = None) -> Markup:
    """Return a panel as an SVG element whose points can be focused.

    The title of a point is its tooltip. Without a script, browsers show it on hover. One point is a
    tab stop; the script of the page moves the focus with the arrow keys.

    Parameters
    ----------
    panel
        A panel with at least one point.
    y_limits
        A range of y, to compare several panels.
    """
    limits = y_limits or y_range([panel])
    axes = Axes(panel.x_range, limits, panel.x_label, panel.y_label, _PANEL_HEIGHT)
    parts = [axes.frame(), Markup(_background(axes, panel))]
    for i, series in enumerate(panel.series):
        parts.append(_series_svg(axes, panel, series, tab_stop=i == 0))
    parts += [
        Markup(
            f'<circle class="chosen" cx="{axes.across(p.x):.1f}" cy="{axes.up(p.y):.1f}" r="10"/>'
        )
        for p in panel.points
        if p.chosen
    ]
    inside = Markup("").join(parts)
    return element(panel.alt, inside, height=_PANEL_HEIGHT, role="group", look="curve plot")


def _background(axes: Axes, panel: Panel) -> str:
    """Return noise floor, limit and Pareto front."""
    parts = []
    height = axes.foot - TOP
    if panel.floor:
        mean, left, right = (axes.across(x) for x in (panel.floor[0], 0.0, panel.floor[1]))
        parts.append(
            f'<rect class="floor" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" '
            f'height="{height}"/><path class="floor" d="M{mean:.1f} {TOP}v{height}"/>'
        )
    if panel.limit is not None and panel.limit <= axes.x[1]:
        parts.append(f'<path class="bound" d="M{axes.across(panel.limit):.1f} {TOP}v{height}"/>')
    (x, y), *steps = [(axes.across(point.x), axes.up(point.y)) for point in panel.front]
    path = "".join(f"H{x:.1f}V{y:.1f}" for x, y in steps)
    return "".join([*parts, f'<path class="pareto" d="M{x:.1f} {y:.1f}{path}"/>'])


def _series_svg(axes: Axes, panel: Panel, series: Series, *, tab_stop: bool) -> Markup:
    """Return lines, error bars and markers of one method; dominated points are hollow."""
    style = style_of(series)
    parts = []
    for path in series.paths:
        places = (f"{axes.across(point.x):.1f} {axes.up(point.y):.1f}" for point in path)
        if len(path) > 1:
            parts.append(f'<path class="line" d="M{"L".join(places)}"/>')
    for i, point in enumerate(series.points):
        x, y = axes.across(point.x), axes.up(point.y)
        left, right = axes.across(point.x - point.x_bar), axes.across(point.x + point.x_bar)
        top, bottom = axes.up(point.y + point.y_bar), axes.up(point.y - point.y_bar)
        bars = (
            f"M{left:.1f} {y - _CAP:.1f}v5m0 -2.5H{right:.1f}m0 -2.5v5"
            f"M{x - _CAP:.1f} {top:.1f}h5m-2.5 0V{bottom:.1f}m-2.5 0h5"
        )
        corner = f"{x - 8 * _MARKER_SCALE:.1f} {y - 8 * _MARKER_SCALE:.1f}"
        parts.append(
            f'<g class="point{"" if point in panel.front else " hollow"}" role="img" '
            f'tabindex="{0 if tab_stop and i == 0 else -1}">'
            f"<title>{escape(chr(10).join(point.text))}</title>"
            f'<path class="bars" d="{bars}"/><path class="mark" d="{style.outline}" '
            f'transform="translate({corner}) scale({_MARKER_SCALE})"/></g>'
        )
    return Markup('<g class="{}" color="{}">{}</g>').format(
        series.key, style.colour, Markup("".join(parts))
    )


DPI = 150
_LABEL_WIDTH = 40  # characters along an axis
_LEGEND_WIDTH = 7  # entries side by side below three panels
_DASHES = (0, (4, 3))
_DOTS = (0, (1, 2))


def draw(panels: Sequence[Panel], *, title: str = "") -> Figure:
    """Return panels side by side as a matplotlib figure.

    Parameters
    ----------
    panels
        At least one panel. All panels share one range of y.
    title
        A line above all panels.
    """
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.1 * columns, 3.6 * rows + 0.7), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)  # needs no display, whatever backend is configured
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    axes = list(grid.flat)
    for ax, panel in zip(axes, panels, strict=False):
        _draw_panel(ax, panel)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for row in grid:
        row[0].set_ylabel(_axis_label(panels[0].y_label))
    axes[0].set_ylim(*y_range(panels))
    if title:
        figure.suptitle(_plain(title), fontsize=11)
    entries = _legend_entries(panels)
    figure.legend(
        list(entries.values()),
        [_plain(label) for label in entries],
        loc="outside lower center",
        ncols=math.ceil(len(entries) / math.ceil(len(entries) / _LEGEND_WIDTH)),
        frameon=False,
        fontsize=9,
    )
    return figure


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as a PNG file; equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_panel(ax: PlotAxes, panel: Panel) -> None:
    """Draw one panel."""
    ax.set_title(_plain(panel.title), fontsize=10)
    ax.set_xlabel(_axis_label(panel.x_label))
    ax.grid(color="#e5e5e5", linewidth=0.6)
    ax.xaxis.set_major_locator(MaxNLocator(6))  # more labels of four decimals would overlap
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if panel.floor:
        ax.axvspan(0.0, panel.floor[1], color=COLOURS["floor"], alpha=0.15, linewidth=0)
        ax.axvline(panel.floor[0], color=COLOURS["floor"], linewidth=1)
    if panel.limit is not None:
        ax.axvline(panel.limit, color=COLOURS["limit"], linewidth=1.4, linestyle=_DOTS)
    x, y = _coordinates(panel.front)
    ax.plot(x, y, drawstyle="steps-post", color=COLOURS["front"], linewidth=1, linestyle=_DASHES)
    for series in panel.series:
        _draw_series(ax, panel, series)
    x, y = _coordinates([point for point in panel.points if point.chosen])
    ax.scatter(x, y, s=170, facecolors="none", edgecolors=COLOURS["chosen"], linewidths=2, zorder=5)
    ax.set_xlim(*panel.x_range)


def _draw_series(ax: PlotAxes, panel: Panel, series: Series) -> None:
    """Draw lines, error bars and markers of one method; dominated points are hollow."""
    style, points = style_of(series), series.points
    for path in series.paths:
        ax.plot(*_coordinates(path), color=style.colour, linewidth=1)
    x, y = _coordinates(points)
    colour, marker = style.colour, style.marker
    bars = [point.y_bar for point in points], [point.x_bar for point in points]
    ax.errorbar(x, y, *bars, fmt="none", ecolor=colour, elinewidth=1, capsize=2, alpha=0.6)
    faces = [colour if point in panel.front else "white" for point in points]
    ax.scatter(x, y, s=42, marker=marker, facecolors=faces, edgecolors=colour, zorder=4)


def _coordinates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the points as lists of x and y."""
    return [point.x for point in points], [point.y for point in points]


def _legend_entries(panels: Sequence[Panel]) -> dict[str, Artist]:
    """Return a symbol for everything that is drawn on at least one panel."""

    def symbol(marker: str, colour: str, **look: Any) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, color=colour, **look)

    entries: dict[str, Artist] = {}
    all_series = [series for panel in panels for series in panel.series]
    for series in all_series:
        style = style_of(series)
        entries[series.legend] = symbol(style.marker, style.colour)
    entries["Pareto front"] = Line2D([], [], color=COLOURS["front"], linewidth=1, linestyle=_DASHES)
    if any(point.chosen for panel in panels for point in panel.points):
        ring: dict[str, Any] = {"markersize": 12, "markerfacecolor": "none", "markeredgewidth": 2}
        entries["chosen model"] = symbol("o", COLOURS["chosen"], **ring)
    if any(panel.floor for panel in panels):
        entries["noise floor"] = Line2D([], [], color=COLOURS["floor"], linewidth=1)
    if any(panel.limit is not None for panel in panels):
        entries["limit"] = Line2D([], [], color=COLOURS["limit"], linewidth=1.4, linestyle=_DOTS)
    if any(series.needs_sensitive for series in all_series):
        entries["† predictions need the sensitive column"] = Line2D([], [], linestyle="none")
    return entries


def _axis_label(label: str) -> str:
    """Return an axis label in as many lines as it needs."""
    return _plain("\n".join(textwrap.wrap(label, _LABEL_WIDTH)))


def _plain(text: str) -> str:
    """Return text that matplotlib does not parse as a formula."""
    return text.replace("$", r"\$")
