"""Read the cells of a user's file: kind of file, text format, columns, numbers.

Text files do not declare their format. The encoding is the first of UTF-8 (UTF-16 with a byte
order mark) and Windows-1252 that decodes the whole file. The separator is the one under which the
header has most of the requested columns. The decimal sign of a column follows from its cells. An
ambiguous file is an error that names the option to set.
"""

import codecs
import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from importlib.util import find_spec
from numbers import Number
from pathlib import Path
from typing import Any, Literal, Union
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from numpy.typing import NDArray
from pyarrow import compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import ipc, parquet

from configs.data import AUTO, SEPARATOR_WORDS, FileFormat
from configs.errors import UserError, check_name
from fkd.core.arrays import Array

Mask = NDArray[np.bool_]
Cells = Union["pd.Series[Any]", pa.Array]
Kind = Literal["text", "parquet", "feather", "excel"]

KINDS: dict[str, Kind] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
READ_ERRORS = (pa.ArrowException, UnicodeError, OSError, BadZipFile, KeyError)

USUAL_WORDS: tuple[str, ...] = tuple(arrow_csv.ConvertOptions().null_values)
_BLOCK = 2**20
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TITLES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
# The encoding of most Western office programs. Five of its bytes are undefined.
_FALLBACK = "cp1252"

# An integer, plain or in groups of three digits, with a fraction; or a fraction alone.
_NUMBER = r"^[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:%s\d{3})+)(?:%s\d*)?|%s\d+)(?:[eE][+-]?\d+)?$"
_POINT = _NUMBER % (",", r"\.", r"\.")
_COMMA = _NUMBER % (r"\.", ",", ",")
_INFINITE = r"^[+-]?(?i:inf|infinity)$"
DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:$|[ T])"
_EXAMPLES = 3


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

    frame: pd.DataFrame
    first: int = 1
    noun: str = "row"
    read_as: str = ""
    lone_point: bool = True

    def place(self, row: int) -> str:
        """Return the position of a row in the file."""
        return f"{self.noun} {self.first + row}"


def kind_of(path: Path) -> Kind:
    """Return the kind of a file by its suffix. An unknown suffix means text."""
    suffix = suffix_of(path)
    if suffix in (".xls", ".xlsb", ".ods"):
        raise UserError(
            f"{path} must be a CSV, TSV, Excel (.xlsx), Parquet or Feather file, got {suffix}; "
            "save it as .xlsx or as CSV."
        )
    return KINDS.get(suffix, "text")


def suffix_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without that of a compression."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in _COMPRESSED]
    return suffixes[-1] if suffixes else ""


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
    kind = kind_of(path)
    if kind == "text":
        return find_format(path, options, wanted).header
    try:
        return _open(path, kind)[0]
    except READ_ERRORS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error


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
    kind = kind_of(path)
    if kind == "text":
        return _read_text(path, options, names, numeric)
    try:
        header, read = _open(path, kind)
        check_names(header, names, path)
        return read(list(names))
    except READ_ERRORS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error


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
                f"{path} must have one column of each name, but {times} are called {name!r}; "
                "rename them in the file."
            )


def read_numbers(
    raw: RawColumns,
    names: Sequence[str],
    options: FileFormat,
    signs: Mapping[str, str] | None = None,
) -> tuple[dict[str, Array], str]:
    """Return columns as floats, NaN for a missing value, and a note on decimal commas.

    Parameters
    ----------
    raw
        The cells.
    names
        The numeric columns.
    options
        Decimal sign and words for missing values.
    signs
        The decimal sign of each column, if `raw` has only some of the rows.
    """
    columns = [cell_column(raw, name, options.missing_words) for name in names]
    if signs is None:
        seen = DecimalSigns()
        for column in columns:
            seen.add(raw, column)
        signs = seen.decided(options)
    values, commas = {}, []
    for column in columns:
        sign = signs[column.name]
        values[column.name] = _parse(raw, column, sign, options.missing_words)
        if sign == "," and as_mask(pc.match_substring(column.text, ",")).any():
            commas.append(column.name)
    if not commas:
        return values, ""
    points = any((column.point & ~column.comma).any() for column in columns)
    return values, f"decimal comma in {', '.join(commas)}" if points else "decimal comma"


# Files that declare their columns


