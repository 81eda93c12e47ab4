"""Trade-off figures as PNG files."""

import io
import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tasks.palette import CHOSEN_COLOUR, FLOOR_COLOUR, FRONT_COLOUR, style_of
from tasks.report_panels import Panel, Series, x_range, y_range

DPI = 150


def still(panels: Sequence[Panel], *, title: str = "", columns: int = 3) -> bytes:
    """Return the panels side by side as a PNG file.

    Parameters
    ----------
    panels : sequence of Panel
        At least one; the panels share one range of y.
    title : str
        A line above all panels.
    columns : int
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
        _draw(ax, panel)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for row in grid:
        row[0].set_ylabel(panels[0].y_label)
    axes[0].set_ylim(*y_range(panels))
    if title:
        figure.suptitle(title, fontsize=11)
    _legend(figure, axes[: len(panels)], columns=3 * columns)
    buffer = io.BytesIO()
    # Without the software's name the bytes depend on the panels only.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw(ax: Axes, panel: Panel) -> None:
    """One panel on one pair of axes."""
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel(panel.x_label)
    ax.grid(color="#e5e5e5", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    for series in panel.series:
        _draw_series(ax, series)
    front = panel.front
    ax.plot(
        [p.x for p in front],
        [p.y for p in front],
        drawstyle="steps-post",
        color=FRONT_COLOUR,
        linewidth=1,
        linestyle=(0, (4, 3)),
        label="Pareto front",
    )
    chosen = [point for point in panel.points if point.chosen]
    if chosen:
        ax.scatter(
            chosen[0].x,
            chosen[0].y,
            s=170,
            facecolors="none",
            edgecolors=CHOSEN_COLOUR,
            linewidths=2,
            zorder=5,
            label="chosen model",
        )
    if panel.floor:
        ax.axvspan(0.0, panel.floor.upper, color=FLOOR_COLOUR, alpha=0.15, linewidth=0)
        ax.axvline(panel.floor.mean, color=FLOOR_COLOUR, linewidth=1, label="HGR noise floor")
    ax.set_xlim(*x_range(panel))


def _draw_series(ax: Axes, series: Series) -> None:
    """Draw paths, error bars, markers of one method; hollow markers are dominated."""
    style = style_of(series)
    for path in series.paths:
        ax.plot([p.x for p in path], [p.y for p in path], color=style.colour, linewidth=1)
    points = series.points
    ax.errorbar(
        [p.x for p in points],
        [p.y for p in points],
        xerr=[p.x_std for p in points],
        yerr=[p.y_std for p in points],
        fmt="none",
        ecolor=style.colour,
        elinewidth=1,
        capsize=2,
        alpha=0.6,
    )
    ax.scatter(
        [p.x for p in points],
        [p.y for p in points],
        s=42,
        marker=style.shape.marker,
        facecolors=[style.colour if p.front else "white" for p in points],
        edgecolors=style.colour,
        zorder=4,
        label=series.legend,
    )


def _legend(figure: Figure, axes: Sequence[Axes], *, columns: int) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=min(len(entries), columns),
        frameon=False,
        fontsize=9,
    )
