"""Raw columns: merged, checked, reported, turned into a table."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.table import encode_labels
from tasks.data.columns import (
    Category,
    Columns,
    check_limits,
    column_report,
    merge,
    merge_categories,
    report_text,
    to_table,
)


def labels_in_rows(column):
    return [column.labels[code] if code >= 0 else None for code in column.codes]


def test_merged_categories_keep_the_label_of_every_row():
    first = Category(np.array([0, 1, -1]), ("10", "9"))
    second = Category(np.array([1, 0, -1, 0]), ("a", "10"))
    merged = merge_categories([first, second])
    assert merged.labels == ("9", "10", "a")
    assert labels_in_rows(merged) == ["10", "9", None, "10", "a", None, "a"]


@given(
    rows=st.lists(st.sampled_from(["", "1", "2", "10", "b", "a"]), min_size=2, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=3),
)
def test_labels_do_not_depend_on_how_rows_are_split(rows, cuts):
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [
        Category(*encode_labels(np.arange(stop - start), rows[start:stop]))
        for start, stop in pairwise(edges)
    ]
    whole = Category(*encode_labels(np.arange(len(rows)), rows))
    merged = merge_categories(parts)
    assert merged.labels == whole.labels
    assert_array_equal(merged.codes, whole.codes)


def test_merging_adds_up_rows_and_reasons():
    parts = [
        Columns({"x": np.array([1.0])}, {}, rows_read=3, dropped={"young": 2}),
        Columns({"x": np.array([2.0, 3.0])}, {}, rows_read=4, dropped={"young": 1, "poor": 1}),
    ]
    merged = merge(parts)
    assert_array_equal(merged.numbers["x"], [1.0, 2.0, 3.0])
    assert merged.rows_read == 7
    assert merged.dropped == {"young": 3, "poor": 1}


@pytest.fixture
def data():
    return DataConfig(
        problem="table",
        path="x.csv",
        target="y",
        sensitive=("age", "share"),
        numeric=("age", "x", "flat"),
        categorical=("job", "same"),
        keep=("group", "time"),
    )


@pytest.fixture
def columns():
    rng = np.random.default_rng(2)
    n = 30
    numbers = {name: rng.normal(size=n) for name in ("y", "age", "share", "x")}
    numbers |= {"flat": np.ones(n), "time": np.repeat([2016.0, 2017.0], 15)}
    categories = {
        "job": Category(rng.integers(-1, 3, n), ("a", "b", "c")),
        "same": Category(np.zeros(n, dtype=np.int64), ("only",)),
        "group": Category(rng.integers(-1, 2, n), ("left", "right")),
    }
    return Columns(numbers, categories, rows_read=n)


def test_constant_and_dropped_columns_are_no_inputs(data, columns):
    table, left_out = to_table(data, columns)
    assert table.numeric_names == ("x",)
    assert table.categorical_names == ("job",)
    assert left_out == {
        "age": "dropped by the configuration",
        "flat": "constant in these rows",
        "same": "constant in these rows",
    }


def test_a_sensitive_column_need_not_be_an_input(data, columns):
    table, _ = to_table(data, columns)
    assert table.sensitive_names == ("age", "share")
    assert_array_equal(table.sensitive[:, 1], columns.numbers["share"])


def test_kept_columns_are_whole_numbers_or_text(data, columns):
    table, _ = to_table(data, columns)
    assert table.extra["time"].dtype == np.int64
    assert set(table.extra["group"]) == {"", "left", "right"}


def test_ranges_are_those_of_all_rows(data, columns):
    table, _ = to_table(data, columns)
    assert table.target_range == (columns.numbers["y"].min(), columns.numbers["y"].max())


def test_a_table_may_have_labels_alone(data, columns):
    only = data.model_copy(update={"numeric": ("flat",), "drop": ()})
    table, _ = to_table(only, columns)
    assert table.numeric.shape == (30, 0)
    assert table.codes.dtype == np.int32


@pytest.fixture
def census_columns():
    return Columns(
        numbers={"AGEP": np.array([17.0, 94.0, np.nan]), "void": np.full(3, np.nan)},
        categories={
            "SEX": Category(np.array([0, 1, -1]), ("1", "2")),
            "PUMA": Category(np.array([0, 1, 1]), ("PUMA10:100", "PUMA20:100")),
        },
        rows_read=3,
    )


def test_the_report_describes_each_column(census_columns):
    report = {line["column"]: line for line in column_report(census_columns)}
    assert report["AGEP"] == {
        "column": "AGEP",
        "kind": "number",
        "missing": 1,
        "least": 17.0,
        "greatest": 94.0,
    }
    assert report["void"]["missing"] == 3
    assert report["SEX"] == {"column": "SEX", "kind": "labels", "missing": 1, "levels": 2}


def test_the_report_is_an_aligned_table(census_columns):
    lines = report_text(column_report(census_columns)).split("\n")
    assert lines[0].split() == ["column", "kind", "missing", "least", "greatest", "levels"]
    assert lines[1].split() == ["AGEP", "number", "1", "17", "94"]
    assert lines[1].index("number") == lines[0].index("kind")


def test_possible_values_are_accepted(census_columns):
    check_limits(
        census_columns, {"AGEP": (0, 120), "SEX": (1, 2), "PUMA": (0, 1), "no": (0, 1)}, file="f"
    )


def test_every_impossible_value_is_reported_at_once(census_columns):
    with pytest.raises(UserError) as raised:
        check_limits(census_columns, {"AGEP": (0, 20), "SEX": (1, 1)}, file="psam_p30.csv")
    text = str(raised.value)
    assert "psam_p30.csv" in text
    assert "AGEP must be in [0, 20], got 94 in 1 rows" in text
    assert "SEX must be in [1, 1], got 2 in 1 rows" in text
    assert "Fetch it again" in text
