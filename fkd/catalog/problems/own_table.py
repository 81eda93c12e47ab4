"""A problem made of a user's own file."""

from collections.abc import Sequence
from pathlib import PurePath

from fkd.catalog.encoder import Scale
from fkd.catalog.problems.problem_declaration import Problem

NAME = "table"


def own_problem(
    *,
    path: str,
    target: str,
    sensitive: Sequence[str],
    numeric: Sequence[str],
    categorical: Sequence[str],
    extra: Sequence[str],
    scale: Scale = "minmax",
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
    """
    # A sensitive column need not be an input, but every numeric input may be sensitive.
    name = PurePath(path).name
    options = tuple(dict.fromkeys((*sensitive, *numeric)))
    return Problem(
        name=NAME,
        title=name,
        target=target,
        target_unit=f"units of {target}",
        sensitive=tuple(sensitive),
        sensitive_options=options,
        numeric=tuple(numeric),
        categorical=tuple(categorical),
        scale=scale,
        sources=("file",),
        extra=tuple(extra),
        datasheet=f"# {name}\n\nA table of the user's own, without a datasheet.\n",
        version=2,  # bytes that are no UTF-8 were once labels
    )
