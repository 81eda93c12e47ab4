"""Control columns: groups of rows within which the champion is measured."""

from collections.abc import Sequence

import numpy as np

from configs.errors import UserError
from fkd.core.arrays import AnyArray
from fkd.measures.groups import level_names
from fkd.problems.table import Table
from tasks.data.load import Loaded

_MISSING = "missing"


def check_control_columns(loaded: Loaded, names: Sequence[str]) -> None:
    """Raise an error, before any fit, if the prepared table lacks a control column."""
    for name in names:
        if _column(loaded.table, name) is None:
            why = loaded.provenance.get("columns_left_out", {}).get(name, "it is not in the table")
            raise UserError(
                f"data.control must name a column that varies in these rows, got {name!r} ({why}). "
                "Name another column or remove it."
            )


def control_columns(table: Table, names: Sequence[str]) -> AnyArray:
    """Return the named columns of a table, (n, k). Missing values are a level of their own."""
    columns = np.empty((table.n, len(names)), dtype=object)
    for j, name in enumerate(names):
        column = np.asarray(_column(table, name))
        if column.dtype.kind == "f" and (known := ~np.isnan(column)).sum() < table.n:
            levels = np.full(table.n, _MISSING, dtype=object)
            if known.any():
                levels[known] = level_names(column[known])
            column = levels
        columns[:, j] = column.tolist()
    return columns


def _column(table: Table, name: str) -> AnyArray | None:
    """Return a column of any role in its raw unit, categories as labels; None if absent."""
    if name == table.target_name:
        return table.target
    if name in table.numeric_names:
        return table.numeric[:, table.numeric_names.index(name)]
    if name in table.categorical_names:
        i = table.categorical_names.index(name)
        labels = np.array([*table.levels[i], _MISSING], dtype=object)
        return np.asarray(labels[table.codes[:, i]])  # code -1, missing, is the last one
    if name in table.extra:
        return np.asarray(table.extra[name])
    if name in table.sensitive_names:
        return table.sensitive[:, table.sensitive_names.index(name)]
    return None
