"""Prepared tables in the store, by digest."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.own_table import NAME as OWN
from fkd.problems.table import MappedTable, Table
from tasks.data.columns import Category, Columns, merge_categories, to_table
from tasks.data.download import Progress
from tasks.data.sources import Source, open_source
from tasks.data.validation import check_own_values, column_report
from tasks.storage.files import named_disk_errors, sha256
from tasks.storage.settings import Settings, ensure_writable
from tasks.storage.store import ensure_store, open_store


@dataclass(frozen=True)
class Loaded:
    """A table with the digest that names it and the story of where it came from."""

    table: Table
    digest: str
    provenance: dict[str, Any]


PREPARED = "prepared"


def prepared_name(digest: str) -> str:
    """Return as what the table of that digest is kept."""
    return f"{PREPARED}/{digest}.npz"


def read_prepared(settings: Settings, digest: str) -> Loaded | None:
    """Return the stored table, or None if there is none that is whole."""
    arrays = open_store(settings).read_arrays(prepared_name(digest), again=True)
    if arrays is None:
        return None
    provenance = json.loads(str(arrays.pop("provenance")))
    return Loaded(Table.from_arrays(arrays), digest, provenance)


def map_prepared(settings: Settings, digest: str) -> Table | None:
    """Return the stored table without reading it: who opened it first has checked its seal."""
    arrays = open_store(settings).view_arrays(prepared_name(digest))
    if arrays is None:
        return None
    return MappedTable.from_arrays({k: v for k, v in arrays.items() if k != "provenance"})


def prepared_or_made(
    settings: Settings, digest: str, make: Callable[[], tuple[Table, dict[str, Any]]]
) -> Loaded:
    """Return the stored table of that digest, made anew if it is absent or damaged."""
    # Two runs may both make it: they write the same bytes, each whole.
    stored = read_prepared(settings, digest)
    if stored is not None:
        return stored
    table, provenance = make()
    told = json.dumps(provenance)
    # Not compressed: every worker reads it, and packing would take longer than preparing.
    arrays = {"provenance": np.array(told), **table.arrays()}
    open_store(settings).write_arrays(prepared_name(digest), arrays, compress=False)
    # Through JSON, so that the first call returns what every later one will.
    return Loaded(table, digest, json.loads(told))


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


def join_tables(before: Loaded, added: Loaded, settings: Settings) -> Loaded:
    """Return the rows of two tables in one, those of `before` first, under a digest of its own.

    The columns are those of `before`; `added` must have them all.
    """
    key = json.dumps({"joined": [before.digest, added.digest]})
    with named_disk_errors(settings.store):
        return prepared_or_made(settings, sha256(key.encode()), lambda: _joined(before, added))


def _joined(before: Loaded, added: Loaded) -> tuple[Table, dict[str, Any]]:
    """Return the joined rows with their provenance."""
    old, new = before.table, added.table
    for kind in ("numeric_names", "categorical_names", "sensitive_names", "extra"):
        absent = [name for name in getattr(old, kind) if name not in getattr(new, kind)]
        if absent:
            raise UserError(
                f"Tables must have the same columns to be joined. Column {absent[0]} is missing "
                "or constant in the new rows."
            )
    for name, column in old.extra.items():
        if (column.dtype.kind == "U") != (new.extra[name].dtype.kind == "U"):
            raise UserError(
                f"Tables must have columns of the same types to be joined. Column {name} has "
                "numbers in one table and text in the other."
            )
    places = [new.numeric_names.index(name) for name in old.numeric_names]
    measured = [new.sensitive_names.index(name) for name in old.sensitive_names]
    labels = [
        merge_categories(
            [Category(table.codes[:, place], table.levels[place]) for table, place in both]
        )
        for both in (
            ((old, i), (new, new.categorical_names.index(name)))
            for i, name in enumerate(old.categorical_names)
        )
    ]
    limits = np.stack([old.sensitive_range, new.sensitive_range[measured]])
    (low, high), (other_low, other_high) = old.target_range, new.target_range
    table = replace(
        old,
        numeric=np.concatenate([old.numeric, new.numeric[:, places]], axis=0),
        codes=np.column_stack(
            [np.empty((old.n + new.n, 0)), *(one.codes for one in labels)]
        ).astype(np.int32),
        levels=tuple(one.labels for one in labels),
        target=np.concatenate([old.target, new.target], axis=0),
        sensitive=np.concatenate([old.sensitive, new.sensitive[:, measured]], axis=0),
        target_range=(min(low, other_low), max(high, other_high)),
        sensitive_range=np.stack([limits[..., 0].min(axis=0), limits[..., 1].max(axis=0)], axis=1),
        extra={
            name: np.concatenate([column, new.extra[name]], axis=0)
            for name, column in old.extra.items()
        },
    )
    first, second = before.provenance, added.provenance
    reasons = dict.fromkeys((*first["rows_dropped"], *second["rows_dropped"]))
    return table, {
        **first,
        "files": [*first["files"], *second["files"]],
        "rows_read": first["rows_read"] + second["rows_read"],
        "rows_dropped": {
            reason: first["rows_dropped"].get(reason, 0) + second["rows_dropped"].get(reason, 0)
            for reason in reasons
        },
        "rows_used": table.n,
        "columns": [],
        "notes": [*first.get("notes", []), *second.get("notes", [])],
        "target_range": table.target_range,
        "synthetic": first["synthetic"] or second["synthetic"],
        "parts": [*table_parts(before), *table_parts(added)],
    }


def table_parts(loaded: Loaded) -> list[str]:
    """Return the digests of the tables that were joined into one, its own if it is one."""
    found: list[str] = loaded.provenance.get("parts", [loaded.digest])
    return found


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
