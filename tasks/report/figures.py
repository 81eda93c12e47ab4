"""Trade-off figures as PNG files."""

import io
import math
from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tasks.report.palette import CHOSEN_COLOUR, FLOOR_COLOUR, FRONT_COLOUR, LIMIT_COLOUR, style_of
from tasks.report.panels import Panel, Point, Series, lines_of, x_range, y_range

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
