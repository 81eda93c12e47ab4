"""The needed columns of a census person file."""

import logging
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from configs.data import DataConfig, expand_states
from configs.errors import UserError
from fkd.core.arrays import Array, IntArray
from fkd.problems.declaration import Problem
from fkd.problems.labels import canonical_label, encode_labels
from tasks.data.columns import Category, Columns, merge, merge_categories
from tasks.data.download import (
    AbsentFileError,
    Fetched,
    Progress,
    RemoteFile,
    UnsafeZipError,
    check_zip,
    fetch_all,
    fetch_some,
    person_file,
)
from tasks.data.validation import check_limits
from tasks.storage.settings import Settings

# Large enough that parsing dominates, small enough that memory does not grow with the file.
_BLOCK = 2**23
# Early files pad empty fields with blanks.
_EMPTY = [" " * width for width in range(12)]
_LABEL = pa.dictionary(pa.int32(), pa.string())


def read_person_file(path: Path, member: str, problem: Problem, *, year: int) -> Columns:
    """Return the problem's columns of the rows that belong to it, straight from the zip.

    Parameters
    ----------
    path, member
        The zip with the name of the table in it.
    problem
        Which columns are needed, which rows belong.
    year
        The survey year, kept as a column.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # The header decides which columns to parse, so the stream is opened twice.
            with archive.open(member) as stream:
                layout = Layout.of(_header(stream), problem, where=f"{member} of {year}")
            with archive.open(member) as stream:
                parts = [_part(batch, layout, problem) for batch in _batches(stream, layout)]
    except (pa.ArrowInvalid, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{member} of {year} cannot be read as a table: {error}.") from error
    if not parts:
        raise UserError(f"{member} of {year} must have rows, got none; fetch it again.")
    return _with_places(merge(parts), year)


@dataclass(frozen=True)
class Layout:
    """Where each wanted column is found in one file: under its name, another, or in parts."""

    numbers: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, header: Sequence[str], problem: Problem, *, where: str) -> "Layout":
        """Return the layout of a file with that header, or name the column that it lacks."""
        filtered = problem.rows.columns if problem.rows else ()
        numbers = dict.fromkeys((problem.target, *problem.numeric, *filtered, "PWGTP"))
        labels = dict.fromkeys((*problem.categorical, "ST", "PUMA"))
        found = {name: _find(name, header, problem) for name in (*numbers, *labels)}
        absent = [name for name, places in found.items() if not places]
        if absent:
            raise UserError(
                f"{where} lacks the columns {', '.join(absent)}, which {problem.name} needs; "
                "take a year that has them (2018 has all)."
            )
        return cls(tuple(numbers), {name: found[name] for name in labels})

    def types(self) -> dict[str, pa.DataType]:
        """Return how each column of the file is to be read."""
        labels = {place: _LABEL for places in self.labels.values() for place in places}
        return {**labels, **dict.fromkeys(self.numbers, pa.float64())}


def _find(name: str, header: Sequence[str], problem: Problem) -> tuple[str, ...]:
    """Return the file's names of a column: itself, its name in another year, or its parts."""
    for candidate in (name, *problem.renamed.get(name, ())):
        if candidate in header:
            return (candidate,)
    return tuple(part for part in problem.split.get(name, ()) if part in header)


def _header(stream: IO[bytes]) -> list[str]:
    """Return the column names in the first line."""
    line = stream.readline(2**20).decode("utf-8-sig", errors="replace")
    return [name.strip().strip('"') for name in line.split(",")]


def _batches(stream: IO[bytes], layout: Layout) -> csv.CSVStreamingReader:
    """Parse only what the layout names, block by block."""
    types = layout.types()
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=_BLOCK),
        convert_options=csv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            null_values=_EMPTY,
            strings_can_be_null=True,
        ),
    )


def _part(batch: pa.RecordBatch, layout: Layout, problem: Problem) -> Columns:
    """Return the rows of one block that belong to the problem and have a target."""
    numbers = {name: _numbers(batch.column(name)) for name in layout.numbers}
    rows = np.arange(batch.num_rows)
    dropped = {}
    if problem.rows:
        rows = np.flatnonzero(problem.rows.keep(numbers))
        dropped[problem.rows.reason] = batch.num_rows - len(rows)
    # After the filter, so that its count is folktables' own.
    absent = np.isnan(numbers[problem.target][rows])
    dropped[problem.target_absent] = int(absent.sum(axis=0))
    rows = rows[~absent]
    return Columns(
        numbers={name: values[rows] for name, values in numbers.items()},
        categories={
            name: _labels([batch.column(place) for place in places], places, rows)
            for name, places in layout.labels.items()
        },
        rows_read=batch.num_rows,
        dropped=dropped,
    )


