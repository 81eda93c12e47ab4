"""What the columns hold, held against what they may hold."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from configs.errors import UserError
from fkd.core.arrays import Array
from tasks.data.columns import Category, Columns


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
