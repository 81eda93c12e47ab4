"""Sources of rows: the registry, and the file of UCI."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems import PROBLEMS
from fkd.problems.crimes import CRIMES, PREDICTORS
from fkd.problems.declaration import TABLE, TABLE_SOURCES
from tasks.data.columns import to_table
from tasks.data.sources import OPENERS, communities_header, read_communities


def test_the_header_has_ucis_128_names():
    names = communities_header()
    assert len(names) == len(set(names)) == 128
    assert set(PREDICTORS) < set(names)
    assert names[:5] == ["state", "county", "community", "communityname", "fold"]
    assert names[-1] == "ViolentCrimesPerPop"


def test_columns_with_missing_values_are_left_out(tmp_path):
    line = [("0.5" if name in PREDICTORS else "?") for name in communities_header()]
    line[3], line[4], line[-1] = "Somecity", "7", "0.25"
    path = tmp_path / "communities.data"
    path.write_text(f"{','.join(line)}\n" * 3)
    columns = read_communities(path)
    assert columns.rows_read == 3
    assert set(columns.numbers) == {"fold", *PREDICTORS, "ViolentCrimesPerPop"}
    assert columns.numbers["fold"].tolist() == [7.0, 7.0, 7.0]


def test_columns_with_missing_values_are_read_if_the_problem_has_them(tmp_path):
    line = ["?" if name in CRIMES.incomplete else "0.5" for name in communities_header()]
    full = ["0.75" if name in CRIMES.incomplete else "0.5" for name in communities_header()]
    path = tmp_path / "communities.data"
    path.write_text(f"{','.join(line)}\n{','.join(full)}\n")
    numbers = read_communities(path, CRIMES.with_incomplete()).numbers
    assert len(CRIMES.incomplete) == 23
    for name in CRIMES.incomplete:
        assert_array_equal(numbers[name], [np.nan, 0.75])
    assert_array_equal(numbers["population"], [0.5, 0.5])


def test_the_error_for_a_missing_value_names_the_column(tmp_path):
    columns = read_communities(_file(tmp_path, "?", column="population"))
    with pytest.raises(ValueError, match="population"):
        to_table(DataConfig(source="uci"), columns)


def _file(folder, field, *, column):
    lines = [
        ["0.5" for _ in communities_header()],
        [field if name == column else "0.25" for name in communities_header()],
    ]
    path = folder / "communities.data"
    path.write_text("".join(f"{','.join(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(("text", "words"), [("1,2,3\n", "line 1"), ("", "128 fields")])
def test_a_file_of_another_shape_is_refused(tmp_path, text, words):
    path = tmp_path / "communities.data"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_communities(path)


def declared():
    """Every problem with its sources, that of a user's table among them."""
    return {**{name: p.sources for name, p in PROBLEMS.items()}, TABLE: TABLE_SOURCES}


def test_every_declared_source_has_an_opener_and_the_reverse():
    assert {name: set(openers) for name, openers in OPENERS.items()} == {
        name: set(sources) for name, sources in declared().items()
    }


def test_every_option_of_a_source_is_a_key_of_data():
    for sources in declared().values():
        for option in (option for options in sources.values() for option in options):
            assert option.partition("=")[0] in DataConfig.model_fields
