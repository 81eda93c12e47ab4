"""The raw columns of an own file, whichever program wrote it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from zipfile import BadZipFile

import pandas as pd
import pyarrow as pa
from pyarrow import csv, ipc, parquet

from configs.errors import UserError
from configs.nearest import check_name
from configs.text_form import FormKeys
from tasks.data.own_text import TextForm, find_form

PACKED = (".gz", ".bz2", ".zst", ".lz4")
USUAL_WORDS: tuple[str, ...] = tuple(csv.ConvertOptions().null_values)
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
    convert = csv.ConvertOptions(
        include_columns=list(names),
        # Numbers are read by us: which sign is the decimal one depends on all of them.
        column_types={name: pa.string() for name in numeric},
        null_values=[*USUAL_WORDS, *data.missing_words],
        strings_can_be_null=True,
    )
    table = csv.read_csv(
        pa.input_stream(str(path)),
        read_options=csv.ReadOptions(encoding=form.encoding, skip_rows=form.lines_before),
        parse_options=csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
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
