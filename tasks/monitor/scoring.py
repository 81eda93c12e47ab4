"""Predict the rows of a table with a registered model, and count values unknown to the model."""

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from fkd.problems.table import MISSING, canonical_label, factorize_labels
from tasks.data.table_formats import FilePiece, RawBlock, pieces_of, read_blocks
from tasks.data.user_table import DecimalSigns, cell_column, read_numbers
from tasks.storage.files import try_lock
from tasks.track.registry import RegisteredBundle

LABELS_KEPT = 1000  # of a column; a large table may have another label in every row
OWN_COLUMNS = ("prediction", "model", "bundle")
_EXAMPLES = 3
_FRACTION = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_PIECES_AT_ONCE = 16  # whose predictions are in memory while workers compute
_RETRIES, _TIME_LIMIT = 5, 3600.0

MissingRule = Literal["refuse", "null"]
_Scored = Iterator[tuple[pa.RecordBatch, "OutOfRange"]]


@dataclass(frozen=True)
class Outside:
    """Numbers of rows below and above a training range, with the extreme values of all rows."""

    below: int
    above: int
    least: float
    greatest: float

    def merge(self, other: "Outside") -> "Outside":
        """Return the counts of both."""
        return Outside(
            self.below + other.below,
            self.above + other.above,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )


@dataclass(frozen=True)
class UnseenLabels:
    """Counts of labels that no training row had; `further` rows have less frequent ones."""

    counts: Counter[str]
    further: int = 0

    @property
    def rows(self) -> int:
        """The number of rows with such a label."""
        return self.counts.total() + self.further

    def merge(self, other: "UnseenLabels") -> "UnseenLabels":
        """Return the counts of both, for at most LABELS_KEPT labels."""
        counts = self.counts + other.counts
        kept = Counter(dict(counts.most_common(LABELS_KEPT)))
        return UnseenLabels(kept, self.further + other.further + counts.total() - kept.total())

    def examples(self) -> str:
        """Return the most frequent labels, and the number of rows with others."""
        shown = self.counts.most_common(_EXAMPLES)
        texts = [
            f"{label!r} {count:,} times" if label else f"a missing one {count:,} times"
            for label, count in shown
        ]
        more = self.rows - sum(count for _, count in shown)
        return ", ".join(texts) + (f" and others {more:,} times" if more else "")


