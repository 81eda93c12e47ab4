"""How the text of an own table is written: its encoding, its separator, its header."""

import codecs
import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
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

from configs.data import AUTO, SEPARATOR_WORDS, FormKeys
from configs.errors import UserError, check_name
from fkd.core.arrays import Array

_PIECE = 2**20
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TITLES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
# Decodes most of what an office program of the West writes; five of its bytes mean nothing.
_FALLBACK = "cp1252"


@dataclass(frozen=True)
class TextForm:
    """What must be known of a text before its columns can be read.

    Parameters
    ----------
    encoding
        The name of the codec.
    separator
        What stands between two columns.
    header
        The names in the line that has them.
    lines_before
        Lines above that one.
    """

    encoding: str
    separator: str
    header: tuple[str, ...]
    lines_before: int = 0

    def told(self) -> str:
        """Return the form in words."""
        encoding = _TITLES.get(self.encoding, self.encoding)
        return f"{encoding}, separated by {SEPARATOR_WORDS[self.separator]}"


def find_form(path: Path, data: FormKeys, wanted: Sequence[str]) -> TextForm:
    """Return the form of a text file: the user's word, else what the file itself shows.

    Parameters
    ----------
    path
        The file, compressed or not.
    data
        May name encoding and separator.
    wanted
        Columns that the header should have: the separator is the one that finds most of them.
    """
    encoding = _encoding(path, data.encoding)
    text = next(_decoded(path, encoding), "").removeprefix("\ufeff")
    if "\0" in text:
        raise UserError(
            f"{path} holds zero bytes, so it is no text in {encoding}; if it is UTF-16 without its "
            "mark, say data.encoding: utf-16-le."
        )
    # Excel's own way to name the separator.
    named = text[:4].lower() == "sep=" and text[4:5] in SEPARATOR_WORDS
    before = int(named)
    if named:
        text = text.partition("\n")[2]
    if text.strip() and "\n" not in text and "\r" not in text:
        raise UserError(f"{path} must have rows below its line of column names, got none of them.")
    candidates: Sequence[str] = tuple(SEPARATOR_WORDS)
    if data.separator != AUTO:
        candidates = (data.separator,)
    headers = {sign: _header(text, sign) for sign in candidates}
    best = max(candidates, key=lambda sign: (_found(headers[sign], wanted), len(headers[sign])))
    return TextForm(encoding, best, headers[best], before)


def _found(header: Sequence[str], wanted: Sequence[str]) -> int:
    return len(set(wanted) & set(header))