def _open(path: Path, kind: Kind) -> tuple[tuple[str, ...], Callable[[list[str]], RawColumns]]:
    """Return the header of a file that is no text, and a function that reads columns."""
    if kind == "parquet":
        header = parquet.read_schema(path).names
        return tuple(header), lambda names: RawColumns(
            parquet.read_table(path, columns=names).to_pandas()
        )
    if kind == "feather":
        table = _feather(path)
        return tuple(table.column_names), lambda names: RawColumns(table.select(names).to_pandas())
    if find_spec("openpyxl") is None:
        raise UserError(
            f"{path} needs openpyxl, which is not installed; run `pip install 'fkd[excel]'`, or "
            "save the sheet as CSV."
        )
    # Without a header, because pandas would rename the second of two columns with one name.
    sheet = pd.read_excel(path, header=None, dtype=object, engine="openpyxl")
    header = tuple(str(name) for name in sheet.iloc[0]) if len(sheet) else ()
    cells = sheet.iloc[1:].reset_index(drop=True)
    cells.columns = pd.Index(header)
    return header, lambda names: RawColumns(
        cells[names], first=2, read_as="the first sheet", lone_point=False
    )


def _feather(path: Path) -> "pa.Table":
    """Return the memory-mapped table of a Feather file or an Arrow stream."""
    source = pa.memory_map(str(path))  # closed with the last column that refers to it
    try:
        return ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        return ipc.open_stream(source).read_all()


# Text files


@dataclass(frozen=True)
class TextFormat:
    """The format of a text file.

    Parameters
    ----------
    encoding
        Name of the codec.
    separator
        Separator of columns.
    header
        Names of the columns.
    lines_before
        Number of lines before the header.
    """

    encoding: str
    separator: str
    header: tuple[str, ...]
    lines_before: int = 0

    def __str__(self) -> str:
        encoding = _TITLES.get(self.encoding, self.encoding)
        return f"{encoding}, separated by {SEPARATOR_WORDS[self.separator]}"