def _numbers(column: pa.Array) -> Array:
    """Return a column of numbers, NaN where it is empty."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _labels(parts: list[pa.Array], places: tuple[str, ...], rows: IntArray) -> Category:
    """Return a column of labels; of several parts each row has the one that applies to it."""
    coded = [_coded(part, rows) for part in parts]
    if len(coded) == 1:
        return coded[0]
    named = [
        Category(one.codes, tuple(_vintage(label, place) for label in one.labels))
        for one, place in zip(coded, places, strict=True)
    ]
    # In each row all parts but one are missing (-1), so the greatest code is the one that applies.
    whole = merge_categories(named)
    split = whole.codes.reshape(len(parts), len(rows))
    return Category(split.max(axis=0), whole.labels)


def _coded(column: pa.DictionaryArray, rows: IntArray) -> Category:
    """Return the chosen rows of a dictionary-encoded column by canonical labels."""
    places = column.indices.to_numpy(zero_copy_only=False)
    places = np.where(np.isnan(places), -1, places)[rows].astype(np.int64)
    # A label that no chosen row has is no level: it gets the name that counts as none.
    used = set(places.tolist())
    labels = [
        canonical_label(value) if place in used else ""
        for place, value in enumerate(column.dictionary.to_pylist())
    ]
    return Category(*encode_labels(places, labels))


def _vintage(label: str, place: str) -> str:
    """Mark a label by its revision, because the same code means another area or job in another."""
    not_applicable = label.startswith(("-", "N.A"))
    return "" if not_applicable else f"{place}:{label}"


def _with_places(columns: Columns, year: int) -> Columns:
    """Add state, area, year as numbers; an area's number is unique among all states."""
    rows = len(columns.numbers["PWGTP"])
    state = _by_label(columns.categories["ST"], float)
    area = _by_label(columns.categories["PUMA"], _area_number)
    numbers: dict[str, Any] = {
        **columns.numbers,
        "ST": state,
        "PUMA": state * 100_000 + area,
        "year": np.full(rows, float(year)),
    }
    return Columns(numbers, columns.categories, columns.rows_read, columns.dropped)


def _by_label(column: Category, number: Any) -> Array:
    """Return a number per row, computed once per label."""
    return np.array([*(number(label) for label in column.labels), np.nan])[column.codes]


def _area_number(label: str) -> float:
    """Return an area's code; areas of another revision get numbers of their own."""
    place, _, code = label.rpartition(":")
    return float(code) + 10_000_000.0 * float(place[-2:] or 0)


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PersonFile:
    """The file of one state in one year, with its place on this disk."""

    file: RemoteFile
    year: int
    fetched: Fetched


@dataclass(frozen=True)
class PersonFiles:
    """The files that could be had, with a sentence on each that could not."""

    there: tuple[PersonFile, ...]
    left_out: tuple[str, ...] = ()


def fetch_persons(
    data: DataConfig, settings: Settings, progress: Progress | None = None
) -> PersonFiles:
    """Return the files on this disk; one that cannot be had stops the run, or is left out."""
    wanted = [(file, year) for year in data.year for file in year_files(data, year)]
    files = [file for file, _ in wanted]
    # All files first, so that a missing state stops us early.
    if data.faulty == "stop":
        found: list[Fetched | UserError] = [*fetch_all(files, settings, progress=progress)]
    else:
        found = fetch_some(files, settings, progress=progress)
    pairs = list(zip(wanted, found, strict=True))
    there = [PersonFile(*one, got) for one, got in pairs if isinstance(got, Fetched)]
    left_out = [_left_out(str(got)) for _, got in pairs if isinstance(got, UserError)]
    if not there:
        absent = all(isinstance(got, AbsentFileError) for got in found)
        raise (AbsentFileError if absent else UserError)(
            f"No census file could be had, of {len(files)} wanted. {left_out[0]}"
        )
    return PersonFiles(tuple(there), tuple(left_out))


def year_files(data: DataConfig, year: int) -> list[RemoteFile]:
    """Return the files of all states in one year."""
    horizon = data.horizon or "1-Year"
    return [person_file(state, year, horizon) for state in expand_states(data.states)]


def read_persons(data: DataConfig, files: PersonFiles) -> Columns:
    """Return the rows of all files; one that cannot be read stops the run, or is left out."""
    parts, left_out = [], list(files.left_out)
    for one in files.there:
        try:
            parts.append(read_person(data, one.file, one.fetched.path, one.year))
        except UserError as error:
            if data.faulty == "stop":
                raise
            left_out.append(_left_out(str(error)))
    if not parts:
        raise UserError(f"No census file could be read, of {len(files.there)}. {left_out[0]}")
    return replace(merge(parts), notes=tuple(left_out))


def read_person(data: DataConfig, file: RemoteFile, path: Path, year: int) -> Columns:
    """Return the rows of one file, whose values must be possible ones."""
    problem = data.declaration
    try:
        # Names inside the zip were checked when it came; they are looked up again, not remembered.
        member = check_zip(path, file)
    except UnsafeZipError as error:
        raise UserError(f"{file.name} is refused: {error}; fetch it again.") from error
    columns = read_person_file(path, member, problem, year=year)
    check_limits(columns, problem.limits, file=file.name)
    return columns


def _left_out(why: str) -> str:
    """Return the sentence on a file that is left out, which a log reader should meet too."""
    sentence = f"a census file was left out, as data.faulty: skip allows: {why}"
    logger.warning("%s", sentence)
    return sentence