def _header(text: str, separator: str) -> tuple[str, ...]:
    """Return the names in the first line under a separator."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return tuple(next((line for line in lines if line), ()))
    except csv.Error:
        return ()


def _encoding(path: Path, asked: str) -> str:
    """Return the codec by which the whole file can be decoded."""
    if asked != AUTO:
        if fault := _fault(path, asked):
            raise UserError(
                f"{path} must be {asked}, as data.encoding says, but {fault}; name another one, or "
                "leave it at auto."
            )
        return asked
    start = next(_pieces(path), b"")[:4]
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    for encoding in [marked] if marked else ["utf-8", _FALLBACK]:
        fault = _fault(path, encoding)
        if not fault:
            return encoding
    raise UserError(
        f"{path} is neither UTF-8 nor Windows-1252, since {fault}; name its encoding by "
        "data.encoding, such as cp850 or mac-roman."
    )


def _fault(path: Path, encoding: str) -> str:
    """Return where a file cannot be decoded, empty where all of it can."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    for piece in (*_pieces(path), b""):
        try:
            lines += decoder.decode(piece, final=not piece).count("\n")
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            return f"line {lines} has the byte 0x{error.object[error.start]:02x}"
    return ""


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for piece in _pieces(path):
        yield decoder.decode(piece)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked where its name says that it is packed."""
    with pa.input_stream(str(path)) as stream:
        while piece := stream.read(_PIECE):
            yield piece


PACKED = (".gz", ".bz2", ".zst", ".lz4")
USUAL_WORDS: tuple[str, ...] = tuple(arrow_csv.ConvertOptions().null_values)
Kind = Literal["text", "parquet", "feather", "excel"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
}
FAULTS = (pa.ArrowException, UnicodeError, OSError, BadZipFile, KeyError)


@dataclass(frozen=True)
class RawColumns:
    """Columns as the file has them, with how to speak of its lines.

    Parameters
    ----------
    frame
        The named columns; of a text file the numeric ones as text.
    first, noun
        How the first row's place is called: line 2.
    told
        How the file was read, for people; empty where there was nothing to decide.
    lone_point
        Whether a point with three digits behind it can only be a decimal point.
    """

    frame: pd.DataFrame
    first: int = 1
    noun: str = "row"
    told: str = ""
    lone_point: bool = True

    def place(self, row: int) -> str:
        """Return where a row is found in the file."""
        return f"{self.noun} {self.first + row}"


def read_raw(
    path: Path, data: FormKeys, names: Sequence[str], numeric: Collection[str]
) -> RawColumns:
    """Return only the named columns of a file.

    Parameters
    ----------
    path
        The file; its ending says what it is, anything unknown is text.
    data
        Encoding, separator, words for missing values.
    names, numeric
        The columns to read; those of them that must become numbers.
    """
    kind = kind_of(path)
    try:
        if kind == "parquet":
            return _read_parquet(path, names)
        if kind == "feather":
            return _read_feather(path, names)
        if kind == "excel":
            return _read_excel(path, names)
    except FAULTS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error
    form = find_form(path, data, names)
    check_names(form.header, names, path)
    try:
        return _read_text(path, form, data, names, numeric)
    except FAULTS as error:
        raise UserError(
            f"{path} cannot be read as a table ({form.told()}): {error}; where that is not how it "
            "was written, say data.separator or data.encoding."
        ) from error


def kind_of(path: Path) -> Kind:
    """Return what a file is by its ending; anything unknown is text."""
    endings = [ending.lower() for ending in path.suffixes if ending.lower() not in PACKED]
    ending = endings[-1] if endings else ""
    if ending in (".xls", ".xlsb", ".ods"):
        raise UserError(
            f"{path} is of a kind that cannot be read, {ending}; save it as .xlsx or as CSV."
        )
    return _KINDS.get(ending, "text")


def header_of(path: Path, data: FormKeys, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all columns of a file, those that are wanted among them or not."""
    kind = kind_of(path)
    try:
        if kind == "parquet":
            return tuple(parquet.read_schema(path).names)
        if kind == "feather":
            return tuple(_feather(path).column_names)
        if kind == "excel":
            return tuple(_sheet(path)[0])
    except FAULTS as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error
    return find_form(path, data, wanted).header


def _read_parquet(path: Path, names: Sequence[str]) -> RawColumns:
    check_names(parquet.read_schema(path).names, names, path)
    return RawColumns(parquet.read_table(path, columns=list(names)).to_pandas())


def _read_feather(path: Path, names: Sequence[str]) -> RawColumns:
    table = _feather(path)
    check_names(table.column_names, names, path)
    return RawColumns(table.select(list(names)).to_pandas())


def _feather(path: Path) -> "pa.Table":
    """Return the table of a file, as views of it."""
    source = pa.memory_map(str(path))  # closed with the last column that looks at it
    try:
        return ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        return ipc.open_stream(source).read_all()


def _read_excel(path: Path, names: Sequence[str]) -> RawColumns:
    """Read the first sheet, each cell as it is."""
    header, cells = _sheet(path)
    check_names(header, names, path)
    return RawColumns(cells[list(names)], first=2, told="the first sheet", lone_point=False)


def _sheet(path: Path) -> tuple[list[str], pd.DataFrame]:
    """Return the header of the first sheet with its cells below."""
    if find_spec("openpyxl") is None:
        raise UserError(
            f"{path} needs openpyxl, which is not installed here; install it by `pip install "
            "'fkd[excel]'`, or save the sheet as CSV."
        )
    # Without a header, since pandas would rename the second of two columns of one name.
    sheet = pd.read_excel(path, header=None, dtype=object, engine="openpyxl")
    header = [str(name) for name in sheet.iloc[0]] if len(sheet) else []
    frame = sheet.iloc[1:].reset_index(drop=True)
    frame.columns = pd.Index(header)
    return header, frame


