import pytest

from configs.errors import UserError
from fkd.problems.crimes import PREDICTORS
from tasks.data.communities import header, read_communities


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


@pytest.mark.parametrize(("text", "words"), [("1,2,3\n", "line 1"), ("", "128 fields")])
def test_a_file_of_another_shape_is_refused(tmp_path, text, words):
    path = tmp_path / "communities.data"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_communities(path)
