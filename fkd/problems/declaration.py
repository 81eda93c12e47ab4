"""A prediction problem as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fkd.encoding import Scale


@dataclass(frozen=True)
class Problem:
    """What is predicted from which columns, without leaning on which others.

    Parameters
    ----------
    name, title
        The word used in configurations; the words used in reports.
    target, target_unit
        The continuous column to predict with the unit in which people read its errors.
    sensitive, sensitive_options
        The columns removed by default; all that may be removed or measured.
    numeric, categorical
        The predictors, sensitive ones included.
    scale
        How the encoder treats numeric inputs.
    fills
        The number that stands for a missing value, by numeric column.
    fixed_range
        A range known for target and sensitive columns alike; the data set's own if None.
    extra
        Columns that are kept but are never inputs.
    sources
        Where rows can come from, the default first.
    datasheet
        Origin, units, limits, as markdown.
    version
        Part of every digest: raised when the same files would give other rows.
    """

    name: str
    title: str
    target: str
    target_unit: str
    sensitive: tuple[str, ...]
    sensitive_options: tuple[str, ...]
    numeric: tuple[str, ...]
    scale: Scale
    sources: tuple[str, ...]
    datasheet: str
    categorical: tuple[str, ...] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    fixed_range: tuple[float, float] | None = None
    extra: tuple[str, ...] = ()
    version: int = 1

    @property
    def predictors(self) -> tuple[str, ...]:
        """Every column that can be an input."""
        return self.numeric + self.categorical
