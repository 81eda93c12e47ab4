"""Raw columns of the rows that a problem keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from configs.data import DataConfig
from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.problems.labels import encode_labels
from fkd.problems.table import Table


@dataclass(frozen=True)
class Category:
    """A column of labels: codes, -1 for missing, into distinct labels."""

    codes: IntArray
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """Columns by name, with the count of rows that were read or dropped on the way."""

    numbers: Mapping[str, Array]
    categories: Mapping[str, Category]
    rows_read: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    read_as: str = ""
    """How the file's text was understood, where that had to be found out."""
    notes: tuple[str, ...] = ()
    """What a person should know of single columns."""


def merge(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts, in order; labels are put into one list."""
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
    """Return the parts below each other, coded by one sorted list of labels."""
    # Shift each part's codes behind those before it, then let equal labels share a code.
    starts = np.cumsum([0, *(len(part.labels) for part in parts)], axis=0)
    shifted = [
        np.where(part.codes < 0, -1, part.codes + start)
        for part, start in zip(parts, starts, strict=False)
    ]
    labels = [label for part in parts for label in part.labels]
    return Category(*encode_labels(np.concatenate(shifted, axis=0), labels))


def to_table(data: DataConfig, columns: Columns) -> tuple[Table, dict[str, str]]:
    """Return the table that a configuration asks for, with the inputs left out and why.

    Parameters
    ----------
    data
        Which columns are inputs, target, sensitive.
    columns
        The rows; a missing number is NaN.
    """
    problem = data.declaration
    if data.labels == "codes":
        columns = _with_codes(columns, problem.categorical)
        problem = problem.with_codes()
    numbers = {name: _filled(columns, name, problem.fills) for name in columns.numbers}
    codes = {name: category.codes for name, category in columns.categories.items()}
    # Constant in all rows: no fold can learn from it, and a report should say so once.
    numeric, flat_numbers = _varying(problem.numeric, numbers, data.drop)
    labelled, flat_labels = _varying(problem.categorical, codes, data.drop)
    n = len(numbers[problem.target])
    sensitive = data.sensitive_columns
    table = Table(
        numeric_names=tuple(numeric),
        numeric=_beside([numbers[name] for name in numeric], n),
        categorical_names=tuple(labelled),
        codes=_beside([codes[name] for name in labelled], n).astype(np.int32),
        levels=tuple(columns.categories[name].labels for name in labelled),
        target_name=problem.target,
        target=numbers[problem.target],
        sensitive_names=sensitive,
        sensitive=_beside([numbers[name] for name in sensitive], n),
        target_range=problem.fixed_range or _range(numbers[problem.target]),
        sensitive_range=np.array(
            [problem.fixed_range or _range(numbers[name]) for name in sensitive]
        ),
        extra={name: extra_column(columns, name) for name in problem.extra},
        fills={name: fill for name, fill in problem.fills.items() if name in numeric},
        gaps=tuple(numeric) if data.missing == "impute" else (),
    )
    left_out = dict.fromkeys(data.drop, "dropped by the configuration")
    constant = sorted(flat_numbers + flat_labels)
    return table, left_out | dict.fromkeys(constant, "constant in these rows")


def _range(values: Array) -> tuple[float, float]:
    """Return the smallest and the largest value of a column without missing values."""
    return float(values.min(axis=0)), float(values.max(axis=0))


def _varying(
    names: Sequence[str], values: Mapping[str, AnyArray], drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return which columns vary, which are constant, of those that are not dropped."""
    kept = [name for name in names if name not in drop]
    constant = [name for name in kept if len(np.unique(values[name])) == 1]
    return [name for name in kept if name not in constant], constant


def extra_column(columns: Columns, name: str) -> AnyArray:
    """Return a column that is no input: whole numbers as integers, labels as text."""
    if name in columns.numbers:
        values = columns.numbers[name]
        # Years and areas are compared and printed: 2018, not 2018.0.
        whole = np.isfinite(values).all() and (values == np.rint(values)).all()
        return values.astype(np.int64) if whole else values
    category = columns.categories[name]
    return np.array([*category.labels, ""], dtype=np.str_)[category.codes]


def _with_codes(columns: Columns, names: Sequence[str]) -> Columns:
    """Return the columns with labels as numbers too, NaN where a label is missing."""
    codes = {name: _codes(columns.categories[name], name) for name in names}
    # A number that is kept beside its label (an area, unique among states) stays what it is.
    return replace(columns, numbers={**codes, **columns.numbers})


def _codes(category: Category, name: str) -> Array:
    try:
        values = [float(label) for label in category.labels]
    except ValueError as error:
        raise ValueError(
            f"column {name} must have codes that are numbers for labels: codes, got "
            f"{category.labels[:3]}"
        ) from error
    return np.array([*values, np.nan])[category.codes]


def _filled(columns: Columns, name: str, fills: Mapping[str, float]) -> Array:
    """Return a numeric column with its missing values replaced where that is declared."""
    values = columns.numbers[name]
    return np.where(np.isnan(values), fills[name], values) if name in fills else values


def _beside(parts: Sequence[AnyArray], n: int) -> AnyArray:
    """Return columns as a matrix, (n, 0) if there are none."""
    return np.column_stack(parts) if parts else np.empty((n, 0))
