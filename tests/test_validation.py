import numpy as np
import pytest

from configs.errors import UserError
from tasks.data.columns import Category, Columns
from tasks.data.validation import check_limits, column_report, report_text


@pytest.fixture
def columns():
    return Columns(
        numbers={"AGEP": np.array([17.0, 94.0, np.nan]), "void": np.full(3, np.nan)},
        categories={
            "SEX": Category(np.array([0, 1, -1]), ("1", "2")),
            "PUMA": Category(np.array([0, 1, 1]), ("PUMA10:100", "PUMA20:100")),
        },
        rows_read=3,
    )


def test_the_report_tells_what_each_column_holds(columns):
    report = {line["column"]: line for line in column_report(columns)}
    assert report["AGEP"] == {
        "column": "AGEP",
        "kind": "number",
        "missing": 1,
        "least": 17.0,
        "greatest": 94.0,
    }
    assert report["void"]["missing"] == 3
    assert report["SEX"] == {"column": "SEX", "kind": "labels", "missing": 1, "levels": 2}


def test_the_report_reads_as_an_aligned_table(columns):
    lines = report_text(column_report(columns)).split("\n")
    assert lines[0].split() == ["column", "kind", "missing", "least", "greatest", "levels"]
    assert lines[1].split() == ["AGEP", "number", "1", "17", "94"]
    assert lines[1].index("number") == lines[0].index("kind")


def test_possible_values_pass(columns):
    check_limits(columns, {"AGEP": (0, 120), "SEX": (1, 2), "PUMA": (0, 1), "no": (0, 1)}, file="f")


def test_every_impossible_value_is_reported_at_once(columns):
    with pytest.raises(UserError) as raised:
        check_limits(columns, {"AGEP": (0, 20), "SEX": (1, 1)}, file="psam_p30.csv")
    text = str(raised.value)
    assert "psam_p30.csv" in text
    assert "AGEP must lie in [0, 20], got 94 in 1 rows" in text
    assert "SEX must lie in [1, 1], got 2 in 1 rows" in text
    assert "fetch it again" in text
