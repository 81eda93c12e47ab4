"""What the columns hold, held against what they may hold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from configs.data import DataConfig
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values, shown_values
from fkd.problems.table import Table
from tasks.data.columns import Category, Columns
from tasks.data.user_table import rows_holding


def column_report(columns: Columns) -> list[dict[str, Any]]:
    """Return one line per column: its kind, missing values, least, greatest, number of levels."""
    lines = [_numeric_line(name, values) for name, values in columns.numbers.items()]
    return lines + [_label_line(name, column) for name, column in columns.categories.items()]


def check_limits(columns: Columns, limits: Mapping[str, tuple[float, float]], *, file: str) -> None:
    """Raise UserError with every column that holds what it cannot hold.

    Parameters
    ----------
    columns
        The rows of one file.
    limits
        Least and greatest value by column; labels are judged by their number.
    file
        Named in the error.
    """
    # All faults at once: a wrong file shows in several columns, and that is the hint.
    faults = []
    for name, (low, high) in limits.items():
        values = _values(columns, name)
        bad = values[(values < low) | (values > high)]
        if len(bad):
            shown = ", ".join(f"{value:g}" for value in np.unique(bad)[:3])
            faults.append(f"{name} must lie in [{low:g}, {high:g}], got {shown} in {len(bad)} rows")
    if faults:
        raise UserError(
            f"{file} does not hold what its columns promise: {'; '.join(faults)}. It is damaged or "
            "of another layout; fetch it again, or check the year."
        )


def check_own_values(data: DataConfig, table: Table) -> None:
    """Raise UserError for a value outside its declared range or a code for a missing value.

    Codes are looked for in the target and the sensitive columns, which are scaled by their range,
    unless `data.ranges` declares the column.

    Parameters
    ----------
    data
        The configuration of an own table.
    table
        Its rows.
    """
    # The range of a sample is that of all rows, so that its ends belong to the column.
    names = (table.target_name, *table.sensitive_names)
    columns = (table.target, *table.sensitive.T)
    limits = (np.array(table.target_range), *table.sensitive_range)
    scaled = {
        name: np.append(values, ends[~np.isin(ends, values)])
        for name, values, ends in zip(names, columns, limits, strict=True)
    }
    inputs = dict(zip(table.numeric_names, table.numeric.T, strict=True))
    used = {**inputs, **scaled}
    for name, values in used.items():
        if name in data.ranges:
            _check_declared(data, name, values)
        elif name in scaled:
            _check_codes(data, name, used)


def _check_declared(data: DataConfig, name: str, values: Array) -> None:
    """Refuse values outside the declared range."""
    low, high = data.ranges[name]
    found = np.unique(values[(values < low) | (values > high)])
    if len(found):
        raise UserError(
            f"{data.path}: column {name} must lie in [{shown_values((low, high))}] (data.ranges), "
            f"got {shown_values(found)} in {rows_holding(data, name, found)}. Correct the file, "
            "list the values in data.missing_words if they stand for missing ones, or widen the "
            "range."
        )


def _check_codes(data: DataConfig, name: str, used: Mapping[str, Array]) -> None:
    """Refuse values that look like codes for a missing value."""
    values = used[name]
    found, rows = sentinel_values(values)
    if len(found):
        rest = np.delete(values, rows)
        others = [other for other in used if other != name and np.isin(used[other], found).any()]
        also = "; ".join(f"{other} in {rows_holding(data, other, found)}" for other in others[:3])
        ends = shown_values((values.min(), values.max()))
        words = ", ".join(shown_values([value]) for value in found)
        label = yaml.safe_dump(name, allow_unicode=True, width=10**6).removesuffix("...\n").strip()
        raise UserError(
            f"{data.path}: column {name} must not hold codes for missing values, got "
            f"{shown_values(found)} in {rows_holding(data, name, found)}, far from the other "
            f"values ({rest.min():g} to {rest.max():g}). Set data.missing_words: [{words}] to read "
            f"them as missing, or data.ranges: {{{label}: [{ends}]}} if they are real."
            + (f" missing_words applies to every column, also to {also}." if also else "")
        )


def report_text(report: list[dict[str, Any]]) -> str:
    """Return the report as an aligned table for people."""
    head = ("column", "kind", "missing", "least", "greatest", "levels")
    rows = [head, *(tuple(_shown(line.get(key)) for key in head) for line in report)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _values(columns: Columns, name: str) -> Array:
    """Return a column's numbers; a label's number is the label read as one."""
    if name in columns.numbers:
        return columns.numbers[name]
    if name not in columns.categories:
        return np.empty(0)
    column = columns.categories[name]
    # Labels of split classifications carry a prefix; they have no common range.
    numbers = [float(label) if _is_number(label) else np.nan for label in column.labels]
    return np.array([*numbers, np.nan])[column.codes]


def _is_number(label: str) -> bool:
    return label.lstrip("-").isdigit()


def _numeric_line(name: str, values: Array) -> dict[str, Any]:
    missing = np.isnan(values)
    present = values[~missing]
    line: dict[str, Any] = {"column": name, "kind": "number", "missing": int(missing.sum(axis=0))}
    if len(present):
        line |= {"least": float(present.min(axis=0)), "greatest": float(present.max(axis=0))}
    return line


def _label_line(name: str, column: Category) -> dict[str, Any]:
    missing = int((column.codes < 0).sum(axis=0))
    return {"column": name, "kind": "labels", "missing": missing, "levels": len(column.labels)}


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
