"""Synthetic census person files: zips with the columns and the spelling of the real files."""

import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from configs.data import FIPS
from fkd.core.arrays import Array
from fkd.datasets import draw_persons

VERSION = 1
_LABEL = "SYNTHETIC.txt"
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
        archive.writestr(_entry(_LABEL), "Made up by a generator. No row is a person.\n")
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
        return _LABEL in archive.namelist()


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
    for name in files("tasks").joinpath("data", "person_columns.txt").read_text("ascii").split():
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
