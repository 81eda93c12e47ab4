"""Tables of users: the rows of a run, and blocks of rows of any number of files for scoring."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from pyarrow import csv, ipc, parquet

from configs.data import DataConfig, FileFormat
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values, shown_values
from fkd.problems.labels import MISSING, factorize_labels
from fkd.problems.table import Table
from tasks.data.columns import Category, Columns
from tasks.data.table_formats import (
    KINDS,
    READ_ERRORS,
    Mask,
    RawColumns,
    check_names,
    csv_options,
    find_format,
    kind_of,
    read_numbers,
    read_raw,
    suffix_of,
)

# Labels per row above which a column is refused as an id, or gets a note.
_ID, MANY_LABELS = 0.9, 0.5
FEW_ROWS = 10
_EXAMPLES = 5

ROWS_AT_ONCE = 2**14  # rows of a block; with a thousand encoded columns 130 MB
BYTES_AT_ONCE = 2**22  # bytes of text that are parsed at once; a row must not be longer
PIECE_ROWS = 2**18  # rows of a piece of a Parquet file


# The rows of a run


def table_path(data: DataConfig) -> Path:
    """Return the file of a configuration. A missing file is an error."""
    path = Path(data.path or "").expanduser()
    if not path.is_file():
        raise UserError(
            f"data.path must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{data.path!r}, which is {'a folder' if path.is_dir() else 'not there'}. A relative "
            "path starts at the folder of the YAML file, or at the current folder."
        )
    return path


def read_columns(path: Path, data: DataConfig) -> Columns:
    """Return the columns of a problem from a file, without rows that lack a required number.

    Parameters
    ----------
    path
        The file.
    data
        The configuration, with the format of the file.
    """
    problem = data.declaration
    numeric = tuple(dict.fromkeys((problem.target, *data.sensitive_columns, *problem.numeric)))
    names = tuple(dict.fromkeys((*numeric, *problem.categorical, *problem.extra)))
    raw = read_raw(path, data, names, numeric)
    values, commas = read_numbers(raw, numeric, data)
    frame = raw.frame.replace(list(data.missing_words), None) if data.missing_words else raw.frame
    # Times and groups keep their order as numbers if they are numbers in every row.
    extra = [name for name in problem.extra if name not in values]
    ordered = [
        name
        for name in extra
        if pd.api.types.is_numeric_dtype(frame[name]) and not frame[name].isna().any()
    ]
    labels = [*problem.categorical, *(name for name in extra if name not in ordered)]
    required = (problem.target, *data.sensitive_columns)
    kept, dropped = _complete(values, numeric if data.missing == "drop" else required)
    if kept.sum() < 2:
        reasons = ", ".join(f"{count} with {why}" for why, count in dropped.items() if count)
        raise UserError(
            f"{path} must have at least two rows with every number present, got "
            f"{int(kept.sum()) or 'none'} of {len(frame)}{f' ({reasons})' if reasons else ''}."
        )
    categories = {name: Category(*factorize_labels(frame[name][kept])) for name in labels}
    return Columns(
        numbers={
            **{name: frame[name].to_numpy(dtype=np.float64)[kept] for name in ordered},
            **{name: column[kept] for name, column in values.items()},
        },
        categories=categories,
        rows_read=len(frame),
        dropped=dropped,
        read_as=", ".join(filter(None, (raw.read_as, commas))),
        notes=(
            *_label_notes({name: categories[name] for name in problem.categorical}),
            *_gap_notes({name: values[name][kept] for name in problem.numeric}),
            *_drop_notes(dropped, problem.numeric, required),
        ),
    )


def check_values(data: DataConfig, table: Table) -> None:
    """Raise UserError for a value outside its declared range, or a code for a missing value.

    Codes are searched in the target and the sensitive columns, which are scaled by their range.
    Columns in `data.ranges` are not searched.

    Parameters
    ----------
    data
        The configuration of a user's table.
    table
        Its rows.
    """
    # The range of a sample is that of all rows, so its ends are values of the column.
    names = (table.target_name, *table.sensitive_names)
    columns = (table.target, *table.sensitive.T)
    limits = (np.array(table.target_range), *table.sensitive_range)
    scaled = {
        name: np.append(values, ends[~np.isin(ends, values)])
        for name, values, ends in zip(names, columns, limits, strict=True)
    }
    used = {**dict(zip(table.numeric_names, table.numeric.T, strict=True)), **scaled}
    for name, values in used.items():
        if name in data.ranges:
            _check_range(data, name, values)
        elif name in scaled:
            _check_codes(data, name, used)


def raw_frame(table: Table, names: Sequence[str]) -> pd.DataFrame:
    """Return the named inputs or sensitive columns of a table as a frame."""
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


def _complete(values: Mapping[str, Array], required: Sequence[str]) -> tuple[Mask, dict[str, int]]:
    """Return a mask of the rows with every required number, and counts of the other rows."""
    kept = np.ones(len(values[required[0]]), dtype=bool)
    dropped: dict[str, int] = {}
    for name in dict.fromkeys(required):
        absent = kept & np.isnan(values[name])
        dropped[f"{name} missing"] = int(absent.sum(axis=0))
        kept &= ~absent
    return kept, dropped


def _label_notes(categories: Mapping[str, Category]) -> list[str]:
    """Return notes on columns of many labels. A column with one label per row is an error."""
    notes = []
    for name, category in categories.items():
        rows, labels = len(category.codes), len(category.labels)
        if rows < FEW_ROWS or labels <= MANY_LABELS * rows:
            continue
        found = f"column {name} has {labels:,} labels in {rows:,} rows"
        if labels > _ID * rows:
            raise UserError(
                f"{found}, like an id or a date, and cannot be learned from. Remove it from "
                "data.categorical. List a number, such as the year, under data.numeric."
            )
        notes.append(f"{found}: most labels are too rare to learn from")
    return notes


def _gap_notes(values: Mapping[str, Array]) -> list[str]:
    """Return notes on inputs with missing values that will be filled."""
    gaps = {name: int(np.isnan(column).sum(axis=0)) for name, column in values.items()}
    return [
        f"column {name}: {count:,} missing values, filled by the median of the training rows and "
        "marked in an additional column"
        for name, count in gaps.items()
        if count
    ]


def _drop_notes(
    dropped: Mapping[str, int], inputs: Sequence[str], required: Sequence[str]
) -> list[str]:
    """Return a note on the option that keeps rows without an input."""
    lost = sum(dropped.get(f"{name} missing", 0) for name in inputs if name not in required)
    if not lost:
        return []
    return [
        f"{lost:,} rows were dropped because an input is missing; data.missing: impute keeps them"
    ]


def _check_range(data: DataConfig, name: str, values: Array) -> None:
    """Raise UserError for values outside the declared range."""
    low, high = data.ranges[name]
    found = np.unique(values[(values < low) | (values > high)])
    if len(found):
        raise UserError(
            f"{data.path}: column {name} must be in [{shown_values((low, high))}] (data.ranges), "
            f"got {shown_values(found)} in {_places(data, name, found)}. Correct the file, list "
            "the values in data.missing_words if they mean missing values, or widen the range."
        )


def _check_codes(data: DataConfig, name: str, used: Mapping[str, Array]) -> None:
    """Raise UserError for values that look like codes for a missing value."""
    values = used[name]
    found, rows = sentinel_values(values)
    if len(found):
        rest = np.delete(values, rows)
        others = [other for other in used if other != name and np.isin(used[other], found).any()]
        also = "; ".join(f"{other} in {_places(data, other, found)}" for other in others[:3])
        ends = shown_values((values.min(), values.max()))
        words = ", ".join(shown_values([value]) for value in found)
        label = yaml.safe_dump(name, allow_unicode=True, width=10**6).removesuffix("...\n").strip()
        raise UserError(
            f"{data.path}: column {name} must not hold codes for missing values, got "
            f"{shown_values(found)} in {_places(data, name, found)}, far from the other values "
            f"({rest.min():g} to {rest.max():g}). Set data.missing_words: [{words}] to read them "
            f"as missing, or data.ranges: {{{label}: [{ends}]}} if they are real."
            + (f" missing_words applies to every column, also to {also}." if also else "")
        )


def _places(data: DataConfig, name: str, values: Array) -> str:
    """Return the number of rows of the file with one of these values, and the first rows."""
    raw = read_raw(table_path(data), data, (name,), (name,))
    numbers, _ = read_numbers(raw, (name,), data)
    rows = np.flatnonzero(np.isin(numbers[name], values))
    listed = ", ".join(raw.place(int(row)) for row in rows[:_EXAMPLES])
    more = ", ..." if len(rows) > _EXAMPLES else ""
    return f"{len(rows):,} row{'s' if len(rows) > 1 else ''} ({listed}{more})"


# Blocks of rows for scoring


@dataclass(frozen=True)
class FilePiece:
    """A part of a table that one job reads.

    Parameters
    ----------
    path
        The file.
    groups
        Row groups of a Parquet file. None: all rows.
    first
        Number of rows of the file before the piece.
    """

    path: Path
    groups: tuple[int, ...] | None = None
    first: int = 0


@dataclass(frozen=True)
class RawBlock:
    """Consecutive rows, as raw columns and as cells with the types of the file."""

    raw: RawColumns
    cells: pa.Table


def pieces_of(path: Path) -> list[FilePiece]:
    """Return the pieces of a file, or of all files of a folder by name, in the order of rows."""
    try:
        return [piece for file in _files(path) for piece in _cut(file)]
    except READ_ERRORS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error


def read_blocks(piece: FilePiece, options: FileFormat, names: Sequence[str]) -> Iterator[RawBlock]:
    """Yield the named columns block by block, so that memory holds one block at a time.

    An Excel sheet, which has at most a million rows, is read at once.

    Parameters
    ----------
    piece
        The rows to read.
    options
        Encoding, separator, words for missing values.
    names
        The columns. Those of a text file are all text.
    """
    path = piece.path
    try:
        match kind_of(path):
            case "text":
                yield from _text_blocks(path, options, names)
            case "excel":
                yield from _excel_blocks(read_raw(path, options, names, names))
            case "parquet":
                check_names(parquet.read_schema(path).names, names, path)
                yield from _split(_parquet_batches(piece, names), names, RawColumns, piece.first)
            case "feather":
                yield from _split(_feather_batches(path, names), names, RawColumns)
    except READ_ERRORS as error:
        raise UserError(
            f"{path} cannot be read as a table: {error}. For a text file, set data.separator or "
            "data.encoding."
        ) from error


def _files(path: Path) -> list[Path]:
    """Return the files of a table. A folder must contain nothing but tables."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(
            f"DATA must be a CSV, TSV, Excel, Parquet or Feather file, or a folder of them, got "
            f"{str(path)!r}, which is not there."
        )
    # Programs that write folders of files mark metadata by the first character.
    found = sorted(file for file in path.iterdir() if file.name[0] not in "._")
    other = [file.name for file in found if not file.is_file() or suffix_of(file) not in KINDS]
    if other or not found:
        raise UserError(
            f"{path} must contain table files only, got "
            f"{repr(other[0]) if other else 'an empty folder'}; name a folder of table files."
        )
    return found


