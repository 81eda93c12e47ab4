"""The rows of a user's own file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv, ipc, parquet

from configs.data import DataConfig, FormKeys
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.problems.labels import MISSING, factorize_labels
from fkd.problems.table import Table
from tasks.data.columns import Category, Columns
from tasks.data.table_formats import (
    FAULTS,
    PACKED,
    USUAL_WORDS,
    RawColumns,
    check_names,
    find_form,
    kind_of,
    read_numbers,
    read_raw,
)

# Labels per row from which a column is taken for an id, or at least worth a word.
_ID, MANY_LABELS = 0.9, 0.5
FEW_ROWS = 10
_MOST_SHOWN = 5


def own_path(data: DataConfig) -> Path:
    """Return the file that the configuration names, if it is there."""
    path = Path(data.path or "").expanduser()
    if not path.is_file():
        raise UserError(
            f"data.path must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{data.path!r}, which is {'a folder' if path.is_dir() else 'not there'}; a relative "
            "path is looked for beside the YAML file that names it, then in the current folder."
        )
    return path


def read_own_file(data: DataConfig) -> Columns:
    """Return the named columns, without rows that lack a number which they need.

    Parameters
    ----------
    data
        Path with the names of target, sensitive, numeric, categorical, kept columns.
    """
    problem = data.declaration
    path = own_path(data)
    numeric = tuple(dict.fromkeys((problem.target, *data.sensitive_columns, *problem.numeric)))
    named = tuple(dict.fromkeys((*numeric, *problem.categorical, *problem.extra)))
    raw = read_raw(path, data, named, numeric)
    values, decimals = read_numbers(raw, numeric, data)
    frame = raw.frame.replace(list(data.missing_words), None) if data.missing_words else raw.frame
    # Times and groups keep their order as numbers where they are numbers in every row.
    kept_apart = [name for name in problem.extra if name not in values]
    ordered = [name for name in kept_apart if _is_complete_number(frame[name])]
    labels = [*problem.categorical, *(name for name in kept_apart if name not in ordered)]
    required = (problem.target, *data.sensitive_columns)
    kept, dropped = _complete(values, numeric if data.missing == "drop" else required)
    _check_rows(path, len(frame), int(kept.sum(axis=0)), dropped)
    categories = {name: Category(*factorize_labels(frame[name][kept])) for name in labels}
    return Columns(
        numbers={
            **{name: frame[name].to_numpy(dtype=np.float64)[kept] for name in ordered},
            **{name: column[kept] for name, column in values.items()},
        },
        categories=categories,
        rows_read=len(frame),
        dropped=dropped,
        read_as=", ".join(filter(None, (raw.told, decimals))),
        notes=(
            *_label_notes({name: categories[name] for name in problem.categorical}),
            *_gap_notes({name: values[name][kept] for name in problem.numeric}),
            *_drop_notes(dropped, problem.numeric, required),
        ),
    )


def rows_holding(data: DataConfig, name: str, values: Array) -> str:
    """Return which rows of the file hold one of these values in a column: count, first few."""
    raw = read_raw(own_path(data), data, (name,), (name,))
    numbers, _ = read_numbers(raw, (name,), data)
    rows = np.flatnonzero(np.isin(numbers[name], values))
    listed = ", ".join(raw.place(int(row)) for row in rows[:_MOST_SHOWN])
    more = ", ..." if len(rows) > _MOST_SHOWN else ""
    return f"{len(rows):,} row{'s' if len(rows) > 1 else ''} ({listed}{more})"


def _complete(
    values: Mapping[str, Array], required: Sequence[str]
) -> tuple["np.ndarray[tuple[int], np.dtype[np.bool_]]", dict[str, int]]:
    """Return which rows have every required number, how many do not and for want of which."""
    kept = np.ones(len(values[required[0]]), dtype=bool)
    dropped: dict[str, int] = {}
    for name in dict.fromkeys(required):
        absent = kept & np.isnan(values[name])
        dropped[f"{name} missing"] = int(absent.sum(axis=0))
        kept &= ~absent
    return kept, dropped


def _check_rows(path: Path, read: int, kept: int, dropped: Mapping[str, int]) -> None:
    """Refuse a file that leaves nothing to compare."""
    if kept >= 2:
        return
    why = ", ".join(f"{count} with {reason}" for reason, count in dropped.items() if count)
    raise UserError(
        f"{path} must have at least two rows with every number present, got "
        f"{kept or 'none'} of {read}{f' ({why})' if why else ''}; a model is fitted on some rows "
        "and tested on others."
    )


def _label_notes(categories: Mapping[str, Category]) -> list[str]:
    """Return a word on columns of very many labels; refuse those that have one per row."""
    notes = []
    for name, category in categories.items():
        rows, labels = len(category.codes), len(category.labels)
        if rows < FEW_ROWS or labels <= MANY_LABELS * rows:
            continue
        if labels > _ID * rows:
            raise UserError(
                f"column {name} has {labels:,} labels in {rows:,} rows, nearly one of its own for "
                "each, as ids and dates have: nothing can be learnt from it; take it out of "
                "data.categorical (a number, such as the year of a date, belongs under "
                "data.numeric)."
            )
        notes.append(
            f"column {name} has {labels:,} labels in {rows:,} rows: most are too rare to learn from"
        )
    return notes


def _gap_notes(values: Mapping[str, Array]) -> list[str]:
    """Return which inputs have gaps that will be filled."""
    gaps = {name: int(np.isnan(column).sum(axis=0)) for name, column in values.items()}
    return [
        f"column {name}: {count:,} missing values, filled by the median of the training rows and "
        "marked in a column of their own"
        for name, count in gaps.items()
        if count
    ]


def _drop_notes(
    dropped: Mapping[str, int], inputs: Sequence[str], required: Sequence[str]
) -> list[str]:
    """Return how to keep rows that lack nothing but an input."""
    lost = sum(dropped.get(f"{name} missing", 0) for name in inputs if name not in required)
    if not lost:
        return []
    return [
        f"{lost:,} of the dropped rows lack only numbers among the inputs: data.missing: impute "
        "keeps them"
    ]


def _is_complete_number(column: "pd.Series[float]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not column.isna().any()


ROWS_AT_ONCE = 2**14  # of a block: with a thousand encoded columns 130 MB
BYTES_AT_ONCE = 2**22  # of text that is parsed at once; a row must not be longer
PIECE_ROWS = 2**18  # from which on a Parquet file is cut, between two of its row groups
_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".feather", ".arrow", ".ipc", ".xlsx")


@dataclass(frozen=True)
class FilePiece:
    """A part of a table that is read from its beginning to its end.

    Parameters
    ----------
    path
        The file.
    groups
        Which row groups of a Parquet file, all rows if None.
    first
        How many rows of the file stand before it.
    """

    path: Path
    groups: tuple[int, ...] | None = None
    first: int = 0


@dataclass(frozen=True)
class RawBlock:
    """Some rows that follow each other: for our readers, beside the cells with their own types."""

    raw: RawColumns
    cells: pa.Table


def pieces_of(path: Path) -> list[FilePiece]:
    """Return the pieces of a file, or of a folder's files by name, in the order of their rows."""
    try:
        return [piece for file in _files(path) for piece in _cut(file)]
    except FAULTS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error


