import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fkd.problems.labels import canonical_label, code_labels, labels_of, numbers_of


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1", "1"),
        ("01", "1"),
        (" 1.0 ", "1"),
        ("+1", "1"),
        (np.int32(1), "1"),
        (np.float64(1.0), "1"),
        ("00100", "100"),
        ("000", "0"),
        ("-0", "0"),
        (-9, "-9"),
        ("-0009", "-9"),
        ("1.5", "1.5"),
        (1.5, "1.5"),
        ("1e3", "1e3"),
        ("561M", "561M"),
        (True, "true"),
        ("False", "false"),
        ("Not in", "Not in"),
        (None, ""),
        (np.nan, ""),
        ("", ""),
        ("  ", ""),
    ],
)
def test_a_label_does_not_depend_on_how_it_was_written(value, label):
    assert canonical_label(value) == label


def test_labels_are_sorted_by_number_then_by_text():
    _, labels = labels_of(pd.Series(["b", "10", "9", "a", "-1"]))
    assert labels == ("-1", "9", "10", "a", "b")


def test_two_spellings_of_a_label_share_a_code():
    codes, labels = labels_of(pd.Series(["01", "1", 1, 1.0, None, "2"], dtype=object))
    assert labels == ("1", "2")
    assert_array_equal(codes, [0, 0, 0, 0, -1, 1])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1.0, np.nan, 2.0]),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["1", None, "2"], dtype="string"),
        pd.Series(["1", None, "2"], dtype="category"),
        pd.Series([1, pd.NA, 2], dtype=object),
    ],
)
def test_every_kind_of_missing_value_is_missing(column):
    codes, labels = labels_of(column)
    assert labels == ("1", "2")
    assert_array_equal(codes, [0, -1, 1])


def test_a_place_without_a_label_is_missing():
    codes, labels = code_labels(np.array([0, 1, -1, 2]), ["b", "", "a"])
    assert labels == ("a", "b")
    assert_array_equal(codes, [1, -1, -1, 0])


def test_numbers_may_come_as_text():
    assert_array_equal(numbers_of(pd.Series(["1", "2.5"]), name="x", may_lack=False), [1.0, 2.5])


def test_a_missing_number_is_filled_or_refused():
    column = pd.Series([1.0, None])
    assert_array_equal(numbers_of(column, name="x", may_lack=True), [1.0, np.nan])
    with pytest.raises(ValueError, match="column x must hold finite numbers, got 1"):
        numbers_of(column, name="x", may_lack=False)


@pytest.mark.parametrize("column", [pd.Series(["a"]), pd.Series(["1", object()], dtype=object)])
def test_what_is_no_number_is_refused_by_name(column):
    with pytest.raises(ValueError, match="column x must hold numbers"):
        numbers_of(column, name="x", may_lack=False)