def find_format(path: Path, options: FileFormat, wanted: Sequence[str]) -> TextFormat:
    """Return the format of a text file: the options of the user, the rest detected.

    Parameters
    ----------
    path
        The file. It may be compressed.
    options
        Encoding and separator, unless they are detected.
    wanted
        Columns that the header should have. The separator is the one that finds most of them.
    """
    encoding = _find_encoding(path, options.encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    text = decoder.decode(next(_blocks(path), b"")).removeprefix("\ufeff")
    if "\0" in text:
        raise UserError(
            f"{path} holds zero bytes and is no text in {encoding}. Set data.encoding: utf-16-le "
            "if it is UTF-16 without a byte order mark."
        )
    # Excel writes the separator into a line before the header.
    named = text[:4].lower() == "sep=" and text[4:5] in SEPARATOR_WORDS
    if named:
        text = text.partition("\n")[2]
    if text.strip() and "\n" not in text and "\r" not in text:
        raise UserError(f"{path} must have rows below its line of column names, got none.")
    signs = tuple(SEPARATOR_WORDS) if options.separator == AUTO else (options.separator,)
    headers = {sign: _header(text, sign) for sign in signs}
    best = max(signs, key=lambda s: (len(set(wanted) & set(headers[s])), len(headers[s])))
    return TextFormat(encoding, best, headers[best], int(named))


def _header(text: str, separator: str) -> tuple[str, ...]:
    """Return the names in the first line under a separator."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return tuple(next((line for line in lines if line), ()))
    except csv.Error:
        return ()


def _find_encoding(path: Path, encoding: str) -> str:
    """Return an encoding that decodes the whole file."""
    if encoding != AUTO:
        if fault := _decoding_fault(path, encoding):
            raise UserError(
                f"{path} must be {encoding} as data.encoding requires, but {fault}. Correct "
                "data.encoding, or set it to auto."
            )
        return encoding
    start = next(_blocks(path), b"")[:4]
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    fault = ""
    for candidate in [marked] if marked else ["utf-8", _FALLBACK]:
        fault = _decoding_fault(path, candidate)
        if not fault:
            return candidate
    raise UserError(
        f"{path} is neither UTF-8 nor Windows-1252, because {fault}. Set data.encoding, such as "
        "cp850 or mac-roman."
    )


def _decoding_fault(path: Path, encoding: str) -> str:
    """Return the line and the byte that cannot be decoded, or an empty text."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    for block in (*_blocks(path), b""):
        try:
            lines += decoder.decode(block, final=not block).count("\n")
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            return f"line {lines} has the byte 0x{error.object[error.start]:02x}"
    return ""


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed by its suffix."""
    with pa.input_stream(str(path)) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _read_text(
    path: Path, options: FileFormat, names: Sequence[str], numeric: Collection[str]
) -> RawColumns:
    found = find_format(path, options, names)
    check_names(found.header, names, path)
    try:
        # Numbers are parsed later, because the decimal sign depends on all of them.
        how = csv_options(found, options, names, numeric)
        table = arrow_csv.read_csv(pa.input_stream(str(path)), **how)
    except READ_ERRORS as error:
        raise UserError(
            f"{path} cannot be read as a table ({found}): {error}. Set data.separator or "
            "data.encoding if the format is another one."
        ) from error
    return RawColumns(
        table.to_pandas(),
        first=2 + found.lines_before,
        noun="line",
        read_as=str(found),
        lone_point=found.separator == ",",
    )


def csv_options(
    found: TextFormat,
    options: FileFormat,
    names: Sequence[str],
    text: Collection[str],
    **read: int,
) -> dict[str, Any]:
    """Return the keyword arguments of pyarrow's CSV readers.

    Parameters
    ----------
    found, options
        The format of the file, and the words for missing values.
    names, text
        The columns to read, and those of them that stay text.
    **read
        Further `pyarrow.csv.ReadOptions`.
    """
    return {
        "read_options": arrow_csv.ReadOptions(
            encoding=found.encoding, skip_rows=found.lines_before, **read
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=found.separator, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            include_columns=list(names),
            column_types=dict.fromkeys(text, pa.string()),
            null_values=[*USUAL_WORDS, *options.missing_words],
            strings_can_be_null=True,
        ),
    }


# Numbers


@dataclass(frozen=True)
class CellColumn:
    """The cells of a column, numbers and text separated.

    Parameters
    ----------
    name
        The column.
    numbers
        Cells that are numbers. NaN for text and missing values.
    text
        Cells that are text. Null for numbers and missing values.
    point, comma
        Masks of text that is a number with a decimal point, or with a decimal comma.
    """

    name: str
    numbers: Array
    text: pa.Array
    point: Mask
    comma: Mask

    @property
    def ambiguous(self) -> Mask:
        """Mask of text that is another number with a point than with a comma: 1.234."""
        return self.point & self.comma & as_mask(pc.match_substring_regex(self.text, "[.,]"))


def cell_column(raw: RawColumns, name: str, words: Sequence[str]) -> CellColumn:
    """Return the numbers and the text of a column. Dates are an error.

    Parameters
    ----------
    raw
        The cells.
    name
        The column.
    words
        Words for missing values, in addition to the usual ones.
    """
    cells = raw.frame[name]
    if isinstance(cells.dtype, pd.CategoricalDtype):
        cells = cells.astype(object)
    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        _refuse_dates(raw, cells.notna().to_numpy(), cells, name)
    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        text = pa.nulls(len(cells), pa.string())
    elif pd.api.types.is_string_dtype(cells) and cells.dtype != object:
        numbers = np.full(len(cells), np.nan)
        text = pa.array(cells, type=pa.string(), from_pandas=True)
    else:
        numbers, text = _mixed_cells(raw, cells, name)
    chunked: Any = text
    text = chunked.combine_chunks() if isinstance(chunked, pa.ChunkedArray) else text
    text = pc.utf8_trim_whitespace(text)
    absent = pc.is_in(text, pa.array([*USUAL_WORDS, *words], pa.string()))
    text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    point, comma = (as_mask(pc.match_substring_regex(text, p)) for p in (_POINT, _COMMA))
    return CellColumn(name, numbers, text, point, comma)


def as_mask(found: "pa.Array") -> Mask:
    """Return a boolean array, False for null."""
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)


@dataclass
class _Examples:
    """The first cells of a column that show a decimal sign, each as its value and its place."""

    point: tuple[str, str] | None = None
    comma: tuple[str, str] | None = None
    ambiguous: tuple[str, str] | None = None
    ambiguous_count: int = 0

    @property
    def sign(self) -> str | None:
        """The decimal sign that the column shows, None for none or both."""
        if (self.point is None) == (self.comma is None):
            return None
        return "." if self.comma is None else ","


@dataclass
class DecimalSigns:
    """Infer decimal signs from cells. Blocks of rows are added in their order."""

    columns: dict[str, _Examples] = field(default_factory=dict)

    def add(self, raw: RawColumns, column: CellColumn) -> None:
        """Add the cells of a column in one block of rows."""

        def first(mask: Mask) -> tuple[str, str] | None:
            if not mask.any():
                return None
            row = int(mask.argmax())
            return str(column.text[row].as_py()), raw.place(row)

        seen = self.columns.setdefault(column.name, _Examples())
        ambiguous = column.ambiguous
        if raw.lone_point:
            ambiguous &= as_mask(pc.match_substring(column.text, ","))
        seen.point = seen.point or first(column.point & ~column.comma)
        seen.comma = seen.comma or first(column.comma & ~column.point)
        seen.ambiguous = seen.ambiguous or first(ambiguous)
        seen.ambiguous_count += int(ambiguous.sum(axis=0))

    def decided(self, options: FileFormat) -> dict[str, str]:
        """Return the sign of every column: the option of the user, else the inferred one."""
        if options.decimal != AUTO:
            return dict.fromkeys(self.columns, options.decimal)
        # A column without a fraction follows the other columns if they agree.
        shown = {seen.sign for seen in self.columns.values()} - {None}
        common = shown.pop() if len(shown) == 1 else None
        signs = {}
        for name, seen in self.columns.items():
            if seen.point and seen.comma:
                first, second = (f"{value!r} in {at}" for value, at in (seen.point, seen.comma))
                raise UserError(
                    f"column {name} must have one decimal sign, but holds {first} and {second}; "
                    "write them alike in the file."
                )
            sign = seen.sign or common
            if sign is None and seen.ambiguous is not None:
                value, place = seen.ambiguous
                whole = value.replace(",", "").replace(".", "")
                raise UserError(
                    f"column {name} holds {value!r} in {place}, which may be {whole} or "
                    f"{value.replace(',', '.')} ({seen.ambiguous_count} such values). Set "
                    "data.decimal: comma or data.decimal: point."
                )
            signs[name] = sign or "."
        return signs


def _mixed_cells(raw: RawColumns, cells: "pd.Series[Any]", name: str) -> tuple[Array, "pa.Array"]:
    """Return the numbers and the text of cells of any type, as a sheet has them."""
    objects = cells.to_numpy(dtype=object)
    missing = cells.isna().to_numpy()
    dated = np.array([isinstance(cell, date | datetime | time | timedelta) for cell in objects])
    _refuse_dates(raw, dated & ~missing, cells, name)
    is_number = np.array([isinstance(cell, Number | np.bool_) for cell in objects], dtype=bool)
    is_number &= ~missing
    numbers = np.full(len(cells), np.nan)
    numbers[is_number] = [float(cell) for cell in objects[is_number]]
    both = zip(objects, is_number | missing, strict=True)
    return numbers, pa.array([None if skip else str(cell) for cell, skip in both], pa.string())


def _parse(raw: RawColumns, column: CellColumn, sign: str, words: Sequence[str]) -> Array:
    """Return all cells of a column as numbers under a decimal sign."""
    infinite = np.isinf(column.numbers) | as_mask(pc.match_substring_regex(column.text, _INFINITE))
    if infinite.any():
        raise UserError(
            f"column {column.name} must hold finite numbers, got {int(infinite.sum(axis=0))} "
            f"infinite values, the first in {raw.place(int(infinite.argmax()))}; correct them in "
            "the file, or leave them empty."
        )
    readable = column.point if sign == "." else column.comma
    _refuse_text(raw, column, as_mask(pc.is_valid(column.text)) & ~readable, sign)
    plain = pc.replace_substring(column.text, "," if sign == "." else ".", "")
    plain = pc.replace_substring(pc.utf8_ltrim(plain, "+"), ",", ".")
    parsed = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)
    numbers: Array = np.where(np.isnan(column.numbers), parsed, column.numbers)
    # -999 means a missing value in every spelling: -999.0, -999,00.
    codes = []
    for word in words:
        with suppress(ValueError):
            codes.append(float(word))
    return np.where(np.isin(numbers, codes), np.nan, numbers)


def _refuse_dates(raw: RawColumns, dated: Mask, cells: "Cells", name: str) -> None:
    """Raise UserError if a cell is a date."""
    if dated.any():
        row = int(dated.argmax())
        raise UserError(
            f"column {name} must hold numbers, but {raw.place(row)} has the date or time "
            f"{str(cells[row])!r} ({int(dated.sum())} such values). Replace it by a number, such "
            "as a year or the days since a day, or name the column under data.keep only."
        )


def _refuse_text(raw: RawColumns, column: CellColumn, bad: Mask, sign: str) -> None:
    """Raise UserError if a cell is no number, with a remedy that fits the cells."""
    if not bad.any():
        return
    dated = bad & as_mask(pc.match_substring_regex(column.text, DATE))
    _refuse_dates(raw, dated, column.text, column.name)
    found = column.text.filter(pa.array(bad)).unique().to_pylist()
    count = int(bad.sum())
    present = int((bad | ~np.isnan(column.numbers) | column.point | column.comma).sum())
    other = column.comma if sign == "." else column.point
    if other[bad].all():
        remedy = "Set data.decimal: auto, or write one decimal sign in the file"
    elif len(found) > _EXAMPLES and count > present / 2:
        remedy = (
            "If it holds labels, list it under data.categorical; a target or sensitive column must "
            "be coded as numbers in the file"
        )
    else:
        words = yaml.safe_dump(found[:_EXAMPLES], default_flow_style=True, allow_unicode=True)
        remedy = (
            f"Set data.missing_words: {words.strip()} if they mean a missing value, or remove the "
            "unit in the file if they are numbers with a unit"
        )
    shown = ", ".join(map(repr, found[:_EXAMPLES])) + (", ..." * (len(found) > _EXAMPLES))
    raise UserError(
        f"column {column.name} must hold numbers, but {raw.place(int(bad.argmax()))} has "
        f"{found[0]!r} ({count} of {present} values: {shown}). {remedy}."
    )
