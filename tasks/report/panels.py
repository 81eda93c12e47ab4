"""Panels of a trade-off figure, as plain values."""

import itertools
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fkd.measures.pareto import non_dominated
from tasks.report.contents import ReportedNoiseFloor

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
