"""Columns of an own file as numbers, whichever decimal sign they were written with."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import compute as pc

from configs.errors import UserError
from configs.text_form import FormKeys
from fkd.core.arrays import Array
from tasks.data.decimal_signs import DecimalSigns
from tasks.data.own_cells import DATE, CellColumn, Mask, as_mask, cell_column, refuse_dates
from tasks.data.own_formats import RawColumns

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
