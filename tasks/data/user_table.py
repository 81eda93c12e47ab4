"""Tables of users: numbers in cells, the rows of a run or an audit, checks of values.

The decimal sign of a column follows from its cells. An ambiguous column is an error that names the
option to set.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from numpy.typing import NDArray
from pyarrow import compute as pc

from configs.data import AUTO, DataConfig, FileFormat
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values, shown_values
from fkd.core.validation import weight_vector
from fkd.problems.table import MISSING, Table, factorize_labels
from tasks.data.columns import Category, Columns
from tasks.data.table_formats import USUAL_WORDS, RawColumns, read_raw

Mask = NDArray[np.bool_]

# Labels per row above which a column is refused as an id, or gets a note.
_ID, MANY_LABELS = 0.9, 0.5
FEW_ROWS = 10
_MIN_ROWS = 30  # of an audit

# An integer, plain or in groups of three digits, with a fraction; or a fraction alone.
_NUMBER = r"^[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:%s\d{3})+)(?:%s\d*)?|%s\d+)(?:[eE][+-]?\d+)?$"
_POINT = _NUMBER % (",", r"\.", r"\.")
_COMMA = _NUMBER % (r"\.", ",", ",")
_INFINITE = r"^[+-]?(?i:inf|infinity)$"
DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:$|[ T])"


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
class DecimalSigns:
    """Infer decimal signs from cells. Blocks of rows are added in their order.

    Parameters
    ----------
    examples
        By column and by decimal sign, the first cell with that sign, and its position in the file.
        The sign "?" is that of ambiguous cells.
    ambiguous
        Number of ambiguous cells by column.
    """

    examples: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    ambiguous: dict[str, int] = field(default_factory=dict)

    def add(self, raw: RawColumns, column: CellColumn) -> None:
        """Add the cells of a column in one block of rows."""
        point, comma, name = column.point, column.comma, column.name
        ambiguous = point & comma & as_mask(pc.match_substring_regex(column.text, "[.,]"))
        if raw.lone_point:
            ambiguous &= as_mask(pc.match_substring(column.text, ","))
        examples = self.examples.setdefault(name, {})
        for sign, mask in {".": point & ~comma, ",": comma & ~point, "?": ambiguous}.items():
            if mask.any():
                row = int(mask.argmax())
                examples.setdefault(sign, (str(column.text[row].as_py()), raw.position(row)))
        self.ambiguous[name] = self.ambiguous.get(name, 0) + int(ambiguous.sum(axis=0))

    def decided(self, options: FileFormat) -> dict[str, str]:
        """Return the sign of every column: the option of the user, else the inferred one."""
        if options.decimal != AUTO:
            return dict.fromkeys(self.examples, options.decimal)
        signs = {}
        for name, seen in self.examples.items():
            if {".", ","} <= seen.keys():
                first, second = (f"{value!r} in {place}" for value, place in (seen["."], seen[","]))
                raise UserError(
                    f"column {name} must have one decimal sign, but holds {first} and {second}. "
                    "Use the same sign in all rows of the file."
                )
            signs[name] = "." if "." in seen else "," if "," in seen else ""
        # A column without a fraction follows the other columns if they agree.
        shown = set(signs.values()) - {""}
        common = shown.pop() if len(shown) == 1 else ""
        for name, seen in self.examples.items():
            if not (signs[name] or common) and "?" in seen:
                value, place = seen["?"]
                whole = value.replace(",", "").replace(".", "")
                raise UserError(
                    f"column {name} holds {value!r} in {place}, which may be {whole} or "
                    f"{value.replace(',', '.')} ({self.ambiguous[name]} such values). Set "
                    "data.decimal: comma or data.decimal: point."
                )
        return {name: sign or common or "." for name, sign in signs.items()}


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
        first = raw.position(int(infinite.argmax()))
        raise UserError(
            f"column {column.name} must hold finite numbers, got {int(infinite.sum(axis=0))} "
            f"infinite values, the first in {first}. Correct them in the file, or leave them empty."
        )
    readable = column.point if sign == "." else column.comma
    _refuse_text(raw, column, as_mask(pc.is_valid(column.text)) & ~readable, sign)
    plain = pc.replace_substring(column.text, "," if sign == "." else ".", "")
    plain = pc.replace_substring(pc.utf8_ltrim(plain, "+"), ",", ".")
    parsed = pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False)
    numbers: Array = np.where(np.isnan(column.numbers), parsed, column.numbers)
    # -999 means a missing value in every spelling: -999.0, -999,00.
    codes = pd.to_numeric(np.array(words, dtype=object), errors="coerce").astype(np.float64)
    return np.where(np.isin(numbers, codes), np.nan, numbers)


def _refuse_dates(raw: RawColumns, dated: Mask, cells: Any, name: str) -> None:
    """Raise UserError if a cell is a date."""
    if dated.any():
        row = int(dated.argmax())
        raise UserError(
            f"column {name} must hold numbers, but {raw.position(row)} has the date or time "
            f"{str(cells[row])!r} ({int(dated.sum())} such values). Replace it by a number, such "
            "as a year or the days since a day, or name the column under data.keep only."
        )


def _refuse_text(raw: RawColumns, column: CellColumn, bad: Mask, sign: str) -> None:
    """Raise UserError if a cell is no number, with a remedy that fits the cells."""
    if not bad.any():
        return
    dated = bad & as_mask(pc.match_substring_regex(column.text, DATE))
    _refuse_dates(raw, dated, column.text, column.name)
    found: list[str] = column.text.filter(pa.array(bad)).unique().to_pylist()
    count = int(bad.sum())
    present = int((bad | ~np.isnan(column.numbers) | column.point | column.comma).sum())
    other = column.comma if sign == "." else column.point
    if other[bad].all():
        remedy = "Set data.decimal: auto, or write one decimal sign in the file"
    elif len(found) > 3 and count > present / 2:
        remedy = (
            "If it holds labels, list it under data.categorical; a target or sensitive column must "
            "be coded as numbers in the file"
        )
    else:
        words = yaml.safe_dump(found[:3], default_flow_style=True, allow_unicode=True)
        remedy = (
            f"Set data.missing_words: {words.strip()} if they mean a missing value, or remove the "
            "unit in the file if they are numbers with a unit"
        )
    shown = ", ".join(map(repr, found[:3])) + (", ..." * (len(found) > 3))
    raise UserError(
        f"column {column.name} must hold numbers, but {raw.position(int(bad.argmax()))} has "
        f"{found[0]!r} ({count} of {present} values: {shown}). {remedy}."
    )


# The rows of a run


def table_path(data: DataConfig) -> Path:
    """Return the file of a configuration. A missing file is an error."""
    hint = " A relative path starts at the folder of the YAML file, or at the current folder."
    return _existing_file("data.path", data.path or "", hint)


def _existing_file(key: str, name: str, hint: str = "") -> Path:
    """Return the path of a table. A missing file is an error."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise UserError(
            f"{key} must be an existing CSV, TSV, Excel, Parquet or Feather file, got {name!r}, "
            f"which is {'a folder' if path.is_dir() else 'not there'}.{hint}"
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
    checked = numeric if data.missing == "drop" else dict.fromkeys(required)
    absent = {f"{name} missing": np.isnan(values[name]) for name in checked}
    kept, dropped = _complete_rows(str(path), absent, least=2)
    columns = Columns(
        numbers={
            **{name: frame[name].to_numpy(dtype=np.float64)[kept] for name in ordered},
            **{name: column[kept] for name, column in values.items()},
        },
        categories={name: Category(*factorize_labels(frame[name][kept])) for name in labels},
        rows_read=len(frame),
        dropped=dropped,
        read_as=", ".join(filter(None, (raw.read_as, commas))),
    )
    return replace(columns, notes=tuple(_notes(data, columns)))


