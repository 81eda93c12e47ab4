"""Rows of a table as a served model takes them: raw columns by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fkd.problems.labels import MISSING
from fkd.problems.table import Table


def raw_frame(table: Table, names: Sequence[str]) -> pd.DataFrame:
    """Return the named inputs or sensitive columns; one that the table lacks is an error."""
    columns: dict[str, Any] = {
        **dict(zip(table.sensitive_names, table.sensitive.T, strict=True)),
        **dict(zip(table.numeric_names, table.numeric.T, strict=True)),
    }
    for i, name in enumerate(table.categorical_names):
        # Code -1, a missing label, is the last one.
        columns[name] = np.array([*table.levels[i], MISSING], dtype=object)[table.codes[:, i]]
    if absent := [name for name in names if name not in columns]:
        raise ValueError(f"the rows must have the column {absent[0]}, which the model takes")
    return pd.DataFrame({name: columns[name] for name in names})
