"""Census person files: fetch them, and read the columns that a problem needs from the zip."""

import json
import logging
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from configs.data import FIPS, DataConfig, Horizon, expand_states
from configs.errors import UserError
from fkd.core.arrays import Array, IntArray
from fkd.datasets import draw_persons
from fkd.problems.declaration import Problem
from fkd.problems.table import canonical_label, encode_labels
from tasks.data.columns import Category, Columns, check_limits, merge, merge_categories
from tasks.data.download import (
    AbsentFileError,
    Fetched,
    Progress,
    RemoteFile,
    UnsafeZipError,
    check_zip,
    fetch_all,
)
from tasks.storage.settings import Settings

logger = logging.getLogger(__name__)

_ADDRESS = "https://www2.census.gov/programs-surveys/acs/data/pums"
# Large enough that parsing dominates, small enough that memory does not grow with the file.
_BLOCK = 2**23
# Early files pad empty fields with blanks.
_EMPTY = [" " * width for width in range(12)]


def person_file(state: str, year: int, horizon: Horizon) -> RemoteFile:
    """Return the census file of the persons of one state.

    Until 2006 the folder of a year has no subfolder for the horizon. Until 2016 the table in the
    zip is named by year and postal code (ss16pmt.csv), since then by FIPS number (psam_p30.csv).
    """
    short = f"csv_p{state.lower()}.zip"
    # Mirrors and the cache have the same layout for all years.
    name = f"census/{year}/{horizon}/{short}"
    folder = f"{year}" if year < 2007 else f"{year}/{horizon}"
    old = rf"ss{year % 100:02d}p{state.lower()}"
    return RemoteFile(
        name=name,
        url=f"{_ADDRESS}/{folder}/{short}",
        member=rf"(psam_p{FIPS[state]}|{old})\.csv",
        sha256=json.loads(_packaged("census_sha256.json")).get(name),
    )


@cache
def _packaged(name: str) -> str:
    """Return the text of a file beside this module."""
    return files("tasks").joinpath("data", name).read_text(encoding="utf-8")


def fetch_persons(
    data: DataConfig, settings: Settings, progress: Progress | None = None
) -> tuple[list[Fetched], Callable[[], Columns]]:
    """Fetch the files of all states and years.

    With `data.faulty: skip`, a file that cannot be fetched or read is left out and named in the
    notes of the rows.

    Returns
    -------
    tuple
        The fetched files, and a function that reads their rows.
    """
    states, horizon = expand_states(data.states), data.horizon or "1-Year"
    wanted = [(person_file(state, y, horizon), y) for y in data.year for state in states]
    found = fetch_all([file for file, _ in wanted], settings, progress=progress, faulty=data.faulty)
    errors = [one for one in found if isinstance(one, UserError)]
    notes = [_left_out(error) for error in errors]
    if len(errors) == len(found):
        absent = all(isinstance(error, AbsentFileError) for error in errors)
        raise (AbsentFileError if absent else UserError)(
            f"None of {len(found)} census files could be fetched. {notes[0]}"
        )
    both = list(zip(wanted, found, strict=True))

    def read() -> Columns:
        parts, left_out = [], list(notes)
        for (file, year), one in both:
            try:
                if isinstance(one, Fetched):
                    parts.append(read_persons(data, file, one.path, year))
            except UserError as error:
                if data.faulty == "stop":
                    raise
                left_out.append(_left_out(error))
        if not parts:
            raise UserError(f"None of {len(found)} census files could be read. {left_out[0]}")
        return replace(merge(parts), notes=tuple(left_out))

    return [one for one in found if isinstance(one, Fetched)], read


def _left_out(error: UserError) -> str:
    """Log and return a note on a file that is left out."""
    note = f"a census file was left out (data.faulty: skip): {error}"
    logger.warning("%s", note)
    return note


