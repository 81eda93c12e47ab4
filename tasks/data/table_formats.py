"""Read the columns of a user's file: kind of file, format of a text file, blocks of rows.

Text files do not declare their format. The encoding is the first of UTF-8 (UTF-16 with a byte
order mark) and Windows-1252 that decodes the whole file. The separator is the one under which the
header has most of the requested columns. An ambiguous file is an error that names the option to
set. A file is read as a whole by `read_raw`, or block by block by `read_blocks`.
"""

import codecs
import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import ipc, parquet

from configs.data import AUTO, SEPARATOR_WORDS, FileFormat
from configs.errors import UserError, check_name

Kind = Literal["text", "parquet", "feather", "excel"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")

USUAL_WORDS: tuple[str, ...] = tuple(arrow_csv.ConvertOptions().null_values)
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_TITLES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}

ROWS_AT_ONCE = 2**14  # rows of a block; with a thousand encoded columns 130 MB
BYTES_AT_ONCE = 2**22  # bytes of text that are parsed at once; a row must not be longer
PIECE_ROWS = 2**18  # rows of a piece of a Parquet file


@dataclass(frozen=True)
class RawColumns:
    """Columns as the file has them, and how to refer to their rows.

    Parameters
    ----------
    frame
        The requested columns. Numeric columns of a text file are text.
    first, noun
        The name of the first row: line 2.
    read_as
        The detected format. Empty for files that declare it.
    lone_point
        True if a point before three digits can only be a decimal point.
    """

    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    first: int = 1
    noun: str = "row"
    read_as: str = ""
    lone_point: bool = True

    def position(self, row: int) -> str:
        """Return the position of a row in the file."""
        return f"{self.noun} {self.first + row}"


@dataclass(frozen=True)
class RawBlock:
    """Consecutive rows, as raw columns and as cells with the types of the file."""

    raw: RawColumns
    cells: pa.Table


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


