"""Census person files: columns, rows, files that are left out, synthetic files."""

import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pandas as pd
import pytest
from folktables import ACSIncome, ACSTravelTime
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from tasks.data.census import is_synthetic, person_file, read_persons, write_synthetic_census
from tasks.data.download import AbsentFileError
from tasks.data.load import load_table, remarks
from tasks.storage.settings import Settings

MEMBER = "psam_p30.csv"
HEADER = "AGEP,PINCP,WKHP,PWGTP,COW,SCHL,MAR,OCCP,POBP,RELP,SEX,RAC1P,PUMA,ST,NOISE"
ROWS = (
    "40,50000,40,10,1,21,1,0010,030,00,1,1,00100,30,x",
    "16,50000,40,10,1,21,1,0010,030,00,1,1,00100,30,x",  # too young
    "40,100,40,10,1,21,1,0010,030,00,1,1,00100,30,x",  # too little income
    "40,50000,,10,1,21,1,0010,030,00,1,1,00100,30,x",  # no hours
    "94,900000,99,5,,,5,4720,457,17,2,9,00700,30,x",
    "33,700,1,0,2,16,5,4720,457,17,2,9,00700,30,x",  # no weight
)


def write(folder, lines, *, header=HEADER, member=MEMBER):
    path = folder / "csv.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, "\n".join([header, *lines]) + "\n")
    return path


def read(path, year=2018, problem="acs_income"):
    """The rows of a file of Montana."""
    return read_persons(DataConfig(problem=problem), person_file("MT", year, "1-Year"), path, year)


def test_rows_of_the_problem_are_kept_and_the_others_counted(tmp_path):
    columns = read(write(tmp_path, ROWS))
    assert columns.rows_read == 6
    assert list(columns.dropped.values()) == [4, 0]
    assert_array_equal(columns.numbers["PINCP"], [50000, 900000])
    assert_array_equal(columns.numbers["AGEP"], [40, 94])
    assert_array_equal(columns.numbers["PWGTP"], [10, 5])
    assert_array_equal(columns.numbers["year"], [2018, 2018])


def test_labels_are_canonical_and_only_those_of_kept_rows(tmp_path):
    columns = read(write(tmp_path, ROWS))
    assert columns.categories["OCCP"].labels == ("10", "4720")
    assert columns.categories["COW"].labels == ("1",)
    assert_array_equal(columns.categories["COW"].codes, [0, -1])
    assert "NOISE" not in columns.categories


def test_an_area_is_unique_among_all_states(tmp_path):
    columns = read(write(tmp_path, ROWS))
    assert_array_equal(columns.numbers["PUMA"], [3000100, 3000700])
    assert_array_equal(columns.numbers["ST"], [30, 30])


def test_persons_who_work_at_home_are_dropped(tmp_path):
    path = tmp_path / "synthetic.zip"
    write_synthetic_census(path, state="MT", year=2018, rows=2000, seed=1)
    columns = read(path, problem="acs_travel_time")
    assert columns.dropped["no travel time: works at home"] > 0
    assert "11" not in columns.categories["JWTR"].labels
    assert not np.isnan(columns.numbers["JWMNP"]).any()


@pytest.mark.parametrize(
    ("old", "new"), [("RELP", "RELSHIPP"), ("RELP", "REL"), ("ST,", "STATE,"), ("PUMA", "PUMA10")]
)
def test_columns_are_found_by_their_names_of_other_years(tmp_path, old, new):
    path = write(tmp_path, ROWS, header=HEADER.replace(old, new))
    columns = read(path, 2019)
    assert len(columns.categories["RELP"].labels) == 2
    assert len(columns.numbers["ST"]) == 2


