"""Trade-off figures that answer a pointer."""

import html

from plotly import graph_objects as go

from tasks.report.palette import CHOSEN_COLOUR, FLOOR_COLOUR, FRONT_COLOUR, LIMIT_COLOUR, style_of
from tasks.report.panels import Panel, Series, lines_of, x_range, y_range


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


def _axis(label: str) -> str:
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
            "title": {"text": _axis(panel.x_label)},
            "range": list(x_range(panel)),
            "automargin": True,
        },
        yaxis={
            "title": {"text": _axis(panel.y_label)},
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
