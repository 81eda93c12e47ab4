"""The table that a configuration asks for."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from configs.data import DataConfig
from fkd.table import Array, Table, column_range
from tasks import embedded
from tasks.files import sha256
from tasks.prepared import Loaded, prepared_or_made
from tasks.settings import Settings


def load_table(data: DataConfig, settings: Settings) -> Loaded:
    """Return the rows of a configuration with their digest and provenance.

    Parameters
    ----------
    data
        Problem, source, columns.
    settings
        Where prepared tables are kept; a second call reads them from there.
    """
    digest = _digest(data, {embedded.NAME: embedded.CRIMES_SHA256})
    return prepared_or_made(settings, digest, lambda: _make_embedded(data))


def _make_embedded(data: DataConfig) -> tuple[Table, dict[str, Any]]:
    columns = embedded.read_crimes()
    rows = len(next(iter(columns.values())))
    provenance = {
        "source": "embedded",
        "files": [{"name": embedded.NAME, "sha256": embedded.CRIMES_SHA256}],
        "rows_read": rows,
        "rows_dropped": {},
        "rows_used": rows,
        "synthetic": False,
        "datasheet": embedded.datasheet(),
    }
    return numeric_table(data, columns), provenance


def numeric_table(data: DataConfig, columns: Mapping[str, Array]) -> Table:
    """Return the table of a problem whose predictors are all numbers."""
    problem = data.declaration
    names = tuple(name for name in problem.numeric if name not in data.drop)
    sensitive = data.sensitive_columns
    rows = len(columns[problem.target])
    return Table(
        numeric_names=names,
        numeric=np.column_stack([columns[name] for name in names]),
        categorical_names=(),
        codes=np.empty((rows, 0), dtype=np.int32),
        levels=(),
        target_name=problem.target,
        target=columns[problem.target],
        sensitive_names=sensitive,
        sensitive=np.column_stack([columns[name] for name in sensitive]),
        target_range=problem.fixed_range or column_range(columns[problem.target]),
        sensitive_range=np.array(
            [problem.fixed_range or column_range(columns[name]) for name in sensitive]
        ),
        extra={name: columns[name] for name in problem.extra},
        fills=problem.fills,
    )


def _digest(data: DataConfig, files: Mapping[str, str]) -> str:
    """Hash everything that the table depends on: files, problem, columns."""
    key = {
        "problem": data.problem,
        "version": data.declaration.version,
        "files": dict(files),
        "sensitive": data.sensitive_columns,
        "drop": data.drop,
    }
    return sha256(json.dumps(key, sort_keys=True).encode())
