"""Read the file of an audit: the target, and predictions or the inputs of a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from configs.data import FileFormat
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.core.validation import weight_vector
from tasks.data.table_formats import RawColumns, read_raw
from tasks.data.user_table import read_numbers

_MIN_ROWS = 30


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
    kept = np.ones(len(raw.frame), dtype=bool)
    dropped = {}
    for reason, mask in missing.items():
        if count := int(np.count_nonzero(kept & mask)):
            dropped[reason] = count
        kept &= ~mask
    if kept.sum() < _MIN_ROWS:
        reasons = ", ".join(f"{reason} in {number:,}" for reason, number in dropped.items())
        raise UserError(
            f"{wanted.path} must have at least {_MIN_ROWS} rows with every number, got "
            f"{kept.sum()} of {len(kept)}{f' ({reasons})' if reasons else ''}."
        )
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
    path = Path(wanted.path).expanduser()
    if not path.is_file():
        raise UserError(
            "the table must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{wanted.path!r}, which is {'a folder' if path.is_dir() else 'not there'}."
        )
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