def _read_text(
    path: Path, form: TextForm, data: FormKeys, names: Sequence[str], numeric: Collection[str]
) -> RawColumns:
    convert = arrow_csv.ConvertOptions(
        include_columns=list(names),
        # Numbers are read by us: which sign is the decimal one depends on all of them.
        column_types={name: pa.string() for name in numeric},
        null_values=[*USUAL_WORDS, *data.missing_words],
        strings_can_be_null=True,
    )
    table = arrow_csv.read_csv(
        pa.input_stream(str(path)),
        read_options=arrow_csv.ReadOptions(encoding=form.encoding, skip_rows=form.lines_before),
        parse_options=arrow_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
        convert_options=convert,
    )
    return RawColumns(
        table.to_pandas(),
        first=2 + form.lines_before,
        noun="line",
        told=form.told(),
        lone_point=form.separator == ",",
    )


def check_names(found: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    """Name the column that the file lacks, with the nearest that it has, or has twice."""
    if not found:
        raise UserError(f"{path} must begin with a line of column names, but it is empty.")
    for name in wanted:
        try:
            check_name(name, found, key=f"a column of {path}")
        except ValueError as error:
            raise UserError(f"{error}.") from None
        if (times := list(found).count(name)) > 1:
            raise UserError(
                f"{path} must have one column of each name, but {times} are called {name!r}; "
                "rename them in the file."
            )


Mask = NDArray[np.bool_]
Cells = Union["pd.Series[Any]", pa.Array]
# A whole number, plain or in groups of three, with a fraction; or a fraction alone.
_NUMBER = r"^[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:%s\d{3})+)(?:%s\d*)?|%s\d+)(?:[eE][+-]?\d+)?$"
_POINT = _NUMBER % (",", r"\.", r"\.")
_COMMA = _NUMBER % (r"\.", ",", ",")
DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:$|[ T])"


@dataclass(frozen=True)
class CellColumn:
    """A column's cells that are numbers already, beside those that are text."""

    name: str
    numbers: Array  # NaN where there is text or nothing
    text: pa.Array  # null where there is a number or nothing
    point: Mask  # text that is a number if the decimal sign is a point
    comma: Mask

    @property
    def ambiguous(self) -> Mask:
        """Text that is a number either way, but not the same one: 1.234."""
        signs = pc.match_substring_regex(self.text, "[.,]")
        return self.point & self.comma & as_mask(signs)


def cell_column(raw: RawColumns, name: str, words: Sequence[str]) -> CellColumn:
    """Set the numbers of a column apart from its text; dates are refused."""
    cells = raw.frame[name]
    if isinstance(cells.dtype, pd.CategoricalDtype):
        cells = cells.astype(object)
    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        refuse_dates(raw, cells.notna().to_numpy(), cells, name)
    if pd.api.types.is_numeric_dtype(cells):
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        text = pa.nulls(len(cells), pa.string())
    elif pd.api.types.is_string_dtype(cells) and cells.dtype != object:
        numbers = np.full(len(cells), np.nan)
        text = pa.array(cells, type=pa.string(), from_pandas=True)
    else:
        numbers, text = _sorted_cells(raw, cells, name)
    text = pc.utf8_trim_whitespace(text.combine_chunks() if _chunked(text) else text)
    absent = pc.is_in(text, pa.array([*USUAL_WORDS, *words], pa.string()))
    text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    point, comma = (as_mask(pc.match_substring_regex(text, form)) for form in (_POINT, _COMMA))
    return CellColumn(name, numbers, text, point, comma)


def _chunked(text: object) -> bool:
    return isinstance(text, pa.ChunkedArray)


