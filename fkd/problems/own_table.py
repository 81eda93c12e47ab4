"""The problem of a user's table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from fkd.problems.declaration import Problem
from fkd.problems.encoder import Scale

# The name of the problem in configurations.
NAME = "table"
SOURCES = {
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
        name=NAME,
        title=title or PurePath(path).name,
        target=target,
        target_unit=units.get(target, f"units of {titles.get(target, target)}"),
        sensitive=tuple(sensitive),
        sensitive_options=tuple(dict.fromkeys((*sensitive, *numeric))),
        numeric=tuple(numeric),
        categorical=tuple(categorical),
        scale=scale,
        sources=SOURCES,
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
