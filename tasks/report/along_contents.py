"""What a page shows along a sensitive column, as plain values."""

from dataclasses import dataclass

from tasks.report.svg_curves import CurveFigure
from tasks.report.tables import Grid


@dataclass(frozen=True)
class AlongWords:
    """How a page speaks of the target, its rows, the two models.

    Parameters
    ----------
    target, unit
        What is predicted, what it is counted in; no unit where it has none of its own.
    rows
        What the rows are.
    model, other
        The model at hand, the one that it is compared with.
    """

    target: str
    unit: str = ""
    rows: str = "rows"
    model: str = "chosen model"
    other: str = "nothing removed"

    @property
    def of_unit(self) -> str:
        """The unit after a number."""
        return f" {self.unit}" if self.unit else ""


@dataclass(frozen=True)
class CaptionedGrid:
    """A table with what stands above it, what it leaves out."""

    caption: str
    grid: Grid
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlongColumn:
    """The figures, tables, sentences on one sensitive column."""

    column: str
    sentences: tuple[str, ...]
    figures: tuple[CurveFigure, ...]
    tables: tuple[CaptionedGrid, ...]


@dataclass(frozen=True)
class AlongSection:
    """Everything that a page shows along sensitive columns."""

    columns: tuple[AlongColumn, ...]
    pairs: tuple[CaptionedGrid, ...] = ()
    notes: tuple[str, ...] = ()
