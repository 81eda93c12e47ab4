"""Panels of a trade-off figure, as plain values."""

import html
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from plotly import graph_objects as go

from fkd.measures import MEASURES, REPORTED
from fkd.measures.pareto import non_dominated
from tasks.report.formatting import (
    MAE_DECIMALS,
    error_words,
    estimate_in_unit,
    has_own_unit,
    in_unit,
    joined,
    params_words,
    strength_words,
    with_interval,
    with_std,
)
from tasks.report.model import (
    ReportData,
    ReportedInterval,
    ReportedNoiseFloor,
    ReportedNumber,
    SensitiveColumn,
    TrialSummary,
)

_LABEL_WIDTH = 40  # characters along an axis


@dataclass(frozen=True)
class Point:
    """One setting on a panel."""

    x: float
    y: float
    x_std: float = 0.0
    y_std: float = 0.0
    hover: tuple[str, ...] = ()  # lines of text
    front: bool = True  # no other point of the panel is better on both axes
    chosen: bool = False


@dataclass(frozen=True)
class Series:
    """One method on a panel: paths of points that differ in strength only."""

    label: str
    paths: tuple[tuple[Point, ...], ...]
    slot: int  # the place in the palette, the same on every panel; dummies have their own
    dummy: bool = False
    needs_sensitive: bool = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all paths."""
        return tuple(itertools.chain.from_iterable(self.paths))

    @property
    def legend(self) -> str:
        """The label, marked where the sensitive column is needed to predict."""
        return f"{self.label} †" if self.needs_sensitive else self.label


@dataclass(frozen=True)
class Panel:
    """One pair of axes; less is better on both."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    floor: ReportedNoiseFloor | None = None
    meaning: str = ""  # what the x axis measures, in a sentence
    limit: float | None = None  # the greatest x that a chosen model may have

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all series."""
        return tuple(point for series in self.series for point in series.points)

    @property
    def front(self) -> tuple[Point, ...]:
        """The points that no other beats on both axes, from left to right."""
        return tuple(sorted((p for p in self.points if p.front), key=lambda p: (p.x, -p.y)))

    @property
    def alt(self) -> str:
        """The panel for those who cannot see it."""
        best = min(self.points, key=lambda p: p.y)
        return (
            f"{self.x_label} against {self.y_label} for {len(self.points)} settings of "
            f"{', '.join(series.label for series in self.series)}. The lowest {self.y_label} is "
            f"{best.y:.4g}, at {best.x:.3g}; {len(self.front)} settings form the front."
        )


def with_front(panel: Panel) -> Panel:
    """Return the panel with every point marked as beaten or not, over all series."""
    mask = iter(non_dominated([(point.x, point.y) for point in panel.points]))
    series = tuple(
        replace(
            one,
            paths=tuple(
                tuple(replace(point, front=bool(next(mask))) for point in path)
                for path in one.paths
            ),
        )
        for one in panel.series
    )
    return replace(panel, series=series)


def lines_of(label: str) -> list[str]:
    """Return an axis label in lines that are no longer than a panel."""
    return textwrap.wrap(label, _LABEL_WIDTH)


def x_range(panel: Panel) -> tuple[float, float]:
    """Return a range of x that holds zero, error bars, noise floor."""
    left = min([0.0, *(point.x - point.x_std for point in panel.points)])
    right = max([0.0, *(point.x + point.x_std for point in panel.points)])
    right = max(right, panel.floor.upper if panel.floor else 0.0)
    # A limit far to the right of everything would press the points together.
    if panel.limit is not None and panel.limit <= 2 * right:
        right = max(right, panel.limit)
    # The margin keeps a dummy at zero whole.
    margin = 0.05 * (right - left) or 1.0
    return left - margin, right + margin


def y_range(panels: Iterable[Panel]) -> tuple[float, float]:
    """Return one range of y for all panels, error bars included, with a margin of 6 %."""
    points = [point for panel in panels for point in panel.points]
    if not points:
        return 0.0, 1.0
    low = min(point.y - point.y_std for point in points)
    high = max(point.y + point.y_std for point in points)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


@dataclass(frozen=True)
class Shape:
    """A marker in matplotlib's words, in plotly's, as an SVG path in a 16 x 16 box."""

    marker: str
    symbol: str
    outline: str


@dataclass(frozen=True)
class Style:
    """Colour of a series with its marker."""

    colour: str
    shape: Shape


# After Okabe and Ito, told apart with every common colour blindness; the light ones are darkened
# until they stand out 3 : 1 from white as from the dark page. Shapes repeat the distinction for
# print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C2649A", "#B8860B", "#2F96D3", "#7F5AA8")
_SHAPES = (
    Shape("o", "circle", "M8 2a6 6 0 1 0 .01 0z"),
    Shape("s", "square", "M3 3h10v10H3z"),
    Shape("^", "triangle-up", "M8 2l6.5 11h-13z"),
    Shape("D", "diamond", "M8 1.5L14.5 8 8 14.5 1.5 8z"),
    Shape("v", "triangle-down", "M8 14L1.5 3h13z"),
    Shape("P", "cross", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z"),
    Shape(
        "X",
        "x",
        "M4.5 2L8 5.5 11.5 2 14 4.5 10.5 8 14 11.5 11.5 14 8 10.5 4.5 14 2 11.5 5.5 8 2 4.5z",
    ),
    Shape("p", "pentagon", "M8 2l6 4.5-2.3 7H4.3L2 6.5z"),
)
_DUMMY_COLOUR = "#767676"
_DUMMY_SHAPES = (
    Shape("*", "star", "M8 1l2 4.8 5 .4-3.9 3.3 1.2 5L8 11.8 3.7 14.5l1.2-5L1 6.2l5-.4z"),
    Shape("h", "hexagon", "M8 1.5l5.6 3.3v6.4L8 14.5l-5.6-3.3V4.8z"),
)
FLOOR_COLOUR = "#767676"
FRONT_COLOUR = "#8A8A8A"
CHOSEN_COLOUR = "#E5383B"
LIMIT_COLOUR = "#C2403A"


def style_of(series: Series) -> Style:
    """Return the look of a series: the same colour, the same shape on every panel."""
    if series.dummy:
        return Style(_DUMMY_COLOUR, _DUMMY_SHAPES[series.slot % len(_DUMMY_SHAPES)])
    # Seven colours against eight shapes: 56 series before a pair repeats.
    colour = _COLOURS[series.slot % len(_COLOURS)]
    return Style(colour, _SHAPES[series.slot % len(_SHAPES)])


DPI = 150
_LEGEND_WIDTH = 7  # entries that fit beside each other under three panels
_DASHES = (0, (4, 3))
_DOTS = (0, (1, 2))


def still(panels: Sequence[Panel], *, title: str = "", columns: int = 3) -> bytes:
    """Return the panels side by side as the bytes of a PNG file; see `draw`."""
    return png_bytes(draw(panels, title=title, columns=columns))


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file, the same for the same figure."""
    buffer = io.BytesIO()
    # Without the software's name the bytes depend on what is drawn only.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def draw(panels: Sequence[Panel], *, title: str = "", columns: int = 3) -> Figure:
    """Return the panels side by side as a figure.

    Parameters
    ----------
    panels
        At least one; the panels share one range of y.
    title
        A line above all panels.
    columns
        Panels per row.
    """
    if not panels:
        raise ValueError("panels must hold at least one panel, got none")
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.1 * columns, 3.6 * rows + 0.7), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)  # draws without a display, whatever backend is configured
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    axes = list(grid.flat)
    for ax, panel in zip(axes, panels, strict=False):
        _draw_panel(ax, panel)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for row in grid:
        row[0].set_ylabel(_axis(panels[0].y_label))
    axes[0].set_ylim(*y_range(panels))
    if title:
        figure.suptitle(_plain(title), fontsize=11)
    _add_legend(figure, panels)
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    """Draw one panel on one pair of axes."""
    ax.set_title(_plain(panel.title), fontsize=10)
    ax.set_xlabel(_axis(panel.x_label))
    ax.grid(color="#e5e5e5", linewidth=0.6)
    ax.xaxis.set_major_locator(MaxNLocator(6))  # more labels of four decimals would overlap
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if panel.floor:
        ax.axvspan(0.0, panel.floor.upper, color=FLOOR_COLOUR, alpha=0.15, linewidth=0)
        ax.axvline(panel.floor.mean, color=FLOOR_COLOUR, linewidth=1)
    if panel.limit is not None:
        ax.axvline(panel.limit, color=LIMIT_COLOUR, linewidth=1.4, linestyle=_DOTS)
    x, y = _coordinates(panel.front)
    ax.plot(x, y, drawstyle="steps-post", color=FRONT_COLOUR, linewidth=1, linestyle=_DASHES)
    for series in panel.series:
        _draw_series(ax, series)
    x, y = _coordinates([point for point in panel.points if point.chosen])
    ax.scatter(x, y, s=170, facecolors="none", edgecolors=CHOSEN_COLOUR, linewidths=2, zorder=5)
    ax.set_xlim(*x_range(panel))


