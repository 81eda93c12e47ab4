"""Census files of all states in all years of a configuration, read below each other."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from configs.census import expand_states
from configs.data import DataConfig
from configs.errors import UserError
from tasks.adapters.settings import Settings
from tasks.data.census import read_person_file
from tasks.data.columns import Columns, merge
from tasks.data.fetch import AbsentFileError, Fetched, fetch_all, fetch_some
from tasks.data.remote import RemoteFile, person_file
from tasks.data.transfer import Progress
from tasks.data.validation import check_limits
from tasks.data.zips import UnsafeZipError, check_zip

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
