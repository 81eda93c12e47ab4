"""A file of predictions beside the truth, or of rows that a model shall predict."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from configs.data import DataConfig
from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.core.validation import weight_vector
from tasks.data.table_formats import RawColumns, read_numbers, read_raw
from tasks.data.user_table import own_path

_FEWEST = 30


@dataclass(frozen=True)
class PredictedColumns:
    """Which columns of a file are what.

    Parameters
    ----------
    path
        Any file that a run reads too.
    target, sensitive
        The truth; the columns to follow predictions along.
    prediction, other
        Columns of predictions; None where a model predicts, or where nothing is compared.
    group_by
        Legitimate columns.
    inputs
        Columns that a model needs.
    weights
        The column that says how much each row counts; None where all count alike.
    numbers, labels
        The inputs that a model takes as numbers, those that it takes as text.
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
    """The rows that have every number, with what was left out on the way."""

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
    """Return truth, predictions, sensitive columns of a file, without rows that lack a number.

    Parameters
    ----------
    wanted
        Which columns are what.
    predict
        A model from a frame of its inputs to predictions, where the file holds none.
    """
    numeric = _numeric(wanted)
    data = _as_data(wanted, numeric)
    named = tuple(dict.fromkeys((*numeric, *wanted.group_by, *wanted.inputs)))
    numbers = tuple(dict.fromkeys((*numeric, *wanted.numbers)))
    # What becomes a number or stays text is not guessed by the reader; a group may be either.
    as_text = {*numbers, *wanted.labels} - {*wanted.group_by}
    raw = _read(wanted, data, named, as_text)
    read, _ = read_numbers(raw, numbers, data)
    values = {name: read[name] for name in numeric}
    if predict is not None:
        values["\0prediction"] = _predicted(predict, _inputs(wanted, raw.frame, read))
    if wanted.weights is not None:
        _require_weights(wanted.weights, values[wanted.weights])
    frame, dropped = _complete(pd.DataFrame(values), raw.frame, wanted)
    if len(frame) < _FEWEST:
        raise UserError(
            f"{wanted.path} must have at least {_FEWEST} rows with every number, got {len(frame)} "
            f"of {len(raw.frame)}{_lacking(dropped)}; measures of fewer say nothing."
        )
    control = raw.frame.loc[frame.index, list(wanted.group_by)] if wanted.group_by else None
    return PredictionFile(
        frame[wanted.target].to_numpy(),
        frame[wanted.prediction or "\0prediction"].to_numpy(),
        frame[list(wanted.sensitive)],
        None if wanted.other is None else frame[wanted.other].to_numpy(),
        control,
        len(raw.frame),
        dropped,
        None if wanted.weights is None else frame[wanted.weights].to_numpy(),
    )


def _read(
    wanted: PredictedColumns, data: DataConfig, named: Sequence[str], as_text: Collection[str]
) -> RawColumns:
    """Return the raw columns; one that a model needs in vain is told as such."""
    if not Path(wanted.path).expanduser().exists():
        raise UserError(
            f"the table must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{wanted.path!r}, which is not there; check the name and the current folder."
        )
    try:
        return read_raw(own_path(data), data, named, as_text)
    except UserError as error:
        for name in wanted.inputs:
            if f"got {name!r}" in str(error):
                raise UserError(
                    f"the model needs the column {name!r} to predict, which {wanted.path} lacks; "
                    "add it to the file, or audit a file with a column of predictions."
                ) from error
        raise


def _numeric(wanted: PredictedColumns) -> tuple[str, ...]:
    """Return the columns that must be numbers, each once; refuse one in two places."""
    columns = [wanted.target, *wanted.sensitive]
    others = (wanted.prediction, wanted.other, wanted.weights)
    columns += [name for name in others if name is not None]
    for name in dict.fromkeys((*columns, *wanted.group_by)):
        if (*columns, *wanted.group_by).count(name) > 1:
            raise UserError(
                f"a column can be one of target, prediction, other, sensitive, group-by or "
                f"weights, got {name!r} twice; name another."
            )
    return tuple(columns)


def _as_data(wanted: PredictedColumns, numeric: Sequence[str]) -> DataConfig:
    """Return the file as a run's configuration names it, for the readers of such files."""
    inputs = [name for name in numeric if name not in (wanted.target, *wanted.sensitive)]
    tree = {
        "problem": "table",
        "path": wanted.path,
        "target": wanted.target,
        "sensitive": list(wanted.sensitive),
        # A table must have inputs; where a model predicts, the sensitive columns do.
        "numeric": inputs or list(wanted.sensitive),
    }
    try:
        return DataConfig.model_validate(tree)
    except ValidationError as error:
        told = "; ".join(fault["msg"].removeprefix("Value error, ") for fault in error.errors())
        raise UserError(f"{told}.") from error


def _inputs(wanted: PredictedColumns, raw: pd.DataFrame, read: Mapping[str, Array]) -> pd.DataFrame:
    """Return what a model is given: numbers as such, labels as the file spells them."""
    frame = raw[list(wanted.inputs)].copy()
    for name in frame:
        if name in wanted.labels:
            frame[name] = frame[name].map(str, na_action="ignore")
        elif name in read:
            frame[name] = read[str(name)]
    return frame


def _predicted(predict: Callable[[pd.DataFrame], Any], frame: pd.DataFrame) -> Array:
    """Return a model's predictions of all rows, one number each."""
    found = np.asarray(predict(frame), dtype=np.float64).reshape(-1)
    if len(found) != len(frame):
        raise UserError(
            f"the model must give one number for each of {len(frame)} rows, got {len(found)}; "
            "audit a regression model, or a file with a column of predictions."
        )
    return found


def _require_weights(name: str, column: Array) -> None:
    """Refuse weights of the file that weigh nothing, or not every row."""
    try:
        weight_vector(column, len(column))
    except ValueError as error:
        raise UserError(f"the column of weights, {name!r}, cannot be used: {error}.") from error


def _lacking(dropped: Mapping[str, int]) -> str:
    """Return what the rows that were left out lack, in brackets."""
    told = ", ".join(f"{reason} in {number:,}" for reason, number in dropped.items())
    return f" ({told})" if told else ""


def _complete(
    values: pd.DataFrame, raw: pd.DataFrame, wanted: PredictedColumns
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows that lack nothing, how many lacked what."""
    dropped: dict[str, int] = {}
    kept = np.ones(len(values), dtype=bool)
    for name in (*values.columns, *wanted.group_by):
        column = values[name] if name in values else raw[name]
        lacking = kept & column.isna().to_numpy()
        if lacking.any():
            dropped[f"{name.strip(chr(0))} missing"] = int(lacking.sum(axis=0))
        kept &= ~lacking
    if wanted.weights is not None:
        idle = kept & (values[wanted.weights] == 0).to_numpy()
        if idle.any():
            dropped[f"{wanted.weights} zero"] = int(idle.sum(axis=0))
        kept &= ~idle
    return values[kept], dropped
