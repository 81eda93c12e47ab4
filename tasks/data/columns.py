"""Raw columns of a data set: merge them, check them, turn them into a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from configs.data import DataConfig
from configs.errors import UserError
from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.problems.table import Table, encode_labels


@dataclass(frozen=True)
class Category:
    """A categorical column: codes into distinct labels, -1 for a missing value."""

    codes: IntArray
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """Columns by name, with counts of the rows that were read and dropped.

    Parameters
    ----------
    numbers
        Numeric columns. A missing value is NaN.
    categories
        Categorical columns.
    rows_read
        Number of rows in the files.
    dropped
        Number of dropped rows by reason.
    read_as
        The detected format of a text file.
    notes
        Sentences on columns or files for the user.
    """

    numbers: Mapping[str, Array]
    categories: Mapping[str, Category]
    rows_read: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    read_as: str = ""
    notes: tuple[str, ...] = ()


def merge(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts in order, with one list of labels per column."""
    if len(parts) == 1:
        return parts[0]
    reasons = dict.fromkeys(reason for part in parts for reason in part.dropped)
    return Columns(
        numbers={
            name: np.concatenate([part.numbers[name] for part in parts], axis=0)
            for name in parts[0].numbers
        },
        categories={
            name: merge_categories([part.categories[name] for part in parts])
            for name in parts[0].categories
        },
        rows_read=sum(part.rows_read for part in parts),
        dropped={reason: sum(part.dropped.get(reason, 0) for part in parts) for reason in reasons},
    )


def merge_categories(parts: Sequence[Category]) -> Category:
    """Return the rows of all parts in order, coded by one sorted list of labels."""
    # Concatenate the lists of labels, then give equal labels the same code.
    starts = np.cumsum([0, *(len(part.labels) for part in parts)], axis=0)
    shifted = [
        np.where(part.codes < 0, -1, part.codes + start)
        for part, start in zip(parts, starts, strict=False)
    ]
    labels = [label for part in parts for label in part.labels]
    return Category(*encode_labels(np.concatenate(shifted, axis=0), labels))


def to_table(data: DataConfig, columns: Columns) -> tuple[Table, dict[str, str]]:
    """Return the table of a configuration, and the reason for each column that is no input.

    Parameters
    ----------
    data
        Names the inputs, the target and the sensitive columns.
    columns
        The rows.
    """
    problem = data.declaration
    if data.labels == "codes":
        numbers = {name: _label_numbers(columns.categories[name]) for name in problem.categorical}
        for name, values in numbers.items():
            category = columns.categories[name]
            if (np.isnan(values) & (category.codes >= 0)).any():
                raise ValueError(
                    f"column {name} must have codes that are numbers for labels: codes, got "
                    f"{category.labels[:3]}"
                )
        # A number that is kept beside its label (an area, unique among states) stays as it is.
        columns = replace(columns, numbers={**numbers, **columns.numbers})
        problem = problem.with_codes()
    numbers = dict(columns.numbers)
    for name in problem.fills.keys() & numbers.keys():
        numbers[name] = np.where(np.isnan(numbers[name]), problem.fills[name], numbers[name])
    codes = {name: category.codes for name, category in columns.categories.items()}
    # A column that is constant in all rows is removed once here, not in every fold.
    by_name: dict[str, AnyArray] = {**codes, **{name: numbers[name] for name in problem.numeric}}
    inputs = [name for name in problem.predictors if name not in data.drop]
    constant = {name for name in inputs if len(np.unique(by_name[name])) == 1}
    numeric = [n for n in problem.numeric if n in inputs and n not in constant]
    categorical = [n for n in problem.categorical if n in inputs and n not in constant]
    target, sensitive = numbers[problem.target], data.sensitive_columns
    n = len(target)

    def ends(values: Array) -> tuple[float, float]:
        return problem.fixed_range or (float(values.min(axis=0)), float(values.max(axis=0)))

    table = Table(
        numeric_names=tuple(numeric),
        numeric=_matrix([numbers[name] for name in numeric], n),
        categorical_names=tuple(categorical),
        codes=_matrix([codes[name] for name in categorical], n).astype(np.int32),
        levels=tuple(columns.categories[name].labels for name in categorical),
        target_name=problem.target,
        target=target,
        sensitive_names=sensitive,
        sensitive=_matrix([numbers[name] for name in sensitive], n),
        target_range=ends(target),
        sensitive_range=np.array([ends(numbers[name]) for name in sensitive]),
        extra={name: _extra_column(columns, name) for name in problem.extra},
        fills={name: fill for name, fill in problem.fills.items() if name in numeric},
        gaps=tuple(numeric) if data.missing == "impute" else (),
    )
    left_out = dict.fromkeys(data.drop, "dropped by the configuration")
    return table, left_out | dict.fromkeys(sorted(constant), "constant in these rows")


