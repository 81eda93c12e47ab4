"""An own table as blocks of rows, so that one larger than memory can be gone through."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import csv, ipc, parquet

from configs.errors import UserError
from configs.text_form import FormKeys
from tasks.data.own_formats import (
    FAULTS,
    PACKED,
    USUAL_WORDS,
    RawColumns,
    check_names,
    kind_of,
    read_raw,
)
from tasks.data.own_text import find_form

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
class RowBlock:
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


def read_blocks(piece: FilePiece, form: FormKeys, names: Sequence[str]) -> Iterator[RowBlock]:
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
) -> Iterator[RowBlock]:
    """Yield batches of any size as blocks; `raw` makes columns of a frame whose first row is so."""
    row = 1 + before
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            cells = pa.Table.from_batches([rows]).select(list(names))
            yield RowBlock(raw(cells.to_pandas(), row), cells)
            row += rows.num_rows


def _text_blocks(path: Path, form: FormKeys, names: Sequence[str]) -> Iterator[RowBlock]:
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


def _excel_blocks(raw: RawColumns) -> Iterator[RowBlock]:
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
        yield RowBlock(replace(raw, frame=frame, first=raw.first + start), cells)


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
