"""A problem made of a user's own file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from fkd.problems.declaration import Problem
from fkd.problems.encoder import Scale

NAME = "table"


@dataclass(frozen=True)
class TableWords:
    """How people call a table, its rows, its columns; whatever is empty is called by its name."""

    title: str = ""
    description: str = ""
    row_noun: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)


def own_problem(
    *,
    path: str,
    target: str,
    sensitive: Sequence[str],
    numeric: Sequence[str],
    categorical: Sequence[str],
    extra: Sequence[str],
    scale: Scale = "minmax",
    words: TableWords | None = None,
) -> Problem:
    """Return the declaration of a file whose columns the user has named.

    Parameters
    ----------
    path
        The file; reports call it by its name, wherever it lies.
    target
        The column to predict.
    sensitive
        The columns to remove or measure; they need not be inputs.
    numeric, categorical
        The inputs.
    extra
        Columns kept for folds but never inputs.
    scale
        How numeric inputs are scaled.
    words
        Titles, units, descriptions for people.
    """
    words = words or TableWords()
    # A sensitive column need not be an input, but every numeric input may be sensitive.
    options = tuple(dict.fromkeys((*sensitive, *numeric)))
    target_title = words.titles.get(target, target)
    problem = Problem(
        name=NAME,
        title=words.title or PurePath(path).name,
        target=target,
        target_unit=words.units.get(target, f"units of {target_title}"),
        sensitive=tuple(sensitive),
        sensitive_options=options,
        numeric=tuple(numeric),
        categorical=tuple(categorical),
        scale=scale,
        sources=("file",),
        extra=tuple(extra),
        datasheet="",
        words={**words.titles, "rows": words.row_noun or "rows"},
        units=words.units,
        version=2,  # bytes that are no UTF-8 were once labels
    )
    return replace(problem, datasheet=_datasheet(problem, words))


def _datasheet(problem: Problem, words: TableWords) -> str:
    """Return what is known of the table and its columns, as markdown."""
    about = words.description or "A table of the user's own, without a description."
    lines = [
        f"| {' | '.join(_cell(text) for text in _line(problem, words, name))} |"
        for name in problem.columns
    ]
    heading = "| column | role | title | unit | description |\n|---|---|---|---|---|"
    return f"# {problem.title}\n\n{about}\n\n{heading}\n" + "\n".join(lines) + "\n"


def _line(problem: Problem, words: TableWords, name: str) -> tuple[str, ...]:
    """Return what the datasheet says of one column."""
    roles = {
        "target": name == problem.target,
        "sensitive": name in problem.sensitive,
        "number": name in problem.numeric,
        "label": name in problem.categorical,
        "kept for folds": name in problem.extra,
    }
    role = ", ".join(role for role, holds in roles.items() if holds)
    told = (words.titles, words.units, words.descriptions)
    return (name, role, *(texts.get(name, "") for texts in told))


def _cell(text: str) -> str:
    """Return a text that stays inside its cell."""
    return " ".join(text.split()).replace("|", "\\|")