def _sorted_cells(raw: RawColumns, cells: "pd.Series[Any]", name: str) -> tuple[Array, "pa.Array"]:
    """Sort cells of any type, as a sheet has them, into numbers and text."""
    objects = cells.to_numpy(dtype=object)
    missing = cells.isna().to_numpy()
    dated = np.array([isinstance(cell, date | datetime | time | timedelta) for cell in objects])
    refuse_dates(raw, dated & ~missing, cells, name)
    known = np.array([isinstance(cell, Number | np.bool_) for cell in objects], dtype=bool)
    known &= ~missing
    numbers = np.full(len(cells), np.nan)
    numbers[known] = [float(cell) for cell in objects[known]]
    texts = [None if k or m else str(c) for c, k, m in zip(objects, known, missing, strict=True)]
    return numbers, pa.array(texts, type=pa.string())


def refuse_dates(raw: RawColumns, dated: Mask, cells: "Cells", name: str) -> None:
    """Refuse dates, which would become nanoseconds or not be read at all."""
    if dated.any():
        row = int(dated.argmax())
        raise UserError(
            f"column {name} must hold numbers, but {raw.place(row)} has the date or time "
            f"{str(cells[row])!r} ({int(dated.sum())} such values); put a number in its place, "
            "such as a year or days since a day, or name the column under data.keep only."
        )


def as_mask(found: "pa.Array") -> Mask:
    """Return an array of truths without nulls."""
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)


@dataclass
class _Witnesses:
    """The first cells of a column that show a sign, each as its value with its place."""

    point: tuple[str, str] | None = None
    comma: tuple[str, str] | None = None
    doubtful: tuple[str, str] | None = None  # 1.234, which may be either
    doubts: int = 0

    @property
    def sign(self) -> str | None:
        """The decimal sign that the column itself shows, None where it shows none or both."""
        if (self.point is None) == (self.comma is None):
            return None
        return "." if self.comma is None else ","


@dataclass
class DecimalSigns:
    """What the cells seen so far say of the decimal sign; blocks are added in their order."""

    columns: dict[str, _Witnesses] = field(default_factory=dict)

    def add(self, raw: RawColumns, column: CellColumn) -> None:
        """Look at a column's cells in one block of rows."""
        seen = self.columns.setdefault(column.name, _Witnesses())
        doubtful = column.ambiguous
        if raw.lone_point:
            doubtful &= as_mask(pc.match_substring(column.text, ","))
        seen.point = seen.point or _first(raw, column, column.point & ~column.comma)
        seen.comma = seen.comma or _first(raw, column, column.comma & ~column.point)
        seen.doubtful = seen.doubtful or _first(raw, column, doubtful)
        seen.doubts += int(doubtful.sum(axis=0))

    def decided(self, form: FormKeys) -> dict[str, str]:
        """Return the sign of every column, the user's word before what the cells show."""
        if form.decimal != AUTO:
            return dict.fromkeys(self.columns, form.decimal)
        # A column without a fraction goes by the others, if these agree.
        shown = {seen.sign for seen in self.columns.values()} - {None}
        common = shown.pop() if len(shown) == 1 else None
        found = {}
        for name, seen in self.columns.items():
            _refuse_both(name, seen)
            found[name] = seen.sign or common or _default(name, seen)
        return found


def _first(raw: RawColumns, column: CellColumn, where: Mask) -> tuple[str, str] | None:
    """Return the first cell of a mask with its place in the file, None where there is none."""
    if not where.any():
        return None
    row = int(where.argmax())
    return str(column.text[row].as_py()), raw.place(row)


def _default(name: str, seen: _Witnesses) -> str:
    """Return the point, unless that would be a guess."""
    if seen.doubtful is None:
        return "."
    value, place = seen.doubtful
    digits = value.replace(",", "").replace(".", "")
    raise UserError(
        f"column {name} holds {value!r} in {place}, which may be {digits} or "
        f"{value.replace(',', '.')}, and nothing in the file decides ({seen.doubts} such "
        "values); say data.decimal: comma or data.decimal: point."
    )


def _refuse_both(name: str, seen: _Witnesses) -> None:
    """Refuse a column in which both signs are decimal ones."""
    if seen.point and seen.comma:
        first, second = (f"{value!r} in {place}" for value, place in (seen.point, seen.comma))
        raise UserError(
            f"column {name} must have one decimal sign, but holds {first} and {second}; "
            "write them alike in the file."
        )