@dataclass(frozen=True)
class OutOfRange:
    """Counts of values that the training rows of a model did not have.

    Parameters
    ----------
    rows
        The number of rows.
    outside
        Values outside the training range, by numeric column.
    unseen
        Labels that no training row had, by label column.
    filled
        The number of missing values that the model fills, by numeric column.
    unscored
        The number of rows without a prediction because a value is missing, by column.
    """

    rows: int = 0
    outside: Mapping[str, Outside] = field(default_factory=dict)
    unseen: Mapping[str, UnseenLabels] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    unscored: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, bundle: Bundle, frame: pd.DataFrame) -> Self:
        """Return the counts of some rows. A missing value is not outside; a missing label counts.

        Parameters
        ----------
        bundle
            The model.
        frame
            Numbers as floats, labels as in the file.
        """
        encoder = bundle.encoder
        outside, unseen, filled = {}, {}, {}
        numeric = zip(encoder.numeric_names, bundle.ranges, encoder.fill, strict=True)
        for name, (low, high), fill in numeric:
            values = frame[name].to_numpy()
            below, above = int((values < low).sum(axis=0)), int((values > high).sum(axis=0))
            if below + above:
                extremes = float(np.nanmin(values)), float(np.nanmax(values))
                outside[name] = Outside(below, above, *extremes)
            missing = int(np.isnan(values).sum(axis=0))
            if missing and not np.isnan(fill):
                filled[name] = missing
        for name, known in zip(encoder.categorical_names, encoder.levels, strict=True):
            codes, labels = factorize_labels(frame[name])
            counts = np.bincount(codes + 1, minlength=len(labels) + 1)  # the first is missing
            pairs = zip((MISSING, *labels), counts.tolist(), strict=True)
            new = Counter({label: n for label, n in pairs if n and label not in known})
            if new:
                unseen[name] = UnseenLabels(new)
        # A row counts for the first column that is missing.
        absent = _absent_values(bundle, frame)
        first = absent.idxmax(axis=1)[absent.any(axis=1)] if len(absent.columns) else ()
        return cls(len(frame), outside, unseen, filled, dict(Counter(first)))

    def merge(self, other: "OutOfRange") -> "OutOfRange":
        """Return the counts of both, whose rows are different."""
        outside, unseen = dict(self.outside), dict(self.unseen)
        for name, found in other.outside.items():
            outside[name] = outside[name].merge(found) if name in outside else found
        for name, labels in other.unseen.items():
            unseen[name] = unseen[name].merge(labels) if name in unseen else labels
        return OutOfRange(
            self.rows + other.rows,
            outside,
            unseen,
            Counter(self.filled) + Counter(other.filled),
            Counter(self.unscored) + Counter(other.unscored),
        )

    def messages(self, bundle: Bundle) -> list[str]:
        """Return one sentence per column and kind of value, with counts and shares of rows."""

        def share(count: int) -> str:
            return f"{count:,} of {self.rows:,} rows ({count / self.rows:.2%})"

        ranges = dict(zip(bundle.encoder.numeric_names, bundle.ranges, strict=True))
        return [
            *(
                f"column {name}: {share(out.below + out.above)} outside the training range "
                f"{ranges[name][0]:g} to {ranges[name][1]:g} ({out.below:,} below, {out.above:,} "
                f"above; {out.least:g} to {out.greatest:g} here)"
                for name, out in self.outside.items()
            ),
            *(
                f"column {name}: {share(labels.rows)} with a label that no training row had, "
                f"treated as none of the known labels: {labels.examples()}"
                for name, labels in self.unseen.items()
            ),
            *(
                f"column {name}: {share(count)} without a value, filled by the model"
                for name, count in self.filled.items()
            ),
            *(
                f"column {name}: {share(count)} without a value that the model needs, and "
                "therefore without a prediction"
                for name, count in self.unscored.items()
            ),
        ]


@dataclass(frozen=True)
class ScoreRequest:
    """A table to score.

    Parameters
    ----------
    data
        A file, or a folder of files.
    out
        The Parquet file to write.
    model
        The model.
    form
        The format of the files.
    keep
        Columns that are copied to the result.
    missing
        "refuse" to raise an error for a row without a number that the model needs, "null" to leave
        its prediction empty.
    """

    data: Path
    out: Path
    model: RegisteredBundle
    form: FileFormat
    keep: tuple[str, ...] = ()
    missing: MissingRule = "refuse"


@dataclass(frozen=True)
class ScoreJob:
    """One piece of a table to score."""

    request: ScoreRequest
    piece: FilePiece


def check_request(data: Path, out: Path, keep: Sequence[str]) -> None:
    """Raise an error if the result cannot be written, before anything is read."""
    if out.suffix.lower() != ".parquet":
        raise UserError(f"--out must end in .parquet, got {str(out)!r}.")
    if out.is_dir() or (out.exists() and data.exists() and out.samefile(data)):
        raise UserError(f"--out must be a file other than the data, got {str(out)!r}.")
    if data.is_dir() and out.absolute().parent == data.absolute():
        raise UserError(
            f"--out must not be in the folder of the data, got {str(out)!r}. The next run would "
            "read it as data. Name another folder."
        )
    for name in keep:
        if name in OWN_COLUMNS or list(keep).count(name) > 1:
            raise UserError(
                f"--keep must name columns other than {', '.join(OWN_COLUMNS)}, each once, got "
                f"{name!r}."
            )


