import numpy as np
import pandas as pd
import pytest

from fkd.measures.groups import control_groups, level_names


def sizes(control, n=None):
    n = len(control) if n is None else n
    return {group.label: len(group.index) for group in control_groups(control, n)}


def test_words_and_few_numbers_are_levels():
    assert sizes(["b", "a", "b"]) == {"a": 1, "b": 2}
    assert sizes([2018, 2019, 2018]) == {"2018": 2, "2019": 1}
    assert sizes(np.arange(10)) == {str(i): 1 for i in range(10)}
    assert sizes([True, False, True]) == {"False": 1, "True": 2}


def test_more_than_ten_numbers_are_cut_into_fifths():
    assert sizes(np.arange(11)) == {
        "0 to 2": 3,
        "3 to 4": 2,
        "5 to 6": 2,
        "7 to 8": 2,
        "9 to 10": 2,
    }
    assert list(sizes(np.arange(1000.0)).values()) == [200] * 5
    assert len(sizes([f"word {i}" for i in range(11)])) == 11


def test_equal_numbers_stay_together():
    control = np.concatenate([np.zeros(900), np.arange(1, 101)])
    assert sizes(control) == {"0": 900, "1 to 100": 100}


def test_rows_below_a_common_greatest_value_are_a_group_of_their_own():
    control = np.concatenate([np.full(900, 200), np.arange(100)])
    assert sizes(control) == {"0 to 99": 100, "200": 900}


def test_labels_have_the_digits_that_tell_groups_apart():
    assert list(sizes([1_000_000.1, 1_000_000.2])) == ["1000000.1", "1000000.2"]


def test_combinations_of_several_columns_are_the_groups():
    control = pd.DataFrame({"kind": ["a", "b", "a", "a"], "year": [1, 1, 2, 2]})
    assert sizes(control) == {"a / 1": 1, "a / 2": 2, "b / 1": 1}
    assert sizes([("a", 1), ("b", 1), ("a", 2), ("a", 2)]) == sizes(control)


def test_labels_that_read_alike_are_no_reason_to_join_groups():
    groups = control_groups([("a / b", "c"), ("a", "b / c")], 2)
    assert [group.label for group in groups] == ["a / b / c", "a / b / c"]
    assert sorted(int(group.index[0]) for group in groups) == [0, 1]


def test_numbers_in_a_column_of_objects_are_numbers():
    mixed = np.empty((100, 2), dtype=object)
    mixed[:, 0] = list(range(100))
    mixed[:, 1] = "x"
    assert list(sizes(mixed).values()) == [20] * 5


def test_each_group_holds_the_positions_of_its_rows_in_their_order():
    (a, b) = control_groups(["b", "a", "b", "a"], 4)
    assert (a.index.tolist(), b.index.tolist()) == ([1, 3], [0, 2])
    assert level_names(np.array([3, 1, 3])) == ["3", "1", "3"]


@pytest.mark.parametrize(
    ("control", "words"),
    [
        ([1.0, np.nan, 2.0], "no missing values, got 1 in column 0, the first in row 1; drop"),
        (["a", None, None], "no missing values, got 2 in column 0, the first in row 1"),
        (pd.Series([1, None, 2], dtype="Int64"), "no missing values"),
        (pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}), "column 1"),
        (np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"), "missing"),
        ([1.0, np.inf, 2.0], "finite, got infinity in column 0"),
        ([1, 2], r"one row per prediction \(3\), got 2"),
        (np.zeros((3, 1, 1)), "one column or a table"),
        (np.zeros((3, 0)), "at least one column"),
        ([[1], [1, 2], [3]], "unequal length"),
        (np.ma.masked_equal([1, 2, 3], 2), "must not be masked"),
    ],
)
def test_control_columns_that_make_no_groups_are_refused(control, words):
    with pytest.raises(ValueError, match=words):
        control_groups(control, 3)
