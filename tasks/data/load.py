"""Load the table of a configuration, and keep prepared tables in the store."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.data import DataConfig, FileFormat
from configs.errors import UserError
from fkd.problems.table import MappedTable, Table
from tasks.data.columns import Category, column_report, merge_categories, to_table
from tasks.data.download import Progress
from tasks.data.sources import Source, open_source
from tasks.data.user_table import check_values
from tasks.storage.files import named_disk_errors, sha256
from tasks.storage.settings import Settings, ensure_writable
from tasks.storage.store import ensure_store, open_store

PREPARED = "prepared"  # the folder of the store


@dataclass(frozen=True)
class Loaded:
    """A table with its digest and its provenance: files, and counts of rows."""

    table: Table
    digest: str
    provenance: dict[str, Any]


def load_table(data: DataConfig, settings: Settings, progress: Progress | None = None) -> Loaded:
    """Return the rows of a configuration with their digest and provenance.

    Parameters
    ----------
    data
        Problem, source and columns.
    settings
        Locations of downloads and of the store. A second call reads the prepared table.
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
            digest = _digest(data, source)
            loaded = read_or_prepare(settings, digest, lambda: _prepare(data, source))
    except MemoryError as error:
        raise UserError(
            f"There is not enough memory to load {data.problem} ({error}). Close other programs, "
            "or take fewer states or years at once."
        ) from error
    if data.path is not None:
        # Every time, because `data.ranges` is not part of the digest.
        check_values(data, loaded.table)
    return loaded


def join_tables(before: Loaded, added: Loaded, settings: Settings) -> Loaded:
    """Return the rows of two tables in one, those of `before` first, with a digest of its own.

    The columns are those of `before`. `added` must have all of them.
    """
    key = json.dumps({"joined": [before.digest, added.digest]})
    with named_disk_errors(settings.store):
        return read_or_prepare(settings, sha256(key.encode()), lambda: _join(before, added))


def prepared_name(digest: str) -> str:
    """Return the name of a prepared table in the store."""
    return f"{PREPARED}/{digest}.arrays"


def read_prepared(settings: Settings, digest: str) -> Loaded | None:
    """Return a prepared table, or None if it is absent or damaged."""
    arrays = open_store(settings).read_arrays(prepared_name(digest), cache=True)
    if arrays is None:
        return None
    provenance = json.loads(str(arrays.pop("provenance")))
    return Loaded(Table.from_arrays(arrays), digest, provenance)


def map_prepared(settings: Settings, digest: str) -> Table | None:
    """Return a prepared table as memory-mapped arrays. Its checksum is not compared."""
    arrays = open_store(settings).mapped_arrays(prepared_name(digest))
    if arrays is None:
        return None
    return MappedTable.from_arrays({k: v for k, v in arrays.items() if k != "provenance"})


def read_or_prepare(
    settings: Settings, digest: str, prepare: Callable[[], tuple[Table, dict[str, Any]]]
) -> Loaded:
    """Return the prepared table of a digest. Prepare it if it is absent or damaged."""
    # Two runs may both prepare it: they write the same bytes.
    stored = read_prepared(settings, digest)
    if stored is not None:
        return stored
    table, provenance = prepare()
    text = json.dumps(provenance)
    # Not compressed: every worker reads it, and compression would take longer than preparation.
    arrays = {"provenance": np.array(text), **table.arrays()}
    open_store(settings).write_arrays(prepared_name(digest), arrays)
    # Through JSON, so that the first call returns the same types as later ones.
    return Loaded(table, digest, json.loads(text))


def table_parts(loaded: Loaded) -> list[str]:
    """Return the digests of the tables that were joined, or the digest of a single table."""
    parts: list[str] = loaded.provenance.get("parts", [loaded.digest])
    return parts


def describe_rows(provenance: dict[str, Any]) -> str:
    """Return the numbers of rows that were read, dropped (with the reason) and used."""
    drops = [
        f"{count:,} dropped ({reason})"
        for reason, count in provenance["rows_dropped"].items()
        if count
    ]
    parts = [f"{provenance['rows_read']:,} rows read", *drops, f"{provenance['rows_used']:,} used"]
    label = "SYNTHETIC data: " if provenance["synthetic"] else ""
    return label + ", ".join(parts)


def remarks(provenance: dict[str, Any]) -> list[str]:
    """Return sentences for the user on the format of the file and on its columns."""
    read_as = provenance["read_as"]
    return [*([f"read as {read_as}"] if read_as else []), *provenance["notes"]]