_INFINITE = r"^[+-]?(?i:inf|infinity)$"
_MOST_SHOWN = 3


def read_numbers(
    raw: RawColumns, names: Sequence[str], data: FormKeys, signs: Mapping[str, str] | None = None
) -> tuple[dict[str, Array], str]:
    """Return columns as floats, NaN where a value is missing, with the decimal comma told of.

    Parameters
    ----------
    raw
        The cells.
    names
        Which columns must be numbers.
    data
        Decimal sign, words for missing values.
    signs
        The decimal sign of each column, where these are only some of the file's rows.
    """
    columns = [cell_column(raw, name, data.missing_words) for name in names]
    if signs is None:
        seen = DecimalSigns()
        for column in columns:
            seen.add(raw, column)
        signs = seen.decided(data)
    values, commas = {}, []
    for column in columns:
        sign = signs[column.name]
        values[column.name] = _parse(raw, column, sign, data.missing_words)
        if sign == "," and as_mask(pc.match_substring(column.text, ",")).any():
            commas.append(column.name)
    points = any((column.point & ~column.comma).any() for column in columns)
    return values, _told(commas, points)


def _told(commas: list[str], points: bool) -> str:
    if not commas:
        return ""
    return f"decimal comma in {', '.join(commas)}" if points else "decimal comma"


def _parse(raw: RawColumns, column: CellColumn, sign: str, words: Sequence[str]) -> Array:
    """Return all cells of a column as numbers under a decimal sign."""
    infinite = np.isinf(column.numbers) | as_mask(pc.match_substring_regex(column.text, _INFINITE))
    if infinite.any():
        raise UserError(
            f"column {column.name} must hold finite numbers, got {int(infinite.sum(axis=0))} "
            f"infinite ones, the first in {raw.place(int(infinite.argmax()))}; correct them in the "
            "file, or leave them empty."
        )
    readable = column.point if sign == "." else column.comma
    _refuse_text(raw, column, as_mask(pc.is_valid(column.text)) & ~readable, sign)
    plain = pc.replace_substring(column.text, "," if sign == "." else ".", "")
    plain = pc.replace_substring(pc.utf8_ltrim(plain, "+"), ",", ".")
    parsed = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)
    numbers: Array = np.where(np.isnan(column.numbers), parsed, column.numbers)
    # -999 stands for a missing value however it is written: -999.0, -999,00.
    codes = [code for word in words if (code := _code(word)) is not None]
    return np.where(np.isin(numbers, codes), np.nan, numbers)


def _code(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _refuse_text(raw: RawColumns, column: CellColumn, bad: Mask, sign: str) -> None:
    """Refuse what is no number, with the cure that its look suggests."""
    if not bad.any():
        return
    refuse_dates(
        raw, bad & as_mask(pc.match_substring_regex(column.text, DATE)), column.text, column.name
    )
    row, count = int(bad.argmax()), int(bad.sum())
    found = column.text.filter(pa.array(bad)).unique().to_pylist()
    present = int((bad | ~np.isnan(column.numbers) | column.point | column.comma).sum())
    where = f"column {column.name} must hold numbers, but {raw.place(row)} has {found[0]!r}"
    listed = ", ".join(map(repr, found[:_MOST_SHOWN])) + (", ..." * (len(found) > _MOST_SHOWN))
    number = f"({count} of {present} values: {listed})"
    other = column.comma if sign == "." else column.point
    if other[bad].all():
        cure = "leave data.decimal at auto, or write one decimal sign in the file"
    elif len(found) > _MOST_SHOWN and count > present / 2:
        cure = (
            "list it under data.categorical if it holds labels; a target or sensitive column must "
            "be coded as numbers in the file"
        )
    else:
        words = yaml.safe_dump(found[:_MOST_SHOWN], default_flow_style=True, allow_unicode=True)
        cure = (
            f"where that means a missing value, say data.missing_words: {words.strip()}, where it "
            "is a number with a unit, leave the unit out in the file"
        )
    raise UserError(f"{where} {number}; {cure}.")
