"""Synthetic person files: bytes, names and columns of the real ones."""

import zipfile

import numpy as np
import pandas as pd
import pytest
from folktables import ACSIncome, ACSTravelTime

from tasks.data.census import is_synthetic, write_synthetic_census


def frame_of(path):
    with zipfile.ZipFile(path) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".csv"))
        return pd.read_csv(archive.open(member), low_memory=False), member


@pytest.fixture
def write(tmp_path):
    def write_file(state="MT", year=2018, rows=3000, seed=0):
        path = tmp_path / f"{state}{year}{rows}{seed}.zip"
        write_synthetic_census(path, state=state, year=year, rows=rows, seed=seed)
        return path

    return write_file


def test_a_synthetic_file_is_marked_as_one(write, tmp_path):
    assert is_synthetic(write())
    real = tmp_path / "real.zip"
    with zipfile.ZipFile(real, "w") as archive:
        archive.writestr("psam_p30.csv", "AGEP\n")
    assert not is_synthetic(real)


def test_equal_arguments_give_equal_bytes(write):
    first = write().read_bytes()
    assert write().read_bytes() == first
    assert write(seed=1).read_bytes() != first
    assert write(state="ID").read_bytes() != first


def test_a_file_has_the_columns_of_a_real_one(write):
    frame, member = frame_of(write())
    assert member == "psam_p30.csv"
    assert frame.shape == (3000, 286)
    assert (frame["ST"] == 30).all()


@pytest.mark.parametrize(
    ("year", "member", "columns"),
    [
        (2016, "ss16pmt.csv", {"RELP", "JWTR", "ST"}),
        (2019, "psam_p30.csv", {"RELSHIPP", "JWTRNS", "ST"}),
        (2023, "psam_p30.csv", {"RELSHIPP", "JWTRNS", "STATE"}),
    ],
)
def test_names_follow_the_year(write, year, member, columns):
    frame, found = frame_of(write(year=year, rows=50))
    assert found == member
    assert columns < set(frame.columns)


def test_folktables_reads_a_synthetic_file(write):
    frame, _ = frame_of(write())
    X, y, _ = ACSIncome.df_to_numpy(frame)
    assert X.shape[1] == 10
    assert 0.05 < y.mean() < 0.7
    X, y, _ = ACSTravelTime.df_to_numpy(frame)
    assert len(X) > 1000


def test_any_number_of_rows_is_written_in_chunks(write, monkeypatch):
    monkeypatch.setattr("tasks.data.census._CHUNK", 100)
    frame, _ = frame_of(write(rows=250))
    assert len(frame) == 250
    assert frame["SERIALNO"].is_unique
    assert np.isfinite(frame["PWGTP80"]).all()