def test_a_split_column_is_merged_with_its_revision_as_prefix(tmp_path):
    header = HEADER.replace("PUMA", "PUMA10,PUMA20").replace("OCCP", "OCCP10,OCCP12")
    rows = (
        "40,50000,40,10,1,21,1,0010,N.A.,030,00,1,1,00100,-0009,30,x",
        "40,50000,40,10,1,21,1,N.A.,0010,030,00,1,1,-0009,00100,30,x",
        "40,50000,40,10,1,21,1,,,030,00,1,1,-9,00200,30,x",
    )
    columns = read(write(tmp_path, rows, header=header), 2022)
    job, area = columns.categories["OCCP"], columns.categories["PUMA"]
    assert [job.labels[code] if code >= 0 else "" for code in job.codes] == [
        "OCCP10:10",
        "OCCP12:10",
        "",
    ]
    assert [area.labels[code] for code in area.codes] == ["PUMA10:100", "PUMA20:100", "PUMA20:200"]
    assert len(set(columns.numbers["PUMA"])) == 3


def test_blanks_in_early_files_are_missing_values(tmp_path):
    rows = (
        "40 ,50000, 40,10, 1,21,1,0010,030,00,1,1,00100,30,x",
        "41,60000,40,10,  ,21,1,0010,030,00,1,1,00100,30,x",
    )
    columns = read(write(tmp_path, rows), 2006)
    assert_array_equal(columns.numbers["AGEP"], [40, 41])
    assert columns.categories["COW"].labels == ("1",)
    assert_array_equal(columns.categories["COW"].codes, [0, -1])


def test_quoted_headers_are_read(tmp_path):
    header = ",".join(f'"{name}"' for name in HEADER.split(","))
    assert read(write(tmp_path, ROWS, header=header))


def test_absent_columns_are_named_with_the_problem(tmp_path):
    path = write(tmp_path, ROWS, header=HEADER.replace("OCCP", "X").replace("SEX", "Y"))
    with pytest.raises(
        UserError, match=r"psam_p30\.csv of 2007 lacks the columns OCCP, SEX.*acs_income"
    ):
        read(path, 2007)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a,50000,40,10,1,21,1,0010,030,00,1,1,00100,30,x"], "conversion error.*'a'"),
        (["40,50000"], "cannot be read as a table"),
        ([], "must have rows"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path, lines, words):
    with pytest.raises(UserError, match=rf"psam_p30\.csv of 2018.*{words}"):
        read(write(tmp_path, lines))


def test_rows_may_all_be_dropped(tmp_path):
    columns = read(write(tmp_path, ROWS[1:2]))
    assert len(columns.numbers["AGEP"]) == 0
    assert columns.rows_read == 1


YEAR = 2017  # without known checksums


@pytest.fixture
def mirror(tmp_path):
    """Return a function that makes a mirror with one file per state, changed by functions."""

    def make(**changes):
        for state, change in changes.items():
            path = tmp_path / "mirror" / f"census/{YEAR}/1-Year/csv_p{state.lower()}.zip"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_synthetic_census(path, state=state, year=YEAR, rows=900, seed=4)
            if change is not None:
                _rewrite(path, change)
        return Settings(tmp_path / "home", str(tmp_path / "mirror"), None, None)

    return make


