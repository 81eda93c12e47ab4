import zipfile

import numpy as np
import pandas as pd
import pytest
from folktables import ACSIncome, ACSTravelTime

from tasks.data.twin import is_twin, write_twin


def frame_of(path):
    with zipfile.ZipFile(path) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".csv"))
        return pd.read_csv(archive.open(member), low_memory=False), member


@pytest.fixture
def twin(tmp_path):
    def make(state="MT", year=2018, rows=3000, seed=0):
        path = tmp_path / f"{state}{year}{rows}{seed}.zip"
        write_twin(path, state=state, year=year, rows=rows, seed=seed)
        return path

    return make


def test_a_twin_says_what_it_is(twin, tmp_path):
    assert is_twin(twin())
    real = tmp_path / "real.zip"
    with zipfile.ZipFile(real, "w") as archive:
        archive.writestr("psam_p30.csv", "AGEP\n")
    assert not is_twin(real)


def test_equal_arguments_give_equal_bytes(twin, tmp_path):
    first = twin().read_bytes()
    assert twin().read_bytes() == first
    assert twin(seed=1).read_bytes() != first
    assert twin(state="ID").read_bytes() != first


def test_a_twin_has_the_columns_of_a_real_file(twin):
    frame, member = frame_of(twin())
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
def test_names_follow_the_year(twin, year, member, columns):
    frame, found = frame_of(twin(year=year, rows=50))
    assert found == member
    assert columns < set(frame.columns)


def test_rough_marginals_are_those_of_the_census(twin):
    frame, _ = frame_of(twin(rows=20_000))
    assert 35 < frame["AGEP"].mean() < 48
    assert 0.4 < frame["ESR"].eq(1).mean() < 0.6
    assert 15_000 < frame["PINCP"].median() < 40_000
    assert 12 < frame["JWMNP"].median() < 30
    assert 0.03 < frame["JWTR"].eq(11).sum() / frame["ESR"].eq(1).sum() < 0.12


def test_folktables_reads_a_twin_as_its_own(twin):
    frame, _ = frame_of(twin())
    X, y, _ = ACSIncome.df_to_numpy(frame)
    assert X.shape[1] == 10
    assert 0.05 < y.mean() < 0.7
    X, y, _ = ACSTravelTime.df_to_numpy(frame)
    assert len(X) > 1000


def test_income_depends_on_age_and_so_do_the_inputs(twin):
    frame, _ = frame_of(twin(rows=20_000))
    workers = frame[frame["ESR"] == 1]
    by_age = workers.groupby(pd.cut(workers["AGEP"], [16, 25, 40, 55, 70, 99]), observed=True)
    income = by_age["PINCP"].median().to_numpy()
    assert income[2] > 2 * income[0]
    never_married = by_age["MAR"].apply(lambda status: (status == 5).mean()).to_numpy()
    assert never_married[0] > 0.5 > 0.15 > never_married[3]


def test_any_number_of_rows_is_written_in_chunks(twin, monkeypatch):
    monkeypatch.setattr("tasks.data.twin._CHUNK", 100)
    frame, _ = frame_of(twin(rows=250))
    assert len(frame) == 250
    assert frame["SERIALNO"].is_unique
    assert np.isfinite(frame["PWGTP80"]).all()