def _complete_rows(
    path: str, reasons: Mapping[str, Mask], *, least: int
) -> tuple[Mask, dict[str, int]]:
    """Return the mask of rows without any reason to drop them, and the dropped rows by reason."""
    kept, dropped = np.ones_like(next(iter(reasons.values()))), {}
    for reason, mask in reasons.items():
        if count := int(np.count_nonzero(kept & mask)):
            dropped[reason] = count
        kept &= ~mask
    if kept.sum() < least:
        shown = ", ".join(f"{reason} in {count:,}" for reason, count in dropped.items())
        raise UserError(
            f"{path} must have at least {least} rows with every number, got {kept.sum()} of "
            f"{len(kept)}{f' ({shown})' if shown else ''}."
        )
    return kept, dropped


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
            low, high = data.ranges[name]
            found = np.unique(values[(values < low) | (values > high)])
            if len(found):
                raise UserError(
                    f"{data.path}: column {name} must be in [{shown_values((low, high))}] "
                    f"(data.ranges), got {shown_values(found)} in {_places(data, name, found)}. "
                    "Correct the file, list the values in data.missing_words if they mean missing "
                    "values, or widen the range."
                )
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


def _notes(data: DataConfig, kept: Columns) -> Iterator[str]:
    """Yield notes on the inputs of the kept rows. A column with one label per row is an error."""
    problem = data.declaration
    for name in problem.categorical:
        category = kept.categories[name]
        rows, labels = len(category.codes), len(category.labels)
        if rows < FEW_ROWS or labels <= MANY_LABELS * rows:
            continue
        found = f"column {name} has {labels:,} labels in {rows:,} rows"
        if labels > _ID * rows:
            raise UserError(
                f"{found}, like an id or a date, and cannot be learned from. Remove it from "
                "data.categorical. List a number, such as the year, under data.numeric."
            )
        yield f"{found}: most labels are too rare to learn from"
    for name in problem.numeric:
        if gaps := int(np.isnan(kept.numbers[name]).sum(axis=0)):
            yield (
                f"column {name}: {gaps:,} missing values, filled by the median of the training "
                "rows and marked in an additional column"
            )
    required = (problem.target, *data.sensitive_columns)
    inputs = (name for name in problem.numeric if name not in required)
    if lost := sum(kept.dropped.get(f"{name} missing", 0) for name in inputs):
        yield (
            f"{lost:,} rows were dropped because an input is missing; data.missing: impute keeps "
            "them"
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
    listed = ", ".join(raw.position(int(row)) for row in rows[:5])
    more = ", ..." if len(rows) > 5 else ""
    return f"{len(rows):,} row{'s' if len(rows) > 1 else ''} ({listed}{more})"


# Audits


@dataclass(frozen=True)
class PredictedColumns:
    """The columns of a file for an audit.

    Parameters
    ----------
    path
        The file.
    target, sensitive
        The true values, and the columns along which predictions are audited.
    prediction, other
        Columns of predictions. None: a model predicts, or nothing is compared.
    group_by
        Columns within whose groups dependence is measured too.
    inputs
        Columns that a model needs.
    weights
        Column of sample weights.
    numbers, labels
        The inputs that a model takes as numbers, and those that it takes as text.
    """

    path: str
    target: str
    sensitive: tuple[str, ...]
    prediction: str | None = None
    other: str | None = None
    group_by: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    weights: str | None = None
    numbers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictionFile:
    """The complete rows of a file, with counts of the rows that were read and dropped."""

    y_true: Array
    y_pred: Array
    sensitive: pd.DataFrame
    other: Array | None
    control: pd.DataFrame | None
    read: int
    dropped: dict[str, int] = field(default_factory=dict)
    weights: Array | None = None


def read_predicted(
    wanted: PredictedColumns, predict: Callable[[pd.DataFrame], Any] | None = None
) -> PredictionFile:
    """Return target, predictions and sensitive columns of the complete rows of a file.

    Parameters
    ----------
    wanted
        The columns of the file.
    predict
        A model, if the file has no predictions. It takes a frame of its inputs.
    """
    single = (wanted.prediction, wanted.other, wanted.weights)
    numeric = (wanted.target, *wanted.sensitive, *(name for name in single if name is not None))
    roles = (*numeric, *wanted.group_by)
    if twice := [name for name in roles if roles.count(name) > 1]:
        raise UserError(
            "a column must have one role among target, prediction, other, sensitive, group-by and "
            f"weights, got {twice[0]!r} twice."
        )
    if not wanted.sensitive:
        raise UserError("sensitive must name at least one column, got none.")
    raw = _read(wanted, numeric)
    names = tuple(dict.fromkeys((*numeric, *wanted.numbers)))
    numbers, _ = read_numbers(raw, names, FileFormat())
    missing = {f"{name} missing": np.isnan(numbers[name]) for name in numeric}
    if predict is None:
        y_pred = numbers[str(wanted.prediction)]
    else:
        y_pred = _predict(predict, wanted, raw.frame, numbers)
        missing["prediction missing"] = np.isnan(y_pred)
    missing |= {f"{name} missing": raw.frame[name].isna().to_numpy() for name in wanted.group_by}
    if wanted.weights is not None:
        weights = numbers[wanted.weights]
        try:
            weight_vector(weights, len(weights))
        except ValueError as error:
            raise UserError(
                f"column {wanted.weights} cannot be used as weights: {error}."
            ) from error
        missing[f"{wanted.weights} zero"] = weights == 0
    kept, dropped = _complete_rows(wanted.path, missing, least=_MIN_ROWS)
    index = raw.frame.index
    sensitive = pd.DataFrame({name: numbers[name] for name in wanted.sensitive}, index=index)
    return PredictionFile(
        y_true=numbers[wanted.target][kept],
        y_pred=y_pred[kept],
        sensitive=sensitive[kept],
        other=None if wanted.other is None else numbers[wanted.other][kept],
        control=raw.frame.loc[kept, list(wanted.group_by)] if wanted.group_by else None,
        read=len(kept),
        dropped=dropped,
        weights=None if wanted.weights is None else numbers[wanted.weights][kept],
    )


def _read(wanted: PredictedColumns, numeric: tuple[str, ...]) -> RawColumns:
    """Return the raw columns. The error for a missing input names the model."""
    path = _existing_file("the table", wanted.path)
    names = tuple(dict.fromkeys((*numeric, *wanted.group_by, *wanted.inputs)))
    # Columns of known type are read as text. The type of a group is inferred.
    text = {*numeric, *wanted.numbers, *wanted.labels} - {*wanted.group_by}
    try:
        return read_raw(path, FileFormat(), names, text)
    except UserError as error:
        for name in wanted.inputs:
            if f"got {name!r}" in str(error):
                raise UserError(
                    f"the model needs the column {name!r}, which {wanted.path} does not have. Add "
                    "it to the file, or audit a file with a column of predictions."
                ) from error
        raise


def _predict(
    predict: Callable[[pd.DataFrame], Any],
    wanted: PredictedColumns,
    frame: pd.DataFrame,
    numbers: dict[str, Array],
) -> Array:
    """Return the predictions of a model, one number per row."""
    inputs = frame[list(wanted.inputs)].copy()
    for name in wanted.inputs:
        if name in wanted.labels:
            inputs[name] = inputs[name].map(str, na_action="ignore")
        elif name in numbers:
            inputs[name] = numbers[name]
    found = np.asarray(predict(inputs), dtype=np.float64).reshape(-1)
    if len(found) != len(frame):
        raise UserError(
            f"the model must return one number for each of {len(frame)} rows, got {len(found)}. "
            "Audit a regression model, or a file with a column of predictions."
        )
    return found
