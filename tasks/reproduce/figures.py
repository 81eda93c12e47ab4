"""Figures of an experiment in the arrangement of the paper."""

import itertools

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from configs.reproduction import CurvesConfig, FigureConfig
from fkd.measures import MEASURES
from tasks.report.figures import (
    DPI,
    Panel,
    Point,
    Series,
    draw,
    png_bytes,
    style_of,
    with_front,
)
from tasks.reproduce.curves import DUMMIES, Curve, Curves, distances


def run_figure(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Return one run's row of the figure as the bytes of a PNG file."""
    if figure.kind == "errors":
        return _errors(run, figure, curves)
    if figure.kind == "differences":
        return _differences(run, curves)
    columns = next(iter(curves.values())).study.inputs.measure_on
    panels = [
        with_front(_panel(curves, measure, column))
        for column in columns
        for measure in figure.measures
    ]
    return png_bytes(draw(panels, title=run.title))


def _panel(curves: Curves, measure: str, column: str) -> Panel:
    """Return the error against one measure."""
    label = MEASURES[measure].label
    return Panel(
        title=f"{label} on {column}",
        x_label=f"{label} on {column}",
        y_label="MAE (scaled)",
        series=tuple(
            _series(curve.merged, slot, measure, column) for slot, curve in _with_slots(curves)
        ),
    )


def _with_slots(curves: Curves) -> list[tuple[int, Curve]]:
    """Return every curve with its place in the palette, dummies counted apart."""
    slots = {False: itertools.count(), True: itertools.count()}
    return [(next(slots[curve.method in DUMMIES]), curve) for curve in curves.values()]


def _series(curve: Curve, slot: int, measure: str, column: str) -> Series:
    """Return a curve's points, in the order of its grid."""
    points = tuple(
        Point(
            x=result.mean(measure, column),
            y=result.mean("mae", column),
            x_bar=result.std(measure, column),
            y_bar=result.std("mae", column),
        )
        for result in curve.results
    )
    return Series(curve.label, (points,), slot, dummy=curve.method in DUMMIES)


def _errors(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Draw the error along one parameter, a line per combination of the others."""
    drawn, axes = _axes(len(curves), run.title)
    for ax, curve in zip(axes, (curve.merged for curve in curves.values()), strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for result in curve.results:
            parameters = result.trial.parameters
            others = [name for name in curve.varying if name != figure.along]
            label = ", ".join(f"{name} = {parameters[name]:g}" for name in others)
            column = curve.study.inputs.measure_on[0]
            point = (parameters[figure.along], result.mean(figure.of, column))
            lines.setdefault(label, []).append(point)
        for slot, (label, points) in enumerate(lines.items()):
            _line(ax, label, sorted(points), slot)
        ax.set(xscale="log", xlabel=figure.along, ylabel=f"{figure.of.upper()} over folds")
        ax.set_title(curve.label, fontsize=10)
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=6, frameon=False, ncols=3
        )
    return png_bytes(drawn)


def _differences(run: CurvesConfig, curves: Curves) -> bytes:
    """Draw how far other curves' predictions lie from the first one's, along the strength."""
    drawn, (ax,) = _axes(1, run.title)
    first, *others = curves.values()
    for slot, curve in enumerate(others):
        points = [(m, max(distance, 1e-17)) for m, distance in distances(curve, first)]
        if not points:
            continue
        _line(ax, f"{curve.label} against {first.label}", points, slot)
    ax.set(xlabel="iterations m", ylabel="greatest difference of predictions", yscale="log")
    ax.legend(fontsize=8, frameon=False)
    return png_bytes(drawn)


def _axes(count: int, title: str) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with so many panels side by side."""
    drawn = Figure(figsize=(4.6 * count, 4.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(drawn)  # draws without a display, whatever backend is configured
    drawn.suptitle(title, fontsize=11)
    axes = list(drawn.subplots(1, count, squeeze=False).flat)
    for ax in axes:
        ax.grid(color="#e5e5e5", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def _line(ax: Axes, label: str, points: list[tuple[float, float]], slot: int) -> None:
    """Draw one line in the palette's look."""
    style = style_of(Series(label, (), slot))
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=style.colour, marker=style.shape.marker, markersize=4, label=label)
