"""Columns of an own file as numbers, whichever decimal sign they were written with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from numbers import Number
from typing import Any, Union

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from numpy.typing import NDArray
from pyarrow import compute as pc

from configs.data import DataConfig
from configs.errors import UserError
from configs.text_form import AUTO
from fkd.core.arrays import Array
from tasks.data.own_formats import USUAL_WORDS, RawColumns

_Mask = NDArray[np.bool_]
_Cells = Union["pd.Series[Any]", pa.Array]
# A whole number, plain or in groups of three, with a fraction; or a fraction alone.
_NUMBER = r"^[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:%s\d{3})+)(?:%s\d*)?|%s\d+)(?:[eE][+-]?\d+)?$"
_POINT = _NUMBER % (",", r"\.", r"\.")
_COMMA = _NUMBER % (r"\.", ",", ",")
_INFINITE = r"^[+-]?(?i:inf|infinity)$"
_DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:$|[ T])"
_MOST_SHOWN = 3


@dataclass(frozen=True)
class _Column:
    """A column's cells that are numbers already, beside those that are text."""

    name: str
    numbers: Array  # NaN where there is text or nothing
    text: pa.Array  # null where there is a number or nothing
    point: _Mask  # text that is a number if the decimal sign is a point
    comma: _Mask

    @property
    def ambiguous(self) -> _Mask:
        """Text that is a number either way, but not the same one: 1.234."""
        signs = pc.match_substring_regex(self.text, "[.,]")
        return self.point & self.comma & _mask(signs)

    def sign(self) -> str | None:
        """Return the decimal sign that the column itself shows, None where it shows none."""
        point, comma = (self.point & ~self.comma).any(), (self.comma & ~self.point).any()
        return None if point == comma else "." if point else ","


def read_numbers(
    raw: RawColumns, names: Sequence[str], data: DataConfig
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
    """
    columns = [_column(raw, name, data.missing_words) for name in names]
    # A column without a fraction goes by the others, if these agree.
    shown = {sign for column in columns if (sign := column.sign())}
    common = shown.pop() if len(shown) == 1 else None
    values, commas = {}, []
    for column in columns:
        sign = data.decimal
        if sign == AUTO:
            sign = column.sign() or common or _default_sign(raw, column)
            _refuse_both(raw, column)
        values[column.name] = _parse(raw, column, sign, data.missing_words)
        if sign == "," and _mask(pc.match_substring(column.text, ",")).any():
            commas.append(column.name)
    points = any(column.sign() == "." for column in columns)
    return values, _told(commas, points)


def _told(commas: list[str], points: bool) -> str:
    if not commas:
        return ""
    return f"decimal comma in {', '.join(commas)}" if points else "decimal comma"


def _column(raw: RawColumns, name: str, words: Sequence[str]) -> _Column:
    """Set the numbers of a column apart from its text; dates are refused."""
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
        numbers, text = _sorted_cells(raw, cells, name)
    text = pc.utf8_trim_whitespace(text.combine_chunks() if _chunked(text) else text)
    absent = pc.is_in(text, pa.array([*USUAL_WORDS, *words], pa.string()))
    text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    point, comma = (_mask(pc.match_substring_regex(text, form)) for form in (_POINT, _COMMA))
    return _Column(name, numbers, text, point, comma)


def _chunked(text: object) -> bool:
    return isinstance(text, pa.ChunkedArray)


def _sorted_cells(raw: RawColumns, cells: "pd.Series[Any]", name: str) -> tuple[Array, "pa.Array"]:
    """Sort cells of any type, as a sheet has them, into numbers and text."""
    objects = cells.to_numpy(dtype=object)
    missing = cells.isna().to_numpy()
    dated = np.array([isinstance(cell, date | datetime | time | timedelta) for cell in objects])
    _refuse_dates(raw, dated & ~missing, cells, name)
    known = np.array([isinstance(cell, Number | np.bool_) for cell in objects], dtype=bool)
    known &= ~missing
    numbers = np.full(len(cells), np.nan)
    numbers[known] = [float(cell) for cell in objects[known]]
    texts = [None if k or m else str(c) for c, k, m in zip(objects, known, missing, strict=True)]
    return numbers, pa.array(texts, type=pa.string())


def _parse(raw: RawColumns, column: _Column, sign: str, words: Sequence[str]) -> Array:
    """Return all cells of a column as numbers under a decimal sign."""
    infinite = np.isinf(column.numbers) | _mask(pc.match_substring_regex(column.text, _INFINITE))
    if infinite.any():
        raise UserError(
            f"column {column.name} must hold finite numbers, got {int(infinite.sum(axis=0))} "
            f"infinite ones, the first in {raw.place(int(infinite.argmax()))}; correct them in the "
            "file, or leave them empty."
        )
    readable = column.point if sign == "." else column.comma
    _refuse_text(raw, column, _mask(pc.is_valid(column.text)) & ~readable, sign)
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


def _default_sign(raw: RawColumns, column: _Column) -> str:
    """Return the point, unless that would be a guess."""
    doubtful = column.ambiguous
    if raw.lone_point:
        doubtful &= _mask(pc.match_substring(column.text, ","))
    if not doubtful.any():
        return "."
    row = int(doubtful.argmax())
    value = column.text[row].as_py()
    digits = value.replace(",", "").replace(".", "")
    raise UserError(
        f"column {column.name} holds {value!r} in {raw.place(row)}, which may be {digits} or "
        f"{value.replace(',', '.')}, and nothing in the file decides ({int(doubtful.sum())} such "
        "values); say data.decimal: comma or data.decimal: point."
    )


def _refuse_both(raw: RawColumns, column: _Column) -> None:
    """Refuse a column in which both signs are decimal ones."""
    point, comma = column.point & ~column.comma, column.comma & ~column.point
    if point.any() and comma.any():
        rows = int(point.argmax()), int(comma.argmax())
        (first, second) = (f"{column.text[row].as_py()!r} in {raw.place(row)}" for row in rows)
        raise UserError(
            f"column {column.name} must have one decimal sign, but holds {first} and {second}; "
            "write them alike in the file."
        )


def _refuse_dates(raw: RawColumns, dated: _Mask, cells: "_Cells", name: str) -> None:
    """Refuse dates, which would become nanoseconds or not be read at all."""
    if dated.any():
        row = int(dated.argmax())
        raise UserError(
            f"column {name} must hold numbers, but {raw.place(row)} has the date or time "
            f"{str(cells[row])!r} ({int(dated.sum())} such values); put a number in its place, "
            "such as a year or days since a day, or name the column under data.keep only."
        )


def _refuse_text(raw: RawColumns, column: _Column, bad: _Mask, sign: str) -> None:
    """Refuse what is no number, with the cure that its look suggests."""
    if not bad.any():
        return
    _refuse_dates(
        raw, bad & _mask(pc.match_substring_regex(column.text, _DATE)), column.text, column.name
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


def _mask(found: "pa.Array") -> _Mask:
    """Return an array of truths without nulls."""
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)