def score_table(request: ScoreRequest, client: Any = None) -> OutOfRange:
    """Write the file of predictions and return the counts of values outside the training data.

    Parameters
    ----------
    request
        The table.
    client
        A client of a Dask cluster, None to compute in this process.
    """
    jobs = [ScoreJob(request, piece) for piece in pieces_of(request.data)]
    # In this process, memory holds one block at a time.
    scored: _Scored = itertools.chain.from_iterable(map(score_blocks, jobs))
    if client is not None and len(jobs) > 1:
        scored = _on_cluster(jobs, client)
    seen = OutOfRange()
    with _atomic_file(request.out) as part:
        writer = None
        try:
            for batch, found in scored:
                batch = _with_model(batch, request.model)
                if writer is None:
                    writer = parquet.ParquetWriter(part, batch.schema)
                try:  # the files of a folder may differ in their types
                    batch = batch.cast(writer.schema)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
                    raise UserError(
                        f"The files of {request.data} must have the same types in kept columns, "
                        f"got {error}. Convert them, or leave the column out of --keep."
                    ) from error
                writer.write_batch(batch)
                seen = seen.merge(found)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise UserError(f"{request.data} must have rows to be scored, got none.")
    return seen


def _on_cluster(jobs: Sequence[ScoreJob], client: Any) -> _Scored:
    """Yield the results of workers in the order of the rows, computing some pieces at a time."""
    from tasks.cluster.retries import run_jobs  # imports Dask

    for start in range(0, len(jobs), _PIECES_AT_ONCE):
        wanted = jobs[start : start + _PIECES_AT_ONCE]
        found: dict[ScoreJob, list[tuple[pa.RecordBatch, OutOfRange]]] = {}
        failed = run_jobs(
            client,
            score_piece,
            wanted,
            retries=_RETRIES,
            time_limit=_TIME_LIMIT,
            on_result=found.__setitem__,
        )
        if failed:
            raise UserError(
                f"{failed[0].job.piece.path} cannot be scored on the cluster: {failed[0].cause}. "
                "Workers need the same files and the same FKD_HOME."
            )
        for job in wanted:
            yield from found.pop(job)


def score_piece(job: ScoreJob) -> list[tuple["pa.RecordBatch", OutOfRange]]:
    """Return the predictions of all blocks of a piece."""
    return list(score_blocks(job))


def score_blocks(job: ScoreJob) -> _Scored:
    """Yield kept columns with predictions block by block, with the counts of the block."""
    request, bundle = job.request, _open_bundle(job.request.model)
    encoder, words = bundle.encoder, request.form.missing_words
    numeric = (*encoder.numeric_names, *bundle.sensitive)
    # No other column is read, such as the target or an unneeded sensitive column.
    names = tuple(dict.fromkeys((*bundle.input_columns, *request.keep)))
    signs = _decimal_signs(job, numeric)
    for block in _read(request, job.piece, names):
        values, _ = read_numbers(block.raw, numeric, request.form, signs)
        labels = {
            name: _as_trained(block.raw.frame[name], words, known)
            for name, known in zip(encoder.categorical_names, encoder.levels, strict=True)
        }
        frame = pd.DataFrame({**values, **labels})
        absent = _absent_values(bundle, frame)
        missing = absent.any(axis=1).to_numpy(dtype=bool)
        if missing.any() and request.missing == "refuse":
            row = int(missing.argmax())
            raise UserError(
                f"column {absent.iloc[row].idxmax()} must have a value in every row, because "
                f"{request.model.address} cannot fill it. It is missing in "
                f"{block.raw.position(row)} of {job.piece.path}. Fill it, or set "
                "--missing null to leave such rows without a prediction."
            )
        prediction = np.full(len(frame), np.nan)
        if not missing.all():
            prediction[~missing] = _predict(job, bundle, block, frame[~missing])
        columns = {name: block.cells[name].combine_chunks() for name in request.keep}
        columns["prediction"] = pa.array(prediction, mask=missing)
        yield pa.RecordBatch.from_pydict(columns), OutOfRange.from_rows(bundle, frame)


