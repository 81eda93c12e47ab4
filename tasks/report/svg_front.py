"""Trials as points before a limit, as SVG."""

from dataclasses import dataclass

from markupsafe import Markup

from tasks.report.svg_curves import HEIGHT, MARGIN, WIDTH, Axes, CurveFigure, frame


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
        axes = _axes(self.points)
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


def _axes(points: tuple[tuple[float, float], ...]) -> Axes:
    """Return ranges that hold all points with a margin."""
    ends = []
    for values in zip(*points, strict=True):
        low, high = min(values), max(values)
        margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        ends.append((low - margin, high + margin))
    return Axes(ends[0], ends[1])
