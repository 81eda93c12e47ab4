"""A prediction problem as a value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from fkd.problems.encoder import Scale

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RowFilter:
    """Which rows belong to a problem: a function of a frame with a sentence for people."""

    columns: tuple[str, ...]
    """What the function looks at."""
    keep: Callable[["pd.DataFrame"], "pd.DataFrame"]
    """Returns the frame's rows that belong, with their index."""
    reason: str
    """Why the others were dropped."""


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
    gappy
        Numeric columns with so many missing values that they are predictors only if asked for.
    scale
        How the encoder treats numeric inputs.
    sources
        Where rows can come from, the default first.
    datasheet
        Origin, units, limits, as markdown.
    fills
        The number that stands for a missing value, by numeric column.
    fixed_range
        A range known for target and sensitive columns alike; the data set's own if None.
    extra
        Columns that are kept but are never inputs.
    rows
        Which rows of the raw files belong; all if None.
    target_absent
        What it means when the target is missing; those rows are dropped.
    limits
        Least and greatest value that a column can hold; anything else is a damaged or wrong file.
    renamed
        Other names of a column in other years, as alternatives to its own.
    split
        Parts of a column in files over several years, of which each row fills one.
    words
        How reports name a column, and what a row is under the key "rows".
    units
        In what a column other than the target is counted, by its name.
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
    gappy: tuple[str, ...] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    fixed_range: tuple[float, float] | None = None
    extra: tuple[str, ...] = ()
    rows: RowFilter | None = None
    target_absent: str = "target missing"
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @property
    def predictors(self) -> tuple[str, ...]:
        """Every column that can be an input."""
        return self.numeric + self.categorical

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is looked at, each once: target, sensitive ones, inputs, kept ones."""
        named = (self.target, *self.sensitive, *self.predictors, *self.extra)
        return tuple(dict.fromkeys(named))

    def with_gappy(self) -> Self:
        """Return the problem with its gappy columns as predictors, their gaps filled by 0."""
        fills = {**self.fills, **dict.fromkeys(self.gappy, 0.0)}
        return replace(self, numeric=self.numeric + self.gappy, gappy=(), fills=fills)

    def with_codes(self) -> Self:
        """Return the problem with its labels as the numbers they are coded by, 0 if missing."""
        fills = {**self.fills, **dict.fromkeys(self.categorical, 0.0)}
        return replace(self, numeric=self.predictors, categorical=(), fills=fills)
