"""The cells of a column: numbers apart from text, dates refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from numbers import Number
from typing import Any, Union

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc

from configs.errors import UserError
from fkd.core.arrays import Array
from tasks.data.own_formats import USUAL_WORDS, RawColumns

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
