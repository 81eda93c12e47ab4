"""The declaration of a prediction problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.problems.encoder import Scale


@dataclass(frozen=True)
class RowFilter:
    """The rows of a raw file that belong to a problem.

    Parameters
    ----------
    columns
        Numeric columns that `keep` needs.
    keep
        Returns a mask of the rows to keep from columns by name; NaN is a missing value.
    reason
        Why the other rows are dropped, for reports.
    """

    columns: tuple[str, ...]
    keep: Callable[[Mapping[str, Array]], NDArray[np.bool_]]
    reason: str


@dataclass(frozen=True)
class Problem:
    """A prediction problem: target, inputs, sensitive columns, and how to read them.

    Parameters
    ----------
    name, title
        Name in configurations, title in reports.
    target, target_unit
        The continuous column to predict, and its unit.
    sensitive, sensitive_options
        Columns that are removed by default; all columns that may be removed or measured.
    numeric, categorical
        Inputs, sensitive ones included.
    scale
        How the encoder scales numeric inputs.
    sources
        Where rows can come from, by name, with the options of `data` in a configuration that apply
        to the source: "year", or "missing=zero" for a single value. The first source is the
        default. The name `embedded` is reserved for rows that are part of this package.
    datasheet
        Origin, units and limits, in Markdown.
    incomplete
        Numeric columns with many missing values, which are inputs on request only.
    fills
        The number that replaces a missing value, by numeric column.
    fixed_range
        Range by which target and sensitive columns are scaled. None: the range of the data.
    extra
        Columns that are kept but are never inputs.
    rows
        Which rows of the raw files belong to the problem. None: all.
    target_absent
        Why rows without a target are dropped, for reports.
    limits
        Smallest and largest possible value by column. Other values mean a wrong file.
    renamed
        Names of a column in files of other years.
    split
        Columns that replace one column in files over several years. Each row fills one of them.
    titles, row_noun
        How reports name columns and rows.
    units
        Units of columns other than the target.
    version
        Part of every digest. Increase it if the same files give other rows.
    """

    name: str
    title: str
    target: str
    target_unit: str
    sensitive: tuple[str, ...]
    sensitive_options: tuple[str, ...]
    numeric: tuple[str, ...]
    scale: Scale
    sources: Mapping[str, tuple[str, ...]]
    datasheet: str
    categorical: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    fills: Mapping[str, float] = field(default_factory=dict)
    fixed_range: tuple[float, float] | None = None
    extra: tuple[str, ...] = ()
    rows: RowFilter | None = None
    target_absent: str = "target missing"
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    row_noun: str = "rows"
    units: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @property
    def predictors(self) -> tuple[str, ...]:
        """All columns that can be inputs."""
        return self.numeric + self.categorical

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the problem, each once."""
        named = (self.target, *self.sensitive, *self.predictors, *self.extra)
        return tuple(dict.fromkeys(named))

    def with_incomplete(self) -> Self:
        """Return the problem with its incomplete columns as inputs, missing values set to 0."""
        fills = {**self.fills, **dict.fromkeys(self.incomplete, 0.0)}
        return replace(self, numeric=self.numeric + self.incomplete, incomplete=(), fills=fills)

    def with_codes(self) -> Self:
        """Return the problem with labels as numbers by their codes, missing labels set to 0."""
        fills = {**self.fills, **dict.fromkeys(self.categorical, 0.0)}
        return replace(self, numeric=self.predictors, categorical=(), fills=fills)