def _rewrite(path, change):
    """Change the lines of the table in a zip."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".csv"))
        lines = archive.read(name).decode().splitlines()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, "\n".join(change(lines)) + "\n")
    path.write_bytes(buffer.getvalue())


@pytest.fixture
def publisher(monkeypatch):
    """A host without any file in place of the Census Bureau."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            """Keep the terminal quiet."""

    with HTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr("tasks.data.census._ADDRESS", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()
        thread.join()


def without_ages(lines):
    """A file of another layout."""
    return [lines[0].replace("AGEP", "AGE"), *lines[1:]]


def config(states, **keys):
    return DataConfig(problem="acs_travel_time", states=states, year=(YEAR,), **keys)


def test_a_file_that_cannot_be_read_stops_the_run_by_name(mirror):
    with pytest.raises(UserError, match=r"psam_p50.* of 2017 lacks the columns AGEP"):
        load_table(config(("WY", "VT")), mirror(WY=None, VT=without_ages))


def test_or_the_file_is_left_out_with_a_note(mirror):
    settings = mirror(WY=None, VT=without_ages)
    loaded = load_table(config(("WY", "VT"), faulty="skip"), settings)
    alone = load_table(config(("WY",)), settings)
    assert set(loaded.table.extra["ST"]) == {56}
    assert_array_equal(loaded.table.target, alone.table.target)
    assert loaded.digest != alone.digest
    (note,) = remarks(loaded.provenance)
    assert "left out" in note
    assert "lacks the columns AGEP" in note
    # A second call reads the prepared rows with their notes; another request has its own.
    assert remarks(load_table(config(("WY", "VT"), faulty="skip"), settings).provenance) == [note]
    assert remarks(load_table(config(("WY",), faulty="skip"), settings).provenance) == []


def test_without_any_file_there_is_no_table(mirror):
    settings = mirror(VT=without_ages)
    with pytest.raises(UserError, match=r"None of 1 census files could be read.*AGEP"):
        load_table(config(("VT",), faulty="skip"), settings)


def test_a_file_that_cannot_be_fetched_is_left_out(mirror, publisher):
    settings = mirror(WY=None)
    loaded = load_table(config(("WY", "VT"), faulty="skip"), settings)
    assert set(loaded.table.extra["ST"]) == {56}
    (note,) = remarks(loaded.provenance)
    assert "csv_pvt.zip could not be fetched" in note
    with pytest.raises(UserError, match=r"csv_pvt\.zip could not be fetched"):
        load_table(config(("WY", "VT")), settings)
    with pytest.raises(AbsentFileError, match="None of 1 census files could be fetched"):
        load_table(config(("VT",), faulty="skip"), settings)


def test_only_census_files_can_be_left_out():
    with pytest.raises(ValueError, match=r"data\.faulty: skip applies to problem acs_income"):
        DataConfig(faulty="skip")


# Synthetic files


def frame_of(path):
    with zipfile.ZipFile(path) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".csv"))
        return pd.read_csv(archive.open(member), low_memory=False), member


@pytest.fixture
def write_synthetic(tmp_path):
    def write_file(state="MT", year=2018, rows=3000, seed=0):
        path = tmp_path / f"{state}{year}{rows}{seed}.zip"
        write_synthetic_census(path, state=state, year=year, rows=rows, seed=seed)
        return path

    return write_file


def test_a_synthetic_file_is_marked(write_synthetic, tmp_path):
    assert is_synthetic(write_synthetic())
    real = tmp_path / "real.zip"
    with zipfile.ZipFile(real, "w") as archive:
        archive.writestr("psam_p30.csv", "AGEP\n")
    assert not is_synthetic(real)


def test_equal_arguments_give_equal_bytes(write_synthetic):
    first = write_synthetic().read_bytes()
    assert write_synthetic().read_bytes() == first
    assert write_synthetic(seed=1).read_bytes() != first
    assert write_synthetic(state="ID").read_bytes() != first


def test_a_file_has_the_columns_of_a_real_one(write_synthetic):
    frame, member = frame_of(write_synthetic())
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
def test_names_follow_the_year(write_synthetic, year, member, columns):
    frame, found = frame_of(write_synthetic(year=year, rows=50))
    assert found == member
    assert columns < set(frame.columns)


def test_folktables_reads_a_synthetic_file(write_synthetic):
    frame, _ = frame_of(write_synthetic())
    X, y, _ = ACSIncome.df_to_numpy(frame)
    assert X.shape[1] == 10
    assert 0.05 < y.mean() < 0.7
    X, y, _ = ACSTravelTime.df_to_numpy(frame)
    assert len(X) > 1000


def test_rows_are_written_in_chunks(write_synthetic, monkeypatch):
    monkeypatch.setattr("tasks.data.census._CHUNK", 100)
    frame, _ = frame_of(write_synthetic(rows=250))
    assert len(frame) == 250
    assert frame["SERIALNO"].is_unique
    assert np.isfinite(frame["PWGTP80"]).all()