def header_of(path: Path, options: FileFormat, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all columns of a file.

    Parameters
    ----------
    path
        The file.
    options
        Encoding and separator, unless they are detected.
    wanted
        Columns that the header should have.
    """
    with _named_errors(path):
        return _open(FilePiece(path), options, wanted).header


def read_raw(
    path: Path, options: FileFormat, names: Sequence[str], numeric: Collection[str]
) -> RawColumns:
    """Return the named columns of a file.

    Parameters
    ----------
    path
        The file.
    options
        Encoding, separator and words for missing values.
    names, numeric
        The columns to read, and those of them that must become numbers.
    """
    with _named_errors(path):
        file = _open(FilePiece(path), options, names)
        check_names(file.header, names, path)
        return replace(file.raw, frame=file.read(list(names), numeric))


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
    with _named_errors(piece.path):
        file = _open(piece, options, names)
        check_names(file.header, names, piece.path)
        row = file.raw.first + piece.first
        for frame, cells in file.blocks(list(names)):
            yield RawBlock(replace(file.raw, frame=frame, first=row), cells)
            row += len(frame)


def pieces_of(path: Path) -> list[FilePiece]:
    """Return the pieces of a file, or of all files of a folder by name, in the order of rows."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        # Programs that write folders of files mark metadata by the first character.
        files = sorted(file for file in path.iterdir() if file.name[0] not in "._")
        other = [f.name for f in files if not f.is_file() or _suffix(f) not in _KINDS]
        if other or not files:
            raise UserError(
                f"{path} must contain table files only, got "
                f"{repr(other[0]) if other else 'an empty folder'}. Name a folder of table files."
            )
    else:
        raise UserError(
            "DATA must be a CSV, TSV, Excel, Parquet or Feather file, or a folder of them, got "
            f"{str(path)!r}, which is not there."
        )
    with _named_errors(path):
        return [piece for file in files for piece in _cut(file)]


def check_names(header: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    """Raise UserError for a column that the file does not have, or has twice."""
    if not header:
        raise UserError(f"{path} must begin with a line of column names, but it is empty.")
    for name in wanted:
        try:
            check_name(name, header, key=f"a column of {path}")
        except ValueError as error:
            raise UserError(f"{error}.") from None
        if (times := list(header).count(name)) > 1:
            raise UserError(
                f"{path} must have one column of each name, but {times} are called {name!r}. "
                "Rename them in the file."
            )


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Raise UserError with the name of the file for an error of a reader."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, OSError, BadZipFile, KeyError) as error:
        raise UserError(
            f"{path} cannot be read as a table: {error}. For a text file, set data.separator or "
            "data.encoding."
        ) from error


def _suffix(path: Path) -> str:
    """Return the suffix of a file in lower case, without that of a compression."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in _COMPRESSED]
    return suffixes[-1] if suffixes else ""


def _cut(path: Path) -> Iterator[FilePiece]:
    """Yield a file as one piece, or a large Parquet file as several pieces."""
    if _KINDS.get(_suffix(path)) != "parquet":
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


_Blocks = Iterator[tuple[pd.DataFrame, pa.Table]]


@dataclass(frozen=True)
class _OpenFile:
    """A file with a known format.

    Parameters
    ----------
    header
        The names of all columns.
    read
        Returns columns as a frame, of a text file those in the second argument as text.
    blocks
        Yields blocks of columns, as a frame and as cells.
    raw
        The names of the rows and the format, without rows.
    """

    header: tuple[str, ...]
    read: Callable[[list[str], Collection[str]], pd.DataFrame]
    blocks: Callable[[list[str]], _Blocks]
    raw: RawColumns = RawColumns()


def _open(piece: FilePiece, options: FileFormat, wanted: Sequence[str]) -> _OpenFile:
    """Open a file. An unknown suffix means text."""
    suffix = _suffix(piece.path)
    if suffix in (".xls", ".xlsb", ".ods"):
        raise UserError(
            f"{piece.path} must be a CSV, TSV, Excel (.xlsx), Parquet or Feather file, got "
            f"{suffix}. Save it as .xlsx or as CSV."
        )
    kind = _KINDS.get(suffix, "text")
    if kind == "text":
        return _open_text(piece.path, options, wanted)
    if kind == "excel":
        return _open_excel(piece.path)
    if kind == "parquet":
        file = parquet.ParquetFile(piece.path)
        return _OpenFile(
            tuple(file.schema_arrow.names),
            lambda names, _: file.read(names).select(names).to_pandas(),
            lambda names: _cut_blocks(
                file.iter_batches(ROWS_AT_ONCE, row_groups=piece.groups, columns=names), names
            ),
        )
    reader = _open_feather(piece.path)
    return _OpenFile(
        tuple(reader.schema.names),
        lambda names, _: reader.read_all().select(names).to_pandas(),
        lambda names: _cut_blocks(reader, names),
    )


def _open_feather(path: Path) -> "pa.RecordBatchReader":
    """Open a memory-mapped Feather file or Arrow stream."""
    source = pa.memory_map(str(path))  # closed with the last column that refers to it
    try:
        file = ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return ipc.open_stream(source)
    batches = (file.get_batch(i) for i in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches)


def _cut_blocks(batches: Iterable["pa.RecordBatch"], names: list[str]) -> _Blocks:
    """Yield batches of any size as blocks."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            cells = pa.Table.from_batches([batch.slice(start, ROWS_AT_ONCE)]).select(names)
            yield cells.to_pandas(), cells


def _open_excel(path: Path) -> _OpenFile:
    """Open the first sheet of an Excel file."""
    if find_spec("openpyxl") is None:
        raise UserError(
            f"{path} needs openpyxl, which is not installed. Run `pip install 'fkd[excel]'`, or "
            "save the sheet as CSV."
        )
    # Without a header, because pandas would rename the second of two columns with one name.
    sheet = pd.read_excel(path, header=None, dtype=object, engine="openpyxl")
    header = tuple(str(name) for name in sheet.iloc[0]) if len(sheet) else ()
    sheet = sheet.iloc[1:].reset_index(drop=True)
    sheet.columns = pd.Index(header)

    def blocks(names: list[str]) -> _Blocks:
        schema = pa.schema([(name, pa.string()) for name in names])
        for start in range(0, len(sheet), ROWS_AT_ONCE):
            frame = sheet[names].iloc[start : start + ROWS_AT_ONCE].reset_index(drop=True)
            # A column of a sheet may have cells of several types.
            text = frame.map(str, na_action="ignore").astype(object)
            yield frame, pa.Table.from_pandas(text, schema=schema, preserve_index=False)

    raw = RawColumns(first=2, read_as="the first sheet", lone_point=False)
    return _OpenFile(header, lambda names, _: sheet[names], blocks, raw)


def _open_text(path: Path, options: FileFormat, wanted: Sequence[str]) -> _OpenFile:
    """Open a text file in the format that the options give, or that is detected."""
    encoding = _find_encoding(path, options.encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    text = decoder.decode(next(_chunks(path), b"")).removeprefix("\ufeff")
    if "\0" in text:
        raise UserError(
            f"{path} holds zero bytes and is no text in {encoding}. Set data.encoding: utf-16-le "
            "if it is UTF-16 without a byte order mark."
        )
    # Excel writes the separator into a line before the header.
    lines_before = int(text[:4].lower() == "sep=" and text[4:5] in SEPARATOR_WORDS)
    if lines_before:
        text = text.partition("\n")[2]
    if text.strip() and "\n" not in text and "\r" not in text:
        raise UserError(f"{path} must have rows below its line of column names, got none.")
    signs = tuple(SEPARATOR_WORDS) if options.separator == AUTO else (options.separator,)
    headers = {sign: _header(text, sign) for sign in signs}
    # The separator that finds most of the requested columns.
    best = max(signs, key=lambda s: (len(set(wanted) & set(headers[s])), len(headers[s])))

    def arguments(names: list[str], text: Collection[str], **read: int) -> dict[str, Any]:
        """Return the arguments of pyarrow's CSV readers."""
        return {
            "input_file": pa.input_stream(str(path)),
            "read_options": arrow_csv.ReadOptions(
                encoding=encoding, skip_rows=lines_before, **read
            ),
            "parse_options": arrow_csv.ParseOptions(delimiter=best, newlines_in_values=True),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=names,
                # Numbers are parsed later, because the decimal sign depends on all of them.
                column_types=dict.fromkeys(text, pa.string()),
                null_values=[*USUAL_WORDS, *options.missing_words],
                strings_can_be_null=True,
            ),
        }

    def blocks(names: list[str]) -> _Blocks:
        # All columns as text: otherwise their types would be inferred from the first block.
        with arrow_csv.open_csv(**arguments(names, names, block_size=BYTES_AT_ONCE)) as reader:
            yield from _cut_blocks(reader, names)

    read_as = f"{_TITLES.get(encoding, encoding)}, separated by {SEPARATOR_WORDS[best]}"
    return _OpenFile(
        headers[best],
        lambda names, text: arrow_csv.read_csv(**arguments(names, text)).to_pandas(),
        blocks,
        RawColumns(first=2 + lines_before, noun="line", read_as=read_as, lone_point=best == ","),
    )


def _header(text: str, separator: str) -> tuple[str, ...]:
    """Return the names in the first line under a separator."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return tuple(next((line for line in lines if line), ()))
    except csv.Error:
        return ()


def _find_encoding(path: Path, encoding: str) -> str:
    """Return an encoding that decodes the whole file."""
    start = next(_chunks(path), b"")
    marked = [name for mark, name in _MARKS.items() if start.startswith(mark)]
    # Windows-1252 is the encoding of most Western office programs. Five of its bytes are undefined.
    detected = marked[:1] or ["utf-8", "cp1252"]
    fault = ""
    for candidate in detected if encoding == AUTO else [encoding]:
        fault = _decoding_fault(path, candidate)
        if not fault:
            return candidate
    if encoding != AUTO:
        raise UserError(
            f"{path} must be {encoding} as data.encoding requires, but {fault}. Correct "
            "data.encoding, or set it to auto."
        )
    raise UserError(
        f"{path} is neither UTF-8 nor Windows-1252, because {fault}. Set data.encoding, such as "
        "cp850 or mac-roman."
    )


def _decoding_fault(path: Path, encoding: str) -> str:
    """Return the line and the byte that cannot be decoded, or an empty text."""
    lines = 1
    try:
        for text in codecs.iterdecode(_chunks(path), encoding):
            lines += text.count("\n")
    except UnicodeDecodeError as error:
        lines += error.object[: error.start].count(b"\n")
        return f"line {lines} has the byte 0x{error.object[error.start]:02x}"
    return ""


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed by its suffix."""
    with pa.input_stream(str(path)) as stream:
        while chunk := stream.read(2**20):
            yield chunk