def _files(path: Path) -> list[Path]:
    """Return the files of a table; what is none of them is named."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(
            f"DATA must be a CSV, TSV, Excel, Parquet or Feather file, or a folder of them, got "
            f"{str(path)!r}, which is not there."
        )
    # Whoever writes folders of files marks what is not data by the first letter.
    found = sorted(file for file in path.iterdir() if file.name[0] not in "._")
    other = [file for file in found if not file.is_file() or not _is_table(file)]
    if other or not found:
        raise UserError(
            f"{path} must hold table files and nothing else, got "
            f"{f'{other[0].name!r}' if other else 'an empty folder'}; name the files' own folder."
        )
    return found


def _is_table(file: Path) -> bool:
    endings = [ending.lower() for ending in file.suffixes if ending.lower() not in PACKED]
    return endings[-1:] != [] and endings[-1] in _ENDINGS


def _cut(path: Path) -> Iterator[FilePiece]:
    """Yield a file, a large Parquet file in several pieces."""
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


def read_blocks(piece: FilePiece, form: FormKeys, names: Sequence[str]) -> Iterator[RawBlock]:
    """Yield the named columns block by block; no more than a block is in memory.

    Excel's sheets are the exception, which have at most a million rows.

    Parameters
    ----------
    piece
        What to read.
    form
        Encoding, separator, words for missing values.
    names
        The columns; of a text file all of them are text.
    """
    try:
        match kind_of(piece.path):
            case "text":
                yield from _text_blocks(piece.path, form, names)
            case "excel":
                yield from _excel_blocks(read_raw(piece.path, form, names, names))
            case "parquet":
                check_names(parquet.read_schema(piece.path).names, names, piece.path)
                yield from _blocks(_parquet_batches(piece, names), names, RawColumns, piece.first)
            case _:
                yield from _blocks(_feather_batches(piece.path, names), names, RawColumns)
    except FAULTS as error:
        raise UserError(
            f"{piece.path} cannot be read as a table: {error}; a text may say how it is written by "
            "data.separator or data.encoding."
        ) from error


def _blocks(
    batches: Iterable["pa.RecordBatch"],
    names: Sequence[str],
    raw: Callable[[pd.DataFrame, int], RawColumns],
    before: int = 0,
) -> Iterator[RawBlock]:
    """Yield batches of any size as blocks; `raw` makes columns of a frame whose first row is so."""
    row = 1 + before
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            cells = pa.Table.from_batches([rows]).select(list(names))
            yield RawBlock(raw(cells.to_pandas(), row), cells)
            row += rows.num_rows


def _text_blocks(path: Path, form: FormKeys, names: Sequence[str]) -> Iterator[RawBlock]:
    text = find_form(path, form, names)
    check_names(text.header, names, path)

    def raw(frame: pd.DataFrame, row: int) -> RawColumns:
        line, alone = row + 1 + text.lines_before, text.separator == ","
        return RawColumns(frame, line, "line", text.told(), alone)

    reader = csv.open_csv(
        pa.input_stream(str(path)),
        read_options=csv.ReadOptions(
            encoding=text.encoding, skip_rows=text.lines_before, block_size=BYTES_AT_ONCE
        ),
        parse_options=csv.ParseOptions(delimiter=text.separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(names),
            # The types of a column would be guessed from its first block.
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[*USUAL_WORDS, *form.missing_words],
            strings_can_be_null=True,
        ),
    )
    with reader:
        yield from _blocks(reader, names, raw)


def _excel_blocks(raw: RawColumns) -> Iterator[RawBlock]:
    for start in range(0, len(raw.frame), ROWS_AT_ONCE):
        frame = raw.frame.iloc[start : start + ROWS_AT_ONCE].reset_index(drop=True)
        # A sheet's column may hold cells of any types.
        cells = pa.table(
            {
                name: [None if missing else str(cell) for cell, missing in zip(*both, strict=True)]
                for name in frame
                for both in [(frame[name], frame[name].isna())]
            },
            schema=pa.schema([(str(name), pa.string()) for name in frame]),
        )
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