def _digest(data: DataConfig, source: Source) -> str:
    """Return the digest of everything that the table depends on."""
    # The same bytes from another mirror are the same data.
    files = [{**file, "from": None} if "sha256" in file else file for file in source.files]
    skipped = data.faulty == "skip"
    key = {
        "problem": data.problem,
        "version": data.declaration.version,
        "files": files,
        "sensitive": data.sensitive_columns,
        "drop": data.drop,
        "columns": [data.target, data.numeric, data.categorical, data.keep],
        "format": [getattr(data, name) for name in FileFormat.model_fields],
        "sample": data.sample,
        "missing": data.missing,
        "labels": data.labels,
        # The provenance names the files that were left out of those requested.
        "requested": [data.states, data.year] if skipped else None,
    }
    return sha256(json.dumps(key, sort_keys=True).encode())


def _prepare(data: DataConfig, source: Source) -> tuple[Table, dict[str, Any]]:
    """Return the table of a source with its provenance."""
    columns = source.read()
    if not len(columns.numbers[data.declaration.target]):
        raise UserError(
            f"{data.problem} must keep at least one row, got none of {columns.rows_read} read "
            f"({', '.join(columns.dropped)})."
        )
    try:
        table, left_out = to_table(data, columns)
    except ValueError as error:
        # The error names the column. The problem is known here.
        raise UserError(f"{data.problem}: {error}.") from error
    dropped = {reason: count for reason, count in columns.dropped.items() if count}
    if data.sample is not None and data.sample < table.n:
        dropped["not drawn"] = table.n - data.sample
        rows = np.random.default_rng(0).choice(table.n, size=data.sample, replace=False)
        table = table.take(np.sort(rows))
    return table, {
        "problem": data.problem,
        "source": data.source,
        "files": source.files,
        "rows_read": columns.rows_read,
        "rows_dropped": dropped,
        "rows_used": table.n,
        "read_as": columns.read_as,
        "notes": list(columns.notes),
        "columns": column_report(columns),
        "columns_left_out": left_out,
        "target_range": table.target_range,
        "synthetic": source.synthetic,
        "datasheet": source.datasheet,
    }


def _join(before: Loaded, added: Loaded) -> tuple[Table, dict[str, Any]]:
    """Return the joined rows with their provenance."""
    old, new = before.table, added.table
    _check_same_columns(old, new)
    numeric = [new.numeric_names.index(name) for name in old.numeric_names]
    sensitive = [new.sensitive_names.index(name) for name in old.sensitive_names]
    labels = [new.categorical_names.index(name) for name in old.categorical_names]
    categories = [
        merge_categories(
            [Category(old.codes[:, i], old.levels[i]), Category(new.codes[:, k], new.levels[k])]
        )
        for i, k in enumerate(labels)
    ]
    codes = [np.empty((old.n + new.n, 0)), *(category.codes for category in categories)]
    limits = np.stack([old.sensitive_range, new.sensitive_range[sensitive]])
    (low, high), (other_low, other_high) = old.target_range, new.target_range
    table = replace(
        old,
        numeric=_stack(old.numeric, new.numeric[:, numeric]),
        codes=np.column_stack(codes).astype(np.int32),
        levels=tuple(category.labels for category in categories),
        target=_stack(old.target, new.target),
        sensitive=_stack(old.sensitive, new.sensitive[:, sensitive]),
        target_range=(min(low, other_low), max(high, other_high)),
        sensitive_range=np.stack([limits[..., 0].min(axis=0), limits[..., 1].max(axis=0)], axis=1),
        extra={name: _stack(column, new.extra[name]) for name, column in old.extra.items()},
    )
    first, second = before.provenance, added.provenance
    dropped = dict(Counter(first["rows_dropped"]) + Counter(second["rows_dropped"]))
    return table, {
        **first,
        "files": [*first["files"], *second["files"]],
        "rows_read": first["rows_read"] + second["rows_read"],
        "rows_dropped": dropped,
        "rows_used": table.n,
        "columns": [],
        "notes": [*first["notes"], *second["notes"]],
        "target_range": table.target_range,
        "synthetic": first["synthetic"] or second["synthetic"],
        "parts": [*table_parts(before), *table_parts(added)],
    }


def _check_same_columns(old: Table, new: Table) -> None:
    """Raise UserError if a column of a table is missing in another, or has another type."""
    for kind in ("numeric_names", "categorical_names", "sensitive_names", "extra"):
        for name in getattr(old, kind):
            if name not in getattr(new, kind):
                raise UserError(
                    f"Tables must have the same columns to be joined. Column {name} is missing or "
                    "constant in the new rows."
                )
    for name, column in old.extra.items():
        if (column.dtype.kind == "U") != (new.extra[name].dtype.kind == "U"):
            raise UserError(
                f"Tables must have columns of the same types to be joined. Column {name} has "
                "numbers in one table and text in the other."
            )


def _stack(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([old, new], axis=0)
