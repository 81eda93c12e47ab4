"""Columns of a table as those that measures are taken within."""

from collections.abc import Sequence

import numpy as np

from configs.errors import UserError
from fkd.core.arrays import AnyArray
from fkd.measures.groups import level_names
from fkd.problems.table import Table
from tasks.data.prepared import Loaded

_MISSING = "missing"


def check_control_columns(loaded: Loaded, names: Sequence[str]) -> None:
    """Refuse, before any fit, a control column that the prepared table has not kept."""
    for name in names:
        if not _holds(loaded.table, name):
            why = loaded.provenance.get("columns_left_out", {}).get(name, "it is not in the table")
            raise UserError(
                f"data.control must name a column that varies in these rows, got {name!r} ({why}); "
                "name another column or leave it out."
            )


def control_columns(table: Table, names: Sequence[str]) -> AnyArray:
    """Return the named columns of a table, (n, k), each as numbers or as words.

    What is missing in an input or a kept column is a level of its own.
    """
    columns = np.empty((table.n, len(names)), dtype=object)
    for j, name in enumerate(names):
        columns[:, j] = _with_missing(_column(table, name)).tolist()
    return columns


def _holds(table: Table, name: str) -> bool:
    """Return whether the table has such a column, in whatever role."""
    return name == table.target_name or any(
        name in names
        for names in (
            table.extra,
            table.numeric_names,
            table.categorical_names,
            table.sensitive_names,
        )
    )


def _column(table: Table, name: str) -> AnyArray:
    """Return one column in its raw unit, labels as words."""
    if name == table.target_name:
        return table.target
    if name in table.numeric_names:
        return table.numeric[:, table.numeric_names.index(name)]
    if name in table.categorical_names:
        i = table.categorical_names.index(name)
        words = np.array([*table.levels[i], _MISSING], dtype=object)
        return np.asarray(words[table.codes[:, i]])  # code -1, missing, is the last one
    if name in table.extra:
        return np.asarray(table.extra[name])
    return table.sensitive[:, table.sensitive_names.index(name)]


def _with_missing(column: AnyArray) -> AnyArray:
    """Return the column; where numbers are missing, the names of its groups instead."""
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return column
    known = ~np.isnan(column)
    words = np.full(len(column), _MISSING, dtype=object)
    if known.any():
        words[known] = level_names(column[known])
    return words