@lru_cache(maxsize=2)
def _open_bundle(model: RegisteredBundle) -> Bundle:
    """Return the model, read once by each process."""
    return model.bundle()


def _read(request: ScoreRequest, piece: FilePiece, names: tuple[str, ...]) -> Iterator[RawBlock]:
    """Yield blocks of a piece; an error on a missing column names the model that needs it."""
    try:
        yield from read_blocks(piece, request.form, names)
    except UserError as error:
        for name in _open_bundle(request.model).input_columns:
            if f"got {name!r}" in str(error):
                raise UserError(
                    f"{request.model.address} predicts from the column {name!r}, so {error}"
                ) from error
        raise


def _decimal_signs(job: ScoreJob, numeric: tuple[str, ...]) -> Mapping[str, str]:
    """Return the decimal sign of each column, from all rows of the file if cells are text."""
    form = job.request.form
    signs = dict.fromkeys(numeric, "." if form.decimal == AUTO else form.decimal)
    if form.decimal != AUTO or not numeric:
        return signs
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_null
    seen = DecimalSigns()
    for block in _read(job.request, FilePiece(job.piece.path), numeric):
        if all(any(is_kind(cell.type) for is_kind in kinds) for cell in block.cells.schema):
            return signs
        for name in numeric:
            seen.add(block.raw, cell_column(block.raw, name, form.missing_words))
    return seen.decided(form)


def _as_trained(
    column: "pd.Series[Any]", missing_words: tuple[str, ...], known: tuple[str, ...]
) -> "pd.Series[Any]":
    """Return labels as training rows have them, which may have read 1.50 as the number 1.5."""
    if missing_words:
        column = column.replace(list(missing_words), None)
    changed = {
        value: str(float(value))
        for value in column.dropna().unique()
        if isinstance(value, str)
        and canonical_label(value) not in known
        and _FRACTION.fullmatch(value.strip())
    }
    return column.replace(changed) if changed else column


def _absent_values(bundle: Bundle, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mask of missing numbers that the model needs and cannot fill."""
    pairs = zip(bundle.encoder.numeric_names, bundle.encoder.fill, strict=True)
    return frame[[*(name for name, fill in pairs if np.isnan(fill)), *bundle.sensitive]].isna()


def _predict(job: ScoreJob, bundle: Bundle, block: RawBlock, frame: pd.DataFrame) -> Array:
    """Return the predictions of complete rows; an error names rows without a finite number."""
    try:
        return bundle.predict(frame)
    except NonFinitePredictionError as error:
        rows = [block.raw.position(int(frame.index[row])) for row in error.rows[:3]]
        raise UserError(
            f"{job.request.model.address} must predict a finite number for each row, got NaN or "
            f"infinity for {len(error.rows)} rows of {job.piece.path}, first {', '.join(rows)}. "
            "Check the inputs of these rows."
        ) from error


def _with_model(batch: "pa.RecordBatch", model: RegisteredBundle) -> "pa.RecordBatch":
    """Return the rows with the model, in columns and in the metadata of the file."""
    for name, value in (("model", f"{model.name}/{model.version}"), ("bundle", model.digest)):
        codes = pa.array([0] * batch.num_rows, pa.int32())  # a constant column takes no space
        batch = batch.append_column(name, pa.DictionaryArray.from_arrays(codes, [value]))
    return batch.replace_schema_metadata(
        {
            "fkd.model": model.name,
            "fkd.model_version": str(model.version),
            "fkd.bundle": model.digest,
            "fkd.version": __version__,
        }
    )


@contextmanager
def _atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` if the block ends without an error.

    The temporary file is locked. Unlocked ones, which killed processes have left, are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name[:40]}."
    for part in path.parent.glob(f"{prefix}*.part"):
        with part.open("r+b") as file:
            if try_lock(file):
                part.unlink()
    part = path.parent / f"{prefix}{uuid4().hex}.part"
    try:
        with part.open("xb") as file:
            try_lock(file)
            yield part
            os.fsync(file.fileno())
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
