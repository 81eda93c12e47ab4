"""A whole table scored into one Parquet file that is whole or absent."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from configs.errors import UserError
from configs.text_form import WrittenForm
from fkd import __version__
from tasks.adapters.files import hold
from tasks.adapters.jobs import run_jobs
from tasks.adapters.model_files import RegisteredBundle
from tasks.data.own_blocks import pieces_of
from tasks.data.scored_rows import MissingRule, ScoreJob, score_blocks, score_piece
from tasks.data.unfamiliar import Unfamiliar

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
    form: WrittenForm
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
            hold(file)  # to the end: what nobody holds was left by a writer that is gone
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
            if hold(file):
                part.unlink()


def _prefix(path: Path) -> str:
    return f".{path.name[:40]}."