def read_persons(data: DataConfig, file: RemoteFile, path: Path, year: int) -> Columns:
    """Return the rows of one file. Impossible values are an error.

    Parameters
    ----------
    data
        The configuration. Its problem declares the columns and the rows.
    file, path
        The file, and its location.
    year
        The survey year, which becomes a column.
    """
    problem = data.declaration
    try:
        # The names in the zip were checked after the download. The table is looked up again here.
        member = check_zip(path, file)
    except UnsafeZipError as error:
        raise UserError(f"{file.name} is refused: {error}. Fetch it again.") from error
    try:
        with zipfile.ZipFile(path) as archive:
            # The header decides which columns to parse, so the stream is opened twice.
            with archive.open(member) as stream:
                line = stream.readline(2**20).decode("utf-8-sig", errors="replace")
            header = [name.strip().strip('"') for name in line.split(",")]
            numbers, labels = _layout(header, problem, where=f"{member} of {year}")
            with archive.open(member) as stream:
                batches = _batches(stream, numbers, labels)
                parts = [_rows(batch, numbers, labels, problem) for batch in batches]
    except (pa.ArrowInvalid, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{member} of {year} cannot be read as a table: {error}.") from error
    if not parts:
        raise UserError(f"{member} of {year} must have rows, got none. Fetch it again.")
    columns = merge(parts)
    state = _per_label(columns.categories["ST"], float)
    # An area code is unique within a state only.
    area = 100_000 * state + _per_label(columns.categories["PUMA"], _area_number)
    years = np.full(len(state), float(year))
    columns = replace(
        columns, numbers={**columns.numbers, "ST": state, "PUMA": area, "year": years}
    )
    check_limits(columns, problem.limits, file=file.name)
    return columns


_Labels = dict[str, tuple[str, ...]]


def _layout(header: Sequence[str], problem: Problem, *, where: str) -> tuple[list[str], _Labels]:
    """Return the columns of a file to read. A missing column is an error.

    Returns
    -------
    tuple
        The numeric columns, and by categorical column its names in the file: several if the column
        is split.
    """

    def find(name: str) -> tuple[str, ...]:
        for candidate in (name, *problem.renamed.get(name, ())):
            if candidate in header:
                return (candidate,)
        return tuple(part for part in problem.split.get(name, ()) if part in header)

    filtered = problem.rows.columns if problem.rows else ()
    numbers = list(dict.fromkeys((problem.target, *problem.numeric, *filtered, "PWGTP")))
    labels = {name: find(name) for name in (*problem.categorical, "ST", "PUMA")}
    found = {**{name: find(name) for name in numbers}, **labels}
    if absent := [name for name, names in found.items() if not names]:
        raise UserError(
            f"{where} lacks the columns {', '.join(absent)}, which {problem.name} needs. "
            "Choose a year that has them, such as 2018."
        )
    return numbers, labels


def _batches(stream: IO[bytes], numbers: Sequence[str], labels: _Labels) -> csv.CSVStreamingReader:
    """Parse columns in blocks of rows."""
    label = pa.dictionary(pa.int32(), pa.string())
    types = {name: label for names in labels.values() for name in names}
    types |= dict.fromkeys(numbers, pa.float64())
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


def _rows(
    batch: pa.RecordBatch, names: Sequence[str], labels: _Labels, problem: Problem
) -> Columns:
    """Return the rows of one block that belong to the problem and have a target."""
    numbers = {
        name: np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.float64)
        for name in names
    }
    rows = np.arange(batch.num_rows)
    dropped = {}
    if problem.rows:
        rows = np.flatnonzero(problem.rows.keep(numbers))
        dropped[problem.rows.reason] = batch.num_rows - len(rows)
    # After the filter, so that its count is that of folktables.
    absent = np.isnan(numbers[problem.target][rows])
    dropped[problem.target_absent] = int(absent.sum(axis=0))
    rows = rows[~absent]
    return Columns(
        numbers={name: values[rows] for name, values in numbers.items()},
        categories={
            name: _labels({part: batch.column(part) for part in parts}, rows)
            for name, parts in labels.items()
        },
        rows_read=batch.num_rows,
        dropped=dropped,
    )


def _labels(parts: dict[str, pa.DictionaryArray], rows: IntArray) -> Category:
    """Return the chosen rows of a categorical column, which may be split into several parts."""
    coded = [_coded(part, rows) for part in parts.values()]
    if len(coded) == 1:
        return coded[0]
    # The same code means another area or job in another revision, so labels get a prefix.
    named = [
        Category(
            one.codes,
            tuple("" if lab.startswith(("-", "N.A")) else f"{name}:{lab}" for lab in one.labels),
        )
        for name, one in zip(parts, coded, strict=True)
    ]
    # In each row all parts but one are missing (-1). The largest code is the part that applies.
    merged = merge_categories(named)
    return Category(merged.codes.reshape(len(parts), len(rows)).max(axis=0), merged.labels)


def _coded(column: pa.DictionaryArray, rows: IntArray) -> Category:
    """Return the chosen rows of a dictionary-encoded column with canonical labels."""
    places = column.indices.to_numpy(zero_copy_only=False)
    places = np.where(np.isnan(places), -1, places)[rows].astype(np.int64)
    # A label without a chosen row is no level. The empty label counts as missing.
    used = set(places.tolist())
    labels = [
        canonical_label(value) if place in used else ""
        for place, value in enumerate(column.dictionary.to_pylist())
    ]
    return Category(*encode_labels(places, labels))


