"""Predict the rows of a table by a registered model, and report values it was not trained on."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from configs.data import AUTO, FileFormat
from configs.errors import UserError
from fkd import __version__
from fkd.core.arrays import Array
from fkd.problems.bundle import Bundle, NonFinitePredictionError
from fkd.problems.labels import MISSING, canonical_label, factorize_labels
from tasks.cluster.retries import run_jobs
from tasks.data.table_formats import FilePiece, RawBlock, pieces_of, read_blocks
from tasks.data.user_table import DecimalSigns, cell_column, read_numbers
from tasks.storage.files import try_lock
from tasks.track.registry import RegisteredBundle

_EXAMPLES = 3
LABELS_KEPT = 1000  # of a column; a table of any size may have one in every row


@dataclass(frozen=True)
class Outside:
    """Values of one column beyond those that were trained on."""

    below: int
    above: int
    least: float  # of the rows seen here
    greatest: float

    def merge(self, other: "Outside") -> "Outside":
        """Return what both together hold."""
        return Outside(
            self.below + other.below,
            self.above + other.above,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )


@dataclass(frozen=True)
class UnseenLabels:
    """How often labels of one column occur that no training row had, the frequent ones by name."""

    counts: Counter[str]
    further: int = 0  # rows with one that is not counted by name

    @property
    def rows(self) -> int:
        """How many rows have such a label."""
        return self.counts.total() + self.further

    def merge(self, other: "UnseenLabels") -> "UnseenLabels":
        """Return what both together hold, as many names as are kept."""
        counts = self.counts + other.counts
        kept = Counter(dict(counts.most_common(LABELS_KEPT)))
        return UnseenLabels(kept, self.further + other.further + counts.total() - kept.total())

    def listed(self) -> str:
        """Return the most frequent labels, with how many rows have others."""
        shown = self.counts.most_common(_EXAMPLES)
        words = [
            f"{label!r} {count:,} times" if label else f"a missing one {count:,} times"
            for label, count in shown
        ]
        more = self.rows - sum(count for _, count in shown)
        return ", ".join(words) + (f" and others {more:,} times" if more else "")


@dataclass(frozen=True)
class Unfamiliar:
    """Counts over rows; `merge` adds those of further rows.

    Parameters
    ----------
    rows
        How many rows were looked at.
    outside
        By numeric column, those that have values out of range.
    unseen
        By label column, those that have labels which no training row had.
    filled
        By numeric column, how many missing values the model fills.
    unscored
        By column, how many rows have no prediction for want of its value.
    """

    rows: int = 0
    outside: Mapping[str, Outside] = field(default_factory=dict)
    unseen: Mapping[str, UnseenLabels] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    unscored: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Bundle, frame: pd.DataFrame) -> Self:
        """Return the counts of some rows: numbers as floats, labels as they are.

        A missing value is neither low nor high; as a label it is one like any other.
        """
        encoder = bundle.encoder
        numbers = {name: frame[name].to_numpy() for name in encoder.numeric_names}
        filled = {
            name: int(np.isnan(numbers[name]).sum(axis=0))
            for name, fill in zip(encoder.numeric_names, encoder.fill, strict=True)
            if not np.isnan(fill)
        }
        return cls(
            rows=len(frame),
            outside={
                name: found
                for name, limits in zip(encoder.numeric_names, bundle.ranges, strict=True)
                if (found := _outside(numbers[name], *limits)) is not None
            },
            unseen={
                name: labels
                for name, known in zip(encoder.categorical_names, encoder.levels, strict=True)
                if (labels := _unseen(frame[name], known)).rows
            },
            filled={name: count for name, count in filled.items() if count},
        )

    def merge(self, other: "Unfamiliar") -> "Unfamiliar":
        """Return the counts of both, other rows following ours."""
        outside, unseen = dict(self.outside), dict(self.unseen)
        for name, found in other.outside.items():
            outside[name] = outside[name].merge(found) if name in outside else found
        for name, labels in other.unseen.items():
            unseen[name] = unseen[name].merge(labels) if name in unseen else labels
        return Unfamiliar(
            self.rows + other.rows,
            outside,
            unseen,
            Counter(self.filled) + Counter(other.filled),
            Counter(self.unscored) + Counter(other.unscored),
        )

    def told(self, bundle: Bundle) -> list[str]:
        """Return one sentence per column with something in it, with counts and shares of rows."""
        ranges = dict(zip(bundle.encoder.numeric_names, bundle.ranges, strict=True))
        found = [
            f"column {name}: {self._share(out.below + out.above)} outside the training range "
            f"{ranges[name][0]:g} to {ranges[name][1]:g} ({out.below:,} below, {out.above:,} "
            f"above; {out.least:g} to {out.greatest:g} here)"
            for name, out in self.outside.items()
        ]
        found += [
            f"column {name}: {self._share(labels.rows)} with a label that no training row had, "
            f"counted as none of the known ones: {labels.listed()}"
            for name, labels in self.unseen.items()
        ]
        found += [
            f"column {name}: {self._share(count)} without a value, filled as the model learnt it"
            for name, count in self.filled.items()
        ]
        found += [
            f"column {name}: {self._share(count)} without a value that the model needs, hence "
            "without a prediction"
            for name, count in self.unscored.items()
        ]
        return found

    def _share(self, count: int) -> str:
        """Return how many rows that is of all."""
        return f"{count:,} of {self.rows:,} rows ({count / self.rows:.2%})"


def _outside(values: Array, low: float, high: float) -> Outside | None:
    """Return what lies beyond the limits, None where nothing does."""
    below, above = int((values < low).sum(axis=0)), int((values > high).sum(axis=0))
    if not below + above:
        return None
    return Outside(below, above, float(np.nanmin(values)), float(np.nanmax(values)))


def _unseen(column: "pd.Series[str]", known: tuple[str, ...]) -> UnseenLabels:
    """Return how often which label occurs that is none of the known ones."""
    codes, labels = factorize_labels(column)
    counts = np.bincount(codes + 1, minlength=len(labels) + 1)  # the first one is missing
    both = zip((MISSING, *labels), counts.tolist(), strict=True)
    return UnseenLabels(
        Counter({label: count for label, count in both if count and label not in known})
    )


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
    form: FileFormat
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
        rows = [block.raw.position(int(frame.index[row])) for row in error.rows[:3]]
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
            f"nothing that stands for a missing one, but {block.raw.position(row)} of "
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


OWN_COLUMNS = ("prediction", "model", "bundle")
_PIECES_AT_ONCE = 16  # whose predictions are in memory while workers compute
_RETRIES, _TIME_LIMIT = 5, 3600.0

_Scored = Iterator[tuple[pa.RecordBatch, Unfamiliar]]


@dataclass(frozen=True)
class ScoreRequest:
    """What shall be scored, by what, into which file.

    Parameters
    ----------
    data
        A file, or a folder of files.
    out
        The Parquet file.
    model, form, keep, missing
        As in `ScoreJob`.
    """

    data: Path
    out: Path
    model: RegisteredBundle
    form: FileFormat
    keep: tuple[str, ...] = ()
    missing: MissingRule = "refuse"

    def jobs(self) -> list[ScoreJob]:
        """Return the jobs in the order of the rows."""
        return [
            ScoreJob(piece, self.model, self.form, self.keep, self.missing)
            for piece in pieces_of(self.data)
        ]


def check_request(data: Path, out: Path, keep: Sequence[str]) -> None:
    """Refuse what cannot be written, before anything is read."""
    if out.suffix.lower() != ".parquet":
        raise UserError(f"--out must end in .parquet, the form that is written, got {str(out)!r}.")
    if out.is_dir() or (out.exists() and data.exists() and out.samefile(data)):
        raise UserError(f"--out must be a file beside the data, got {str(out)!r}; name another.")
    if data.is_dir() and out.absolute().parent == data.absolute():
        raise UserError(
            f"--out must not lie in the folder that is scored, got {str(out)!r}: the next time it "
            "would be taken for data; name another folder."
        )
    for name in keep:
        if name in OWN_COLUMNS or list(keep).count(name) > 1:
            raise UserError(
                f"--keep must name columns beside {', '.join(OWN_COLUMNS)}, each once, got "
                f"{name!r}."
            )


def score_table(request: ScoreRequest, client: Any = None) -> Unfamiliar:
    """Return what was unfamiliar, once the file of predictions is whole.

    Parameters
    ----------
    request
        What to score.
    client
        Of a Dask cluster on which pieces are computed; in this process if None.
    """
    jobs = request.jobs()
    # One piece is gone through block by block: its result need not be in memory.
    scored = _here(jobs) if client is None or len(jobs) == 1 else _on_cluster(jobs, client)
    seen = Unfamiliar()
    with _whole(request.out) as part:
        writer = None
        try:
            for batch, found in scored:
                batch = _signed(batch, request.model)
                if writer is None:
                    writer = parquet.ParquetWriter(part, _schema(batch.schema, request.model))
                writer.write_batch(_like(batch, writer.schema, request.data))
                seen = seen.merge(found)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise UserError(f"{request.data} must have rows to be scored, got none.")
    return seen


def _here(jobs: Sequence[ScoreJob]) -> _Scored:
    for job in jobs:
        yield from score_blocks(job)


def _on_cluster(jobs: Sequence[ScoreJob], client: Any) -> _Scored:
    """Yield what workers compute in the order of the rows, some pieces at a time."""
    for start in range(0, len(jobs), _PIECES_AT_ONCE):
        wanted = jobs[start : start + _PIECES_AT_ONCE]
        found: dict[ScoreJob, tuple[list[pa.RecordBatch], Unfamiliar]] = {}
        failed = run_jobs(
            client,
            score_piece,
            wanted,
            retries=_RETRIES,
            time_limit=_TIME_LIMIT,
            keep=found.__setitem__,
        )
        if failed:
            raise UserError(
                f"{failed[0].job.piece.path} cannot be scored on the cluster: {failed[0].cause}; "
                "workers need the same files and the same FKD_HOME."
            )
        for job in wanted:
            batches, seen = found.pop(job)
            for batch in batches:
                # What was unfamiliar is told of the whole piece, with its first block.
                yield batch, seen
                seen = Unfamiliar()


def _signed(batch: "pa.RecordBatch", model: RegisteredBundle) -> "pa.RecordBatch":
    """Return the rows with what predicted them; a value that is everywhere takes no room."""
    for name, value in (("model", f"{model.name}/{model.version}"), ("bundle", model.digest)):
        codes = pa.array([0] * batch.num_rows, pa.int32())
        batch = batch.append_column(name, pa.DictionaryArray.from_arrays(codes, [value]))
    return batch


def _schema(schema: "pa.Schema", model: RegisteredBundle) -> "pa.Schema":
    """Return the schema of the file, which says by which model it was made."""
    return schema.with_metadata(
        {
            "fkd.model": model.name,
            "fkd.model_version": str(model.version),
            "fkd.bundle": model.digest,
            "fkd.version": __version__,
        }
    )


def _like(batch: "pa.RecordBatch", schema: "pa.Schema", data: Path) -> "pa.RecordBatch":
    """Return rows in the types of the first ones: the files of a folder may differ."""
    try:
        return batch.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise UserError(
            f"the files of {data} must have kept columns of the same types, but {error}; write "
            "them alike, or leave the column out of --keep."
        ) from error


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield where to write; the file gets its name once it is on the disk as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    part = path.parent / f"{_prefix(path)}{uuid4().hex}.part"
    try:
        with part.open("xb") as file:
            try_lock(file)  # to the end: what nobody holds was left by a writer that is gone
            yield part
            os.fsync(file.fileno())
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sweep(path: Path) -> None:
    """Remove what killed writers of the same file have left."""
    for part in path.parent.glob(f"{_prefix(path)}*.part"):
        with part.open("r+b") as file:
            if try_lock(file):
                part.unlink()


def _prefix(path: Path) -> str:
    return f".{path.name[:40]}."