def _draw_series(ax: Axes, series: Series) -> None:
    """Draw paths, error bars, markers of one method; hollow markers are dominated."""
    style, points = style_of(series), series.points
    for path in series.paths:
        ax.plot(*_coordinates(path), color=style.colour, linewidth=1)
    x, y = _coordinates(points)
    ax.errorbar(
        x,
        y,
        xerr=[point.x_std for point in points],
        yerr=[point.y_std for point in points],
        fmt="none",
        ecolor=style.colour,
        elinewidth=1,
        capsize=2,
        alpha=0.6,
    )
    faces = [style.colour if point.front else "white" for point in points]
    marker = style.shape.marker
    ax.scatter(x, y, s=42, marker=marker, facecolors=faces, edgecolors=style.colour, zorder=4)


def _coordinates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the points as a list of x, a list of y."""
    return [point.x for point in points], [point.y for point in points]


def _add_legend(figure: Figure, panels: Sequence[Panel]) -> None:
    """Put one legend for all panels below them."""
    entries = _legend_entries(panels)
    rows = math.ceil(len(entries) / _LEGEND_WIDTH)
    figure.legend(
        list(entries.values()),
        [_plain(label) for label in entries],
        loc="outside lower center",
        ncols=math.ceil(len(entries) / rows),
        frameon=False,
        fontsize=9,
    )


def _legend_entries(panels: Sequence[Panel]) -> dict[str, Artist]:
    """Return a symbol for everything that is drawn on at least one panel."""
    entries: dict[str, Artist] = {}
    for series in (series for panel in panels for series in panel.series):
        style = style_of(series)
        entries[series.legend] = _symbol(style.shape.marker, style.colour)
    entries["Pareto front"] = Line2D([], [], color=FRONT_COLOUR, linewidth=1, linestyle=_DASHES)
    if any(point.chosen for panel in panels for point in panel.points):
        ring = {"markersize": 12, "markerfacecolor": "none", "markeredgewidth": 2}
        entries["chosen model"] = _symbol("o", CHOSEN_COLOUR, **ring)
    if any(panel.floor for panel in panels):
        entries["HGR noise floor"] = Line2D([], [], color=FLOOR_COLOUR, linewidth=1)
    if any(panel.limit is not None for panel in panels):
        entries["limit"] = Line2D([], [], color=LIMIT_COLOUR, linewidth=1.4, linestyle=_DOTS)
    if any(series.needs_sensitive for panel in panels for series in panel.series):
        entries["† needs the sensitive column to predict"] = Line2D([], [], linestyle="none")
    return entries


def _symbol(marker: str, colour: str, **look: Any) -> Line2D:
    """Return a lone marker."""
    return Line2D([], [], linestyle="none", marker=marker, color=colour, **look)


def _axis(label: str) -> str:
    """Return an axis label in as many lines as it needs."""
    return _plain("\n".join(lines_of(label)))


def _plain(text: str) -> str:
    """Return text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


