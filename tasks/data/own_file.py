"""The rows of a user's own file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from configs.data import DataConfig
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.problems.labels import factorize_labels
from tasks.data.columns import Category, Columns
from tasks.data.own_formats import read_raw
from tasks.data.own_numbers import read_numbers

# Labels per row from which a column is taken for an id, or at least worth a word.
_ID, MANY_LABELS = 0.9, 0.5
FEW_ROWS = 10
_MOST_SHOWN = 5


def own_path(data: DataConfig) -> Path:
    """Return the file that the configuration names, if it is there."""
    path = Path(data.path or "").expanduser()
    if not path.is_file():
        raise UserError(
            f"data.path must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{data.path!r}, which is {'a folder' if path.is_dir() else 'not there'}; a relative "
            "path is looked for beside the YAML file that names it, then in the current folder."
        )
    return path


def read_own_file(data: DataConfig) -> Columns:
    """Return the named columns, without rows that lack a number which they need.

    Parameters
    ----------
    data
        Path with the names of target, sensitive, numeric, categorical, kept columns.
    """
    problem = data.declaration
    path = own_path(data)
    numeric = tuple(dict.fromkeys((problem.target, *data.sensitive_columns, *problem.numeric)))
    named = tuple(dict.fromkeys((*numeric, *problem.categorical, *problem.extra)))
    raw = read_raw(path, data, named, numeric)
    values, decimals = read_numbers(raw, numeric, data)
    frame = raw.frame.replace(list(data.missing_words), None) if data.missing_words else raw.frame
    # Times and groups keep their order as numbers where they are numbers in every row.
    kept_apart = [name for name in problem.extra if name not in values]
    ordered = [name for name in kept_apart if _is_complete_number(frame[name])]
    labels = [*problem.categorical, *(name for name in kept_apart if name not in ordered)]
    required = (problem.target, *data.sensitive_columns)
    kept, dropped = _complete(values, numeric if data.missing == "drop" else required)
    _check_rows(path, len(frame), int(kept.sum(axis=0)), dropped)
    categories = {name: Category(*factorize_labels(frame[name][kept])) for name in labels}
    return Columns(
        numbers={
            **{name: frame[name].to_numpy(dtype=np.float64)[kept] for name in ordered},
            **{name: column[kept] for name, column in values.items()},
        },
        categories=categories,
        rows_read=len(frame),
        dropped=dropped,
        read_as=", ".join(filter(None, (raw.told, decimals))),
        notes=(
            *_label_notes({name: categories[name] for name in problem.categorical}),
            *_gap_notes({name: values[name][kept] for name in problem.numeric}),
            *_drop_notes(dropped, problem.numeric, required),
        ),
    )


def rows_holding(data: DataConfig, name: str, values: Array) -> str:
    """Return which rows of the file hold one of these values in a column: count, first few."""
    raw = read_raw(own_path(data), data, (name,), (name,))
    numbers, _ = read_numbers(raw, (name,), data)
    rows = np.flatnonzero(np.isin(numbers[name], values))
    listed = ", ".join(raw.place(int(row)) for row in rows[:_MOST_SHOWN])
    more = ", ..." if len(rows) > _MOST_SHOWN else ""
    return f"{len(rows):,} row{'s' if len(rows) > 1 else ''} ({listed}{more})"


def _complete(
    values: Mapping[str, Array], required: Sequence[str]
) -> tuple["np.ndarray[tuple[int], np.dtype[np.bool_]]", dict[str, int]]:
    """Return which rows have every required number, how many do not and for want of which."""
    kept = np.ones(len(values[required[0]]), dtype=bool)
    dropped: dict[str, int] = {}
    for name in dict.fromkeys(required):
        absent = kept & np.isnan(values[name])
        dropped[f"{name} missing"] = int(absent.sum(axis=0))
        kept &= ~absent
    return kept, dropped


def _check_rows(path: Path, read: int, kept: int, dropped: Mapping[str, int]) -> None:
    """Refuse a file that leaves nothing to compare."""
    if kept >= 2:
        return
    why = ", ".join(f"{count} with {reason}" for reason, count in dropped.items() if count)
    raise UserError(
        f"{path} must have at least two rows with every number present, got "
        f"{kept or 'none'} of {read}{f' ({why})' if why else ''}; a model is fitted on some rows "
        "and tested on others."
    )


def _label_notes(categories: Mapping[str, Category]) -> list[str]:
    """Return a word on columns of very many labels; refuse those that have one per row."""
    notes = []
    for name, category in categories.items():
        rows, labels = len(category.codes), len(category.labels)
        if rows < FEW_ROWS or labels <= MANY_LABELS * rows:
            continue
        if labels > _ID * rows:
            raise UserError(
                f"column {name} has {labels:,} labels in {rows:,} rows, nearly one of its own for "
                "each, as ids and dates have: nothing can be learnt from it; take it out of "
                "data.categorical (a number, such as the year of a date, belongs under "
                "data.numeric)."
            )
        notes.append(
            f"column {name} has {labels:,} labels in {rows:,} rows: most are too rare to learn from"
        )
    return notes


def _gap_notes(values: Mapping[str, Array]) -> list[str]:
    """Return which inputs have gaps that will be filled."""
    gaps = {name: int(np.isnan(column).sum(axis=0)) for name, column in values.items()}
    return [
        f"column {name}: {count:,} missing values, filled by the median of the training rows and "
        "marked in a column of their own"
        for name, count in gaps.items()
        if count
    ]


def _drop_notes(
    dropped: Mapping[str, int], inputs: Sequence[str], required: Sequence[str]
) -> list[str]:
    """Return how to keep rows that lack nothing but an input."""
    lost = sum(dropped.get(f"{name} missing", 0) for name in inputs if name not in required)
    if not lost:
        return []
    return [
        f"{lost:,} of the dropped rows lack only numbers among the inputs: data.missing: impute "
        "keeps them"
    ]


def _is_complete_number(column: "pd.Series[float]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not column.isna().any()
