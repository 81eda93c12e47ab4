"""The table that a configuration asks for."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.data import DataConfig
from configs.errors import UserError
from fkd.catalog.problems.own_table import NAME as OWN
from fkd.catalog.table import Table
from tasks.adapters.disk import named_disk_errors
from tasks.adapters.files import sha256
from tasks.adapters.settings import Settings, ensure_writable
from tasks.adapters.state.opened_store import ensure_store
from tasks.data.columns import Columns, to_table
from tasks.data.prepared import Loaded, prepared_or_made
from tasks.data.sources import Source, open_source
from tasks.data.transfer import Progress
from tasks.data.validation import check_own_values, column_report


def load_table(data: DataConfig, settings: Settings, progress: Progress | None = None) -> Loaded:
    """Return the rows of a configuration with their digest and provenance.

    Parameters
    ----------
    data
        Problem, source, columns.
    settings
        Where downloads and prepared tables are kept; a second call reads them from there.
    progress
        Listener for downloads.
    """
    ensure_writable(settings.home)
    if settings.shared is not None:
        with named_disk_errors(settings.store):
            ensure_store(settings)
    try:
        source = open_source(data, settings, progress)
        with named_disk_errors(settings.store):
            loaded = prepared_or_made(settings, _digest(data, source), lambda: _make(data, source))
    except MemoryError as error:
        raise UserError(
            f"There is not enough memory to load {data.problem} ({error}); close other programs or "
            "take fewer states or years at once."
        ) from error
    # A table that an earlier version prepared is checked too.
    if data.problem == OWN:
        check_own_values(data, loaded.table)
    return loaded


def describe_rows(provenance: dict[str, Any]) -> str:
    """Return how many rows were read, dropped with the reason, used, as one sentence."""
    drops = [
        f"{count:,} dropped ({reason})"
        for reason, count in provenance["rows_dropped"].items()
        if count
    ]
    parts = [f"{provenance['rows_read']:,} rows read", *drops, f"{provenance['rows_used']:,} used"]
    label = "SYNTHETIC data: " if provenance["synthetic"] else ""
    return label + ", ".join(parts)


def remarks(provenance: dict[str, Any]) -> list[str]:
    """Return what a person should know of how the rows were read, in sentences."""
    # Tables that were prepared before have neither.
    read_as, notes = provenance.get("read_as"), provenance.get("notes", [])
    return [*([f"read as {read_as}"] if read_as else []), *notes]


def _make(data: DataConfig, source: Source) -> tuple[Table, dict[str, Any]]:
    """Read the rows, turn them into a table, write down their story."""
    columns = source.read()
    if not len(columns.numbers[data.declaration.target]):
        raise UserError(
            f"{data.problem} must keep at least one row, got none of {columns.rows_read} read "
            f"({', '.join(columns.dropped)})."
        )
    try:
        table, left_out = to_table(data, columns)
    except ValueError as error:
        # The table names the column at fault; whose fault it is, only we know.
        raise UserError(f"{data.problem}: {error}.") from error
    if data.sample is not None and data.sample < table.n:
        columns = replace(columns, dropped={**columns.dropped, "not drawn": table.n - data.sample})
        table = table.take(_drawn(table.n, data.sample))
    return table, _provenance(data, source, columns, table, left_out)


def _drawn(n: int, size: int) -> NDArray[np.int64]:
    """Return which rows a sample holds, in their own order."""
    return np.sort(np.random.default_rng(0).choice(n, size=size, replace=False))


def _provenance(
    data: DataConfig, source: Source, columns: Columns, table: Table, left_out: dict[str, str]
) -> dict[str, Any]:
    return {
        "problem": data.problem,
        "source": data.source,
        "files": source.files,
        "rows_read": columns.rows_read,
        "rows_dropped": {reason: count for reason, count in columns.dropped.items() if count},
        "rows_used": table.n,
        "read_as": columns.read_as,
        "notes": list(columns.notes),
        "columns": column_report(columns),
        "columns_left_out": left_out,
        "target_range": table.target_range,
        "synthetic": source.synthetic,
        "datasheet": source.datasheet,
    }


def _digest(data: DataConfig, source: Source) -> str:
    """Hash everything that the table depends on: files, problem, columns, not addresses."""
    # The same bytes from another mirror are the same data.
    files = [{**line, "from": None} if "sha256" in line else line for line in source.files]
    key = {
        "problem": data.problem,
        "version": data.declaration.version,
        "files": files,
        "sensitive": data.sensitive_columns,
        "drop": data.drop,
        "own": [data.target, data.numeric, data.categorical, data.keep],
    }
    if data.problem == OWN:
        key["form"] = [data.encoding, data.separator, data.decimal, data.missing_words]
    if data.sample is not None:
        key["sample"] = data.sample
    if data.missing != "drop":
        key["missing"] = data.missing
    if data.faulty != "stop":
        # What was wanted too: the story of a table names the files that it lacks.
        key["faulty"] = [data.faulty, data.states, data.year]
    if data.labels != "onehot":
        key["labels"] = data.labels
    return sha256(json.dumps(key, sort_keys=True).encode())