_HOVER_WIDTH = 30  # characters of a line that fit beside a point in the middle of a phone


def panels_of(report: ReportData, column: SensitiveColumn) -> tuple[Panel, ...]:
    """Return one panel per drawn measure that the trials hold for this column."""
    panels = [_panel(report, column, measure) for measure in REPORTED]
    return tuple(with_front(panel) for panel in panels if panel.points)


def is_known(trial: TrialSummary, column: str, measure: str) -> bool:
    """Return whether the trial has finite numbers for both axes."""
    score = trial.scores[column].get(measure)
    return score is not None and math.isfinite(score.mean) and math.isfinite(trial.mae.mean)


def _panel(report: ReportData, column: SensitiveColumn, measure: str) -> Panel:
    """Return a measure against the error."""
    info = MEASURES[measure]
    return Panel(
        title=f"{info.label}: {info.title}",
        x_label=f"{info.label} on {column.words}",
        y_label=error_words(report.target),
        series=_all_series(report, column.name, measure),
        floor=column.noise_floor.get(measure),
        meaning=" ".join(filter(None, (info.meaning, _in_own_unit(report, measure)))),
        limit=report.champion.limits.get(measure) if report.champion else None,
    )


def _in_own_unit(report: ReportData, measure: str) -> str:
    """Return what a step on the axis of a scaled measure is in the target's unit."""
    if MEASURES[measure].unit != "prediction" or not has_own_unit(report.target):
        return ""
    return f"0.01 is {in_unit(0.01, report.target)}."