def _cut(path: Path) -> Iterator[FilePiece]:
    """Yield a file as one piece, or a large Parquet file as several pieces."""
    if kind_of(path) != "parquet":
        yield FilePiece(path)
        return
    metadata = parquet.read_metadata(path)
    groups: list[int] = []
    first = rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= PIECE_ROWS or group == metadata.num_row_groups - 1:
            yield FilePiece(path, tuple(groups), first)
            first, rows, groups = first + rows, 0, []


def _split(
    batches: Iterable["pa.RecordBatch"],
    names: Sequence[str],
    raw: Callable[[pd.DataFrame, int], RawColumns],
    before: int = 0,
) -> Iterator[RawBlock]:
    """Yield batches of any size as blocks. `raw` takes a frame and the number of its first row."""
    row = 1 + before
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            cells = pa.Table.from_batches([rows]).select(list(names))
            yield RawBlock(raw(cells.to_pandas(), row), cells)
            row += rows.num_rows


def _text_blocks(path: Path, options: FileFormat, names: Sequence[str]) -> Iterator[RawBlock]:
    text = find_format(path, options, names)
    check_names(text.header, names, path)

    def raw(frame: pd.DataFrame, row: int) -> RawColumns:
        line = row + 1 + text.lines_before
        return RawColumns(frame, line, "line", str(text), text.separator == ",")

    # All columns as text: otherwise their types would be inferred from the first block.
    how = csv_options(text, options, names, names, block_size=BYTES_AT_ONCE)
    with csv.open_csv(pa.input_stream(str(path)), **how) as reader:
        yield from _split(reader, names, raw)


def _excel_blocks(raw: RawColumns) -> Iterator[RawBlock]:
    for start in range(0, len(raw.frame), ROWS_AT_ONCE):
        frame = raw.frame.iloc[start : start + ROWS_AT_ONCE].reset_index(drop=True)
        # A column of a sheet may have cells of several types.
        text = frame.map(str, na_action="ignore").astype(object)
        schema = pa.schema([(str(name), pa.string()) for name in frame])
        cells = pa.Table.from_pandas(text, schema=schema, preserve_index=False)
        yield RawBlock(replace(raw, frame=frame, first=raw.first + start), cells)


def _parquet_batches(piece: FilePiece, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    with parquet.ParquetFile(piece.path) as file:
        yield from file.iter_batches(ROWS_AT_ONCE, row_groups=piece.groups, columns=list(names))


def _feather_batches(path: Path, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    with pa.memory_map(str(path)) as source:
        try:
            file = ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            stream = ipc.open_stream(source)
            check_names(stream.schema.names, names, path)
            yield from stream
            return
        check_names(file.schema.names, names, path)
        yield from (file.get_batch(i) for i in range(file.num_record_batches))
