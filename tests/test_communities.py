import numpy as np
import pytest
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.crimes import CRIMES, PREDICTORS
from tasks.data.columns import to_table
from tasks.data.sources import header, read_communities


def test_the_header_has_ucis_128_names():
    names = header()
    assert len(names) == len(set(names)) == 128
    assert set(PREDICTORS) < set(names)
    assert names[:5] == ["state", "county", "community", "communityname", "fold"]
    assert names[-1] == "ViolentCrimesPerPop"


def test_missing_values_stand_only_in_columns_that_are_left_out(tmp_path):
    line = [("0.5" if name in PREDICTORS else "?") for name in header()]
    line[3], line[4], line[-1] = "Somecity", "7", "0.25"
    path = tmp_path / "communities.data"
    path.write_text(f"{','.join(line)}\n" * 3)
    columns = read_communities(path)
    assert columns.rows_read == 3
    assert set(columns.numbers) == {"fold", *PREDICTORS, "ViolentCrimesPerPop"}
    assert columns.numbers["fold"].tolist() == [7.0, 7.0, 7.0]


def test_columns_with_missing_values_are_read_if_asked_for(tmp_path):
    line = ["?" if name in CRIMES.incomplete else "0.5" for name in header()]
    full = ["0.75" if name in CRIMES.incomplete else "0.5" for name in header()]
    path = tmp_path / "communities.data"
    path.write_text(f"{','.join(line)}\n{','.join(full)}\n")
    numbers = read_communities(path, CRIMES.with_incomplete()).numbers
    assert len(CRIMES.incomplete) == 23
    for name in CRIMES.incomplete:
        assert_array_equal(numbers[name], [np.nan, 0.75])
    assert_array_equal(numbers["population"], [0.5, 0.5])


def test_a_gap_where_none_may_be_is_refused_by_name(tmp_path):
    columns = read_communities(_file(tmp_path, "?", place="population"))
    with pytest.raises(ValueError, match="population"):
        to_table(DataConfig(source="uci"), columns)


def _file(folder, field, *, place):
    lines = [["0.5" for _ in header()], [field if name == place else "0.25" for name in header()]]
    path = folder / "communities.data"
    path.write_text("".join(f"{','.join(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(("text", "words"), [("1,2,3\n", "line 1"), ("", "128 fields")])
def test_a_file_of_another_shape_is_refused(tmp_path, text, words):
    path = tmp_path / "communities.data"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_communities(path)
