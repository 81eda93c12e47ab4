import numpy as np
import pytest

from configs.errors import UserError
from fkd.measures.groups import control_groups
from fkd.problems.table import Table
from tasks.data.load import Loaded
from tasks.select.control_columns import check_control_columns, control_columns


@pytest.fixture
def table():
    size = np.array([1.0, np.nan, 3.0, 3.0])
    return Table(
        numeric_names=("size", "rooms"),
        numeric=np.stack([size, np.array([1.0, 2.0, 3.0, 4.0])], axis=1),
        categorical_names=("kind",),
        codes=np.array([[0], [1], [-1], [0]], dtype=np.int32),
        levels=(("house", "flat"),),
        target_name="rent",
        target=np.array([10.0, 20.0, 30.0, 20.0]),
        sensitive_names=("age", "income"),
        sensitive=np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0], [4.0, 6.0]]),
        target_range=(10.0, 30.0),
        sensitive_range=np.array([[1.0, 4.0], [5.0, 6.0]]),
        extra={"year": np.array([2018, 2018, 2019, 2019])},
        gaps=("size",),
    )


def groups(table, *names):
    found = control_groups(control_columns(table, names), table.n)
    return {group.label: group.index.tolist() for group in found}


def test_columns_of_every_role_make_groups(table):
    assert groups(table, "rooms") == {"1": [0], "2": [1], "3": [2], "4": [3]}
    assert groups(table, "year") == {"2018": [0, 1], "2019": [2, 3]}
    assert groups(table, "rent") == {"10": [0], "20": [1, 3], "30": [2]}
    assert groups(table, "income") == {"5": [0, 1], "6": [2, 3]}


def test_what_is_missing_is_a_group_of_its_own(table):
    assert groups(table, "kind") == {"flat": [1], "house": [0, 3], "missing": [2]}
    assert groups(table, "size") == {"1": [0], "3": [2, 3], "missing": [1]}


def test_columns_combine(table):
    assert groups(table, "year", "kind") == {
        "2018 / flat": [1],
        "2018 / house": [0],
        "2019 / house": [3],
        "2019 / missing": [2],
    }


def test_a_column_that_the_table_has_not_kept_is_refused_with_the_reason(table):
    story = {"columns_left_out": {"floor": "constant in these rows"}}
    loaded = Loaded(table, "digest", story)
    check_control_columns(loaded, ["size", "kind", "rent", "year", "income"])
    with pytest.raises(UserError, match=r"data.control .* 'floor' \(constant in these rows\)"):
        check_control_columns(loaded, ["size", "floor"])
