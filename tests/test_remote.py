import re

import pytest

from tasks.data.download import COMMUNITIES, matches_member, person_file


def test_a_person_file_has_one_name_in_mirrors_and_caches():
    file = person_file("MT", 2018, "1-Year")
    assert file.name == "census/2018/1-Year/csv_pmt.zip"
    assert file.url.endswith("/pums/2018/1-Year/csv_pmt.zip")


def test_the_oldest_files_lie_without_a_horizon():
    assert person_file("MT", 2006, "1-Year").url.endswith("/pums/2006/csv_pmt.zip")


@pytest.mark.parametrize(
    ("year", "name", "matches"),
    [
        (2018, "psam_p30.csv", True),
        (2016, "ss16pmt.csv", True),
        (2016, "SS16PMT.CSV", True),
        (2018, "psam_p31.csv", False),
        (2016, "ss15pmt.csv", False),
        (2018, "psam_h30.csv", False),
        (2018, "psam_p30.csv.exe", False),
        (2018, "x/psam_p30.csv", False),
    ],
)
def test_the_table_in_the_zip_is_known_by_its_name(year, name, matches):
    assert matches_member(person_file("MT", year, "1-Year"), name) is matches


def test_known_checksums_are_pinned():
    assert re.fullmatch("[0-9a-f]{64}", person_file("MT", 2018, "1-Year").pinned)
    assert COMMUNITIES.pinned
    assert person_file("CA", 2018, "1-Year").pinned is None