def _all_series(report: ReportData, column: str, measure: str) -> tuple[Series, ...]:
    """Return one series per method that has a point."""
    slots = {False: itertools.count(), True: itertools.count()}
    found = []
    for group in _groups(report.trials, lambda trial: trial.label):
        first = group[0]
        # A method without a point still takes its slot: colours agree between panels.
        slot = next(slots[first.dummy])
        known = [trial for trial in group if is_known(trial, column, measure)]
        paths = tuple(
            tuple(_point(report, trial, column, measure) for trial in path)
            for path in _paths(known)
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


def _paths(trials: Sequence[TrialSummary]) -> list[list[TrialSummary]]:
    """Return trials that differ in strength only, weakest first."""
    groups = _groups(trials, params_words)
    return [sorted(group, key=lambda trial: trial.strength) for group in groups]


def _point(report: ReportData, trial: TrialSummary, column: str, measure: str) -> Point:
    """Return the trial's place on a panel."""
    score = trial.scores[column][measure]
    chosen = report.champion is not None and report.champion.trial == trial.key
    return Point(
        x=score.mean,
        y=trial.mae.mean * report.target.scale,
        x_std=score.bar,
        y_std=trial.mae.bar * report.target.scale,
        hover=_hover(report, trial, measure, score, chosen),
        chosen=chosen,
    )


def _told(number: ReportedNumber, decimals: int) -> str:
    """Return a number with its interval, or with its deviation over folds."""
    if number.ends is None:
        return with_std(number, decimals)
    return with_interval(ReportedInterval(number.mean, *number.ends), decimals + 1)


def _hover(
    report: ReportData, trial: TrialSummary, measure: str, score: ReportedNumber, chosen: bool
) -> tuple[str, ...]:
    """Return what a pointer over the trial shows, line by line."""
    info, target = MEASURES[measure], report.target
    own = f"MAE {estimate_in_unit(trial.mae, target)} {target.unit}" if has_own_unit(target) else ""
    lines = (
        f"{trial.label} (the chosen model)" if chosen else trial.label,
        strength_words(trial),
        f"{info.label} {_told(score, info.decimals)}",
        f"MAE {_told(trial.mae, MAE_DECIMALS)}",
        own,
        params_words(trial).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"),
        "needs the sensitive column to predict" if trial.needs_sensitive else "",
        "searched: looks a little too good" if trial.searched else "",
    )
    return tuple(piece for line in lines for piece in textwrap.wrap(line, _HOVER_WIDTH))


def bar_words(trials: Iterable[TrialSummary]) -> str:
    """Return what the error bars of a figure are, in a sentence."""
    known = [
        n for t in trials for n in (t.mae, *(m for c in t.scores.values() for m in c.values()))
    ]
    if not any(number.ends for number in known):
        return "Bars show one standard deviation over the folds."
    drawn = [m.label for m in REPORTED.values() if m.interval == "binned"]
    others = [m.label for m in REPORTED.values() if m.interval != "binned"]
    return (
        f"Bars of {joined(['MAE', *drawn])} are 95 % intervals of the mean over all test rows, the "
        f"models being as they are; those of {joined(others)} show one standard deviation over the "
        "folds."
    )


def interactive(panel: Panel, *, y_limits: tuple[float, float] | None = None) -> go.Figure:
    """Return the panel as a plotly figure; `y_limits` makes several panels comparable."""
    figure = go.Figure()
    front = panel.front
    figure.add_scatter(
        x=[p.x for p in front],
        y=[p.y for p in front],
        mode="lines",
        line={"shape": "hv", "dash": "dash", "width": 1.2, "color": FRONT_COLOUR},
        hoverinfo="skip",
        name="Pareto front",
    )
    for series in panel.series:
        figure.add_traces(_traces(series))
    chosen = [point for point in panel.points if point.chosen]
    figure.add_scatter(
        x=[p.x for p in chosen],
        y=[p.y for p in chosen],
        mode="markers",
        marker={
            "symbol": "circle-open",
            "size": 20,
            "line": {"width": 2.5},
            "color": CHOSEN_COLOUR,
        },
        hoverinfo="skip",
        name="chosen model",
    )
    _lay_out(figure, panel, y_limits)
    return figure


def _traces(series: Series) -> list[go.Scatter]:
    """Return the path of a method, then its points with error bars."""
    style = style_of(series)
    gapped = [p for path in series.paths for p in (*path, None)]
    points = series.points
    line = go.Scatter(
        x=[p.x if p else None for p in gapped],
        y=[p.y if p else None for p in gapped],
        mode="lines",
        line={"color": style.colour, "width": 1.2},
        hoverinfo="skip",
        legendgroup=series.label,
    )
    bar = {"color": style.colour, "thickness": 1, "width": 3}
    markers = go.Scatter(
        x=[p.x for p in points],
        y=[p.y for p in points],
        error_x={"array": [p.x_std for p in points], **bar},
        error_y={"array": [p.y_std for p in points], **bar},
        mode="markers",
        marker={
            "symbol": [
                style.shape.symbol if p.front else f"{style.shape.symbol}-open" for p in points
            ],
            "size": 9,
            "color": style.colour,
            "line": {"width": 1.5, "color": style.colour},
        },
        # plotly reads its own small HTML, so text from data is escaped here as well.
        text=["<br>".join(html.escape(line) for line in p.hover) for p in points],
        hovertemplate="%{text}<extra></extra>",
        legendgroup=series.label,
        name=html.escape(series.legend),
    )
    return [line, markers]


def _plotly_axis(label: str) -> str:
    """Return an axis label in as many lines as it needs, escaped for plotly."""
    return "<br>".join(html.escape(line) for line in lines_of(label))


def _lay_out(figure: go.Figure, panel: Panel, y_limits: tuple[float, float] | None) -> None:
    """Axes, margins, the noise floor, the limit; colours of text are left to the page."""
    figure.update_layout(
        template="none",
        showlegend=False,
        margin={"l": 58, "r": 10, "t": 8, "b": 46},
        height=330,
        hovermode="closest",
        hoverlabel={"align": "left"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis={
            "title": {"text": _plotly_axis(panel.x_label)},
            "range": list(x_range(panel)),
            "automargin": True,
        },
        yaxis={
            "title": {"text": _plotly_axis(panel.y_label)},
            "automargin": True,
            "range": list(y_limits or y_range([panel])),
        },
    )
    if panel.floor:
        floor = panel.floor
        figure.add_vrect(x0=0.0, x1=floor.upper, fillcolor=FLOOR_COLOUR, opacity=0.15, line_width=0)
        figure.add_vline(x=floor.mean, line={"color": FLOOR_COLOUR, "width": 1})
    if panel.limit is not None:
        line = {"color": LIMIT_COLOUR, "width": 1.5, "dash": "dot"}
        figure.add_vline(x=panel.limit, line=line)
