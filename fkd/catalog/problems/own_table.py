"""A problem made of a user's own file."""

from collections.abc import Sequence

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
    """Return the declaration of a CSV or Parquet file whose columns the user has named.

    Parameters
    ----------
    path
        The file, as the user wrote it.
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
    options = tuple(dict.fromkeys((*sensitive, *numeric)))
    return Problem(
        name=NAME,
        title=path,
        target=target,
        target_unit=f"units of {target}",
        sensitive=tuple(sensitive),
        sensitive_options=options,
        numeric=tuple(numeric),
        categorical=tuple(categorical),
        scale=scale,
        sources=("file",),
        extra=tuple(extra),
        datasheet=f"# {path}\n\nA table of the user's own, without a datasheet.\n",
    )