def _per_label(column: Category, number: Callable[[str], float]) -> Array:
    """Return a number per row, computed once per label."""
    return np.array([*(number(label) for label in column.labels), np.nan])[column.codes]


def _area_number(label: str) -> float:
    """Return the code of an area. Areas of another revision get other numbers."""
    revision, _, code = label.rpartition(":")
    return float(code) + 10_000_000.0 * float(revision[-2:] or 0)


# Synthetic files

VERSION = 1
_SYNTHETIC_LABEL = "SYNTHETIC.txt"
_CHUNK = 50_000
_WIDTHS = {"PUMA": 5, "POWPUMA": 5, "OCCP": 4, "POBP": 3, "SCHL": 2, "RELP": 2, "JWTR": 2, "ST": 2}
_NEW_NAMES = {"RELP": ("RELSHIPP", 2019), "JWTR": ("JWTRNS", 2019), "ST": ("STATE", 2023)}


def write_synthetic_census(path: Path, *, state: str, year: int, rows: int, seed: int) -> None:
    """Write a zip like the person file of a state, with a member that marks it as synthetic.

    Parameters
    ----------
    path
        The zip to write. It is replaced in one step.
    state, year
        Determine file and column names, as in the real files.
    rows
        Number of persons. They are written in chunks, so that any number fits into memory.
    seed
        Seed of the generator. The same arguments give the same bytes.
    """
    # One random stream per state and year: adding a state does not change the others.
    rng = np.random.default_rng([seed, int(FIPS[state]), year])
    fips = FIPS[state]
    member = f"psam_p{fips}.csv" if year >= 2017 else f"ss{year % 100:02d}p{state.lower()}.csv"
    # A killed process must not leave an incomplete file under the final name.
    partial = path.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_entry(_SYNTHETIC_LABEL), "Made up by a generator. No row is a person.\n")
        with archive.open(_entry(member), "w", force_zip64=True) as stream:
            writer = None
            for start in range(0, rows, _CHUNK):
                count = min(_CHUNK, rows - start)
                chunk = _chunk(draw_persons(count, rng, state=int(fips)), fips, year, start, rng)
                writer = writer or csv.CSVWriter(stream, chunk.schema)
                writer.write_table(chunk)
            if writer:
                writer.close()
    partial.replace(path)


def is_synthetic(path: Path) -> bool:
    """Return True if a zip was written by `write_synthetic_census`."""
    with zipfile.ZipFile(path) as archive:
        return _SYNTHETIC_LABEL in archive.namelist()


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a zip member without a time stamp, so that equal arguments give equal bytes."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _chunk(
    persons: dict[str, Array], fips: str, year: int, start: int, rng: np.random.Generator
) -> pa.Table:
    """Return persons with the columns, their order and the spelling of the real file."""
    n = len(persons["AGEP"])
    serial = pc.utf8_lpad(pc.cast(pa.array(np.arange(start, start + n)), pa.string()), 7, "0")
    if year >= 2019:
        persons = {**persons, "RELP": persons["RELP"] + 20}  # the codes changed with the name
    known = {name: _integers(values, _WIDTHS.get(name, 0)) for name, values in persons.items()}
    known |= {
        "RT": pa.repeat(pa.scalar("P"), n),
        "SERIALNO": pc.binary_join_element_wise(f"{year}HU", serial, ""),
        "SPORDER": pa.repeat(pa.scalar("01"), n),
        "ST": pa.repeat(pa.scalar(fips), n),
        "ADJINC": pa.repeat(pa.scalar("1000000"), n),
    }
    columns = {}
    # The columns of a person file of 2018, without the replicate weights.
    for name in _packaged("person_columns.txt").split():
        new, since = _NEW_NAMES.get(name, (name, 0))
        column = known.get(name)
        columns[new if year >= since else name] = (
            _filler(name, n, rng) if column is None else column
        )
    for replicate in range(1, 81):
        scale = rng.uniform(0.2, 1.8, n)
        columns[f"PWGTP{replicate}"] = _integers(np.ceil(persons["PWGTP"] * scale), 0)
    return pa.table(columns)


def _integers(values: Array, width: int) -> pa.Array:
    """Return integers, null for NaN. With a width, return text padded with zeros."""
    whole = pa.array(np.nan_to_num(values, nan=0.0).astype(np.int64), mask=np.isnan(values))
    return pc.utf8_lpad(pc.cast(whole, pa.string()), width, "0") if width else whole


def _filler(name: str, n: int, rng: np.random.Generator) -> pa.Array:
    """Return random flags for an allocation column, and nulls for another column."""
    if name.startswith("F") and name not in ("FER", "FOD1P", "FOD2P"):
        return pa.array((rng.random(n) < 0.03).astype(np.int64))
    return pa.nulls(n, pa.string())
