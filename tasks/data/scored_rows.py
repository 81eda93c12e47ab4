"""Predictions of a model for the rows of one piece of a table."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from configs.errors import UserError
from configs.text_form import AUTO, WrittenForm
from fkd.core.arrays import Array
from fkd.problems.bundle import Bundle, NonFinitePredictionError
from fkd.problems.labels import canonical_label
from tasks.adapters.model_files import RegisteredBundle
from tasks.data.decimal_signs import DecimalSigns
from tasks.data.own_blocks import FilePiece, RawBlock, read_blocks
from tasks.data.own_cells import cell_column
from tasks.data.own_numbers import read_numbers
from tasks.data.unfamiliar import Unfamiliar

MissingRule = Literal["refuse", "null"]
_FRACTION = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class ScoreJob:
    """One piece of a table to be scored.

    Parameters
    ----------
    piece
        Which rows.
    model
        By which model.
    form
        How the file is written.
    keep
        Columns that are copied to the result as they are.
    missing
        What becomes of a row that lacks a number which the model needs: a fault, or no prediction.
    """

    piece: FilePiece
    model: RegisteredBundle
    form: WrittenForm
    keep: tuple[str, ...] = ()
    missing: MissingRule = "refuse"


def score_piece(job: ScoreJob) -> tuple[list["pa.RecordBatch"], Unfamiliar]:
    """Return all predictions of a piece with what was unfamiliar in it."""
    batches, seen = [], Unfamiliar()
    for batch, found in score_blocks(job):
        batches.append(batch)
        seen = seen.merge(found)
    return batches, seen


def score_blocks(job: ScoreJob) -> Iterator[tuple["pa.RecordBatch", Unfamiliar]]:
    """Yield predictions beside the kept columns block by block, with what was unfamiliar."""
    bundle = _opened(job.model)
    numeric = (*bundle.encoder.numeric_names, *bundle.sensitive)
    # No other column is read: not the target, not a sensitive one that the model does without.
    names = tuple(dict.fromkeys((*bundle.input_columns, *job.keep)))
    signs = _signs(job, numeric)
    for block in _read(job, job.piece, names):
        values, _ = read_numbers(block.raw, numeric, job.form, signs)
        labels = {
            name: _spelt(_present(block.raw.frame[name], job.form.missing_words), known)
            for name, known in zip(
                bundle.encoder.categorical_names, bundle.encoder.levels, strict=True
            )
        }
        frame = pd.DataFrame({**values, **labels})
        lacking = _lacking(job, bundle, block, frame)
        prediction = np.full(len(frame), np.nan)
        if not lacking.all():
            prediction[~lacking] = _predicted(job, bundle, block, frame[~lacking])
        seen = replace(Unfamiliar.of(bundle, frame), unscored=_first_lacks(bundle, frame))
        yield _batch(block, job.keep, prediction, lacking), seen


def _predicted(job: ScoreJob, bundle: Bundle, block: RawBlock, frame: pd.DataFrame) -> Array:
    """Return the predictions of complete rows; name the first ones without a finite number."""
    try:
        return bundle.predict(frame)
    except NonFinitePredictionError as error:
        rows = [block.raw.place(int(frame.index[row])) for row in error.rows[:3]]
        raise UserError(
            f"{job.model.address} must predict a finite number for each row, got NaN or infinity "
            f"for {len(error.rows)} rows of {job.piece.path}, first {', '.join(rows)}. Check the "
            "inputs of these rows."
        ) from error


def _read(job: ScoreJob, piece: FilePiece, names: tuple[str, ...]) -> Iterator[RawBlock]:
    """Yield blocks of a piece; a column that the model needs in vain is told as such."""
    try:
        yield from read_blocks(piece, job.form, names)
    except UserError as error:
        for name in _opened(job.model).input_columns:
            if f"got {name!r}" in str(error):
                raise UserError(
                    f"{job.model.address} predicts from the column {name!r}, so {error}"
                ) from error
        raise


@lru_cache(maxsize=2)
def _opened(model: RegisteredBundle) -> Bundle:
    """Return the model, read once by each process."""
    return model.bundle()


def _signs(job: ScoreJob, numeric: tuple[str, ...]) -> dict[str, str]:
    """Return the decimal sign of each column, by all rows of the file where some are text."""
    asked = "." if job.form.decimal == AUTO else job.form.decimal
    signs: dict[str, str] = dict.fromkeys(numeric, asked)
    if job.form.decimal != AUTO or not numeric:
        return signs
    seen = DecimalSigns()
    for block in _read(job, FilePiece(job.piece.path), numeric):
        if not any(map(_is_text, block.cells.schema)):
            return signs
        for name in numeric:
            seen.add(block.raw, cell_column(block.raw, name, job.form.missing_words))
    return seen.decided(job.form)


def _is_text(column: "pa.Field") -> bool:
    kind = column.type
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def _present(column: "pd.Series[Any]", words: tuple[str, ...]) -> "pd.Series[Any]":
    """Return labels without the words that mean a missing one."""
    return column.replace(list(words), None) if words else column


def _spelt(column: "pd.Series[Any]", known: tuple[str, ...]) -> "pd.Series[Any]":
    """Return labels as training has spelt them: there 1.50 may have been read as the number 1.5."""
    changed = {
        value: str(float(value))
        for value in column.dropna().unique()
        if isinstance(value, str)
        and canonical_label(value) not in known
        and _FRACTION.fullmatch(value.strip())
    }
    return column.replace(changed) if changed else column


def _needed(bundle: Bundle) -> list[str]:
    """Return the numbers that every row must bring: those for which nothing was learnt to stand."""
    both = zip(bundle.encoder.numeric_names, bundle.encoder.fill, strict=True)
    return [*(name for name, fill in both if np.isnan(fill)), *bundle.sensitive]


def _lacking(
    job: ScoreJob, bundle: Bundle, block: RawBlock, frame: pd.DataFrame
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which rows cannot be scored, or refuse the first of them."""
    absent = frame[_needed(bundle)].isna()
    lacking = absent.any(axis=1).to_numpy(dtype=bool)
    if lacking.any() and job.missing == "refuse":
        row = int(lacking.argmax())
        name = absent.columns[int(absent.iloc[row].to_numpy().argmax())]
        raise UserError(
            f"column {name} must have a value in every row, since {job.model.address} has learnt "
            f"nothing that stands for a missing one, but {block.raw.place(row)} of "
            f"{job.piece.path} has none; fill it, or say --missing null: such rows then have no "
            "prediction."
        )
    return lacking


def _first_lacks(bundle: Bundle, frame: pd.DataFrame) -> Mapping[str, int]:
    """Return for want of which column rows have no prediction, each row counted once."""
    absent = frame[_needed(bundle)].isna()
    rows = absent.to_numpy()[absent.any(axis=1).to_numpy(dtype=bool)]
    if not len(rows):
        return {}
    counts = np.bincount(rows.argmax(axis=1), minlength=rows.shape[1])
    both = zip(absent.columns, counts.tolist(), strict=True)
    return {str(name): count for name, count in both if count}


def _batch(
    block: RawBlock,
    keep: tuple[str, ...],
    prediction: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    lacking: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
) -> "pa.RecordBatch":
    """Return kept columns with predictions, null where there is none."""
    columns = {name: block.cells[name].combine_chunks() for name in keep}
    columns["prediction"] = pa.array(prediction, mask=lacking)
    return pa.RecordBatch.from_pydict(columns)
