import io
import zipfile

import pytest
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from tasks.data.census import PersonFiles, fetch_persons, read_persons
from tasks.data.download import Fetched
from tasks.data.load import load_table, remarks
from tasks.data.synthetic_census import write_synthetic_census
from tasks.storage.settings import Settings

YEAR = 2017  # of which no checksums are known


@pytest.fixture
def mirror(tmp_path):
    """A folder with a file of each state, changed as asked."""

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
    """Put other text into the table of a zip."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".csv"))
        lines = archive.read(name).decode().splitlines()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, "\n".join(change(lines)) + "\n")
    path.write_bytes(buffer.getvalue())


def without_ages(lines):
    """A file of another layout."""
    return [lines[0].replace("AGEP", "AGE"), *lines[1:]]


def asked(states, **keys):
    return DataConfig(problem="acs_travel_time", states=states, year=(YEAR,), **keys)


def test_a_file_that_cannot_be_read_stops_the_run_by_name(mirror):
    with pytest.raises(UserError, match=r"psam_p50.* of 2017 lacks the columns AGEP"):
        load_table(asked(("WY", "VT")), mirror(WY=None, VT=without_ages))


def test_or_the_run_goes_on_without_it_and_says_so(mirror):
    settings = mirror(WY=None, VT=without_ages)
    loaded = load_table(asked(("WY", "VT"), faulty="skip"), settings)
    alone = load_table(asked(("WY",)), settings)
    assert set(loaded.table.extra["ST"]) == {56}
    assert_array_equal(loaded.table.target, alone.table.target)
    assert loaded.digest != alone.digest
    (said,) = remarks(loaded.provenance)
    assert "left out" in said
    assert "lacks the columns AGEP" in said
    # A second look finds the prepared rows with their story, a smaller wish has its own.
    assert remarks(load_table(asked(("WY", "VT"), faulty="skip"), settings).provenance) == [said]
    assert remarks(load_table(asked(("WY",), faulty="skip"), settings).provenance) == []


def test_nothing_left_is_no_table(mirror):
    settings = mirror(VT=without_ages)
    with pytest.raises(UserError, match=r"No census file could be read, of 1.*AGEP"):
        load_table(asked(("VT",), faulty="skip"), settings)


def test_a_file_that_cannot_be_had_is_left_out_too(mirror, monkeypatch):
    settings = mirror(WY=None)
    absent = UserError("census/2017/1-Year/csv_pvt.zip could not be fetched: it is gone.")

    def some(files, settings, *, progress):
        found = fetch_persons(asked(("WY",)), settings).there[0].fetched
        return [found, absent]

    monkeypatch.setattr("tasks.data.census.fetch_some", some)
    files = fetch_persons(asked(("WY", "VT"), faulty="skip"), settings)
    assert isinstance(files, PersonFiles)
    assert isinstance(files.there[0].fetched, Fetched)
    notes = read_persons(asked(("WY", "VT"), faulty="skip"), files).notes
    assert [str(absent) in note for note in notes] == [True]


def test_only_census_files_can_be_left_out():
    with pytest.raises(ValueError, match=r"data\.faulty: skip has a meaning for the census"):
        DataConfig(faulty="skip")


def test_the_rule_that_was_not_named_leaves_digests_alone():
    assert "faulty" not in asked(("WY",)).model_dump()
    assert asked(("WY",), faulty="skip").model_dump()["faulty"] == "skip"
