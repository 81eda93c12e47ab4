"""The declaration of a prediction problem, and that of a user's table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
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


# The name of the problem in configurations.
TABLE = "table"
TABLE_SOURCES = {
    "file": (
        *("path", "target", "numeric", "categorical", "keep", "ranges", "missing=impute"),
        *("encoding", "separator", "decimal", "missing_words"),
        *("title", "description", "row_noun", "titles", "units", "descriptions"),
    )
}


def table_problem(
    *,
    path: str,
    target: str,
    sensitive: Sequence[str],
    numeric: Sequence[str],
    categorical: Sequence[str],
    extra: Sequence[str],
    scale: Scale = "minmax",
    title: str = "",
    description: str = "",
    row_noun: str = "",
    titles: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    descriptions: Mapping[str, str] | None = None,
) -> Problem:
    """Return the problem of a file with columns named by the user.

    Parameters
    ----------
    path
        The file. Its name is the default title.
    target
        The column to predict.
    sensitive
        Columns that are removed or measured. They need not be inputs.
    numeric, categorical
        Inputs.
    extra
        Columns that are kept for folds and are never inputs.
    scale
        How numeric inputs are scaled.
    title, description
        Title and description of the table in reports.
    row_noun
        The noun for rows, as a plural: persons, flats.
    titles, units, descriptions
        Title, unit and description of columns by name.
    """
    titles, units = titles or {}, units or {}
    problem = Problem(
        name=TABLE,
        title=title or PurePath(path).name,
        target=target,
        target_unit=units.get(target, f"units of {titles.get(target, target)}"),
        sensitive=tuple(sensitive),
        sensitive_options=tuple(dict.fromkeys((*sensitive, *numeric))),
        numeric=tuple(numeric),
        categorical=tuple(categorical),
        scale=scale,
        sources=TABLE_SOURCES,
        extra=tuple(extra),
        datasheet="",
        titles=titles,
        row_noun=row_noun or "rows",
        units=units,
    )
    texts = (titles, units, descriptions or {})
    return replace(problem, datasheet=_datasheet(problem, description, texts))


def _datasheet(problem: Problem, description: str, texts: Sequence[Mapping[str, str]]) -> str:
    """Return the description and a table of the columns, in Markdown."""
    lines = [
        f"# {problem.title}",
        "",
        description or "A table of the user's own, without a description.",
        "",
        "| column | role | title | unit | description |",
        "|---|---|---|---|---|",
    ]
    for name in problem.columns:
        roles = {
            "target": name == problem.target,
            "sensitive": name in problem.sensitive,
            "number": name in problem.numeric,
            "label": name in problem.categorical,
            "kept for folds": name in problem.extra,
        }
        role = ", ".join(role for role, holds in roles.items() if holds)
        cells = (name, role, *(known.get(name, "") for known in texts))
        # A line break or a bar would end the cell.
        escaped = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"