def check_limits(columns: Columns, limits: Mapping[str, tuple[float, float]], *, file: str) -> None:
    """Raise UserError if a value is outside its possible range.

    Parameters
    ----------
    columns
        The rows of one file.
    limits
        Smallest and largest possible value by column. Labels are compared as numbers.
    file
        Name of the file for the error.
    """
    # All faults in one error: a wrong file shows in several columns.
    faults = []
    for name, (low, high) in limits.items():
        if name in columns.numbers:
            values = columns.numbers[name]
        elif name in columns.categories:
            values = _label_numbers(columns.categories[name])
        else:
            continue
        bad = values[(values < low) | (values > high)]
        if len(bad):
            shown = ", ".join(f"{value:g}" for value in np.unique(bad)[:3])
            faults.append(f"{name} must be in [{low:g}, {high:g}], got {shown} in {len(bad)} rows")
    if faults:
        raise UserError(
            f"{file} has values outside their possible range: {'; '.join(faults)}. The file is "
            "damaged or has another layout. Fetch it again, or check the year."
        )


def column_report(columns: Columns) -> list[dict[str, Any]]:
    """Return one entry per column: kind, missing values, smallest and largest value, levels."""
    report: list[dict[str, Any]] = []
    for name, values in columns.numbers.items():
        present = values[~np.isnan(values)]
        missing = len(values) - len(present)
        report.append({"column": name, "kind": "number", "missing": missing})
        if len(present):
            report[-1] |= {"least": float(present.min()), "greatest": float(present.max())}
    for name, category in columns.categories.items():
        missing = int((category.codes < 0).sum(axis=0))
        levels = len(category.labels)
        report.append({"column": name, "kind": "labels", "missing": missing, "levels": levels})
    return report


def report_text(report: Sequence[Mapping[str, Any]]) -> str:
    """Return a column report as an aligned text table."""

    def cell(value: Any) -> str:
        return f"{value:.10g}" if isinstance(value, float) else str(value)

    head = ("column", "kind", "missing", "least", "greatest", "levels")
    rows = [head, *(tuple(cell(line.get(key, "")) for key in head) for line in report)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _matrix(parts: Sequence[AnyArray], n: int) -> AnyArray:
    """Return columns as a matrix, (n, 0) if there are none."""
    return np.column_stack(parts) if parts else np.empty((n, 0))


def _extra_column(columns: Columns, name: str) -> AnyArray:
    """Return a column that is no input: whole numbers as integers, labels as text."""
    if name in columns.numbers:
        values = columns.numbers[name]
        # Years and areas are compared and printed: 2018, not 2018.0.
        whole = np.isfinite(values).all() and (values == np.rint(values)).all()
        return values.astype(np.int64) if whole else values
    category = columns.categories[name]
    return np.array([*category.labels, ""], dtype=np.str_)[category.codes]


def _label_numbers(column: Category) -> Array:
    """Return the labels of a column as numbers, NaN for other labels and missing values."""
    # Labels of split classifications have a prefix and no common range.
    numbers = pd.to_numeric(np.array(column.labels, dtype=object), errors="coerce")
    return np.append(numbers.astype(np.float64), np.nan)[column.codes]
