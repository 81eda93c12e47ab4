"""Declared problems against folktables, and the problem of a user's table."""

from dataclasses import replace

import folktables.acs
import numpy as np
import pandas as pd
import pytest

from fkd.problems import PROBLEMS
from fkd.problems.declaration import table_problem


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_a_declaration_is_consistent(name):
    problem = PROBLEMS[name]
    assert problem.name == name
    assert set(problem.sensitive) <= set(problem.sensitive_options) <= set(problem.numeric)
    assert set(problem.numeric).isdisjoint(problem.categorical)
    assert set(problem.numeric).isdisjoint(problem.incomplete)
    assert problem.target not in problem.predictors
    assert set(problem.fills) <= set(problem.numeric)
    assert len(set(problem.columns)) == len(problem.columns)
    assert problem.datasheet.startswith("# ")


@pytest.mark.parametrize(
    ("name", "theirs", "row_filter"),
    [
        ("acs_income", "ACSIncome", "adult_filter"),
        ("acs_travel_time", "ACSTravelTime", "travel_time_filter"),
    ],
)
def test_census_problems_are_those_of_folktables(name, theirs, row_filter):
    problem, original = PROBLEMS[name], getattr(folktables.acs, theirs)
    assert set(problem.predictors) == set(original.features)
    assert problem.target == original.target
    rng = np.random.default_rng(0)
    # Values on both sides of every bound, missing ones included.
    values = [np.nan, 0.0, 1.0, 16.0, 17.0, 40.0, 100.0, 101.0]
    columns = {column: rng.choice(values, 4000) for column in problem.rows.columns}
    kept = np.flatnonzero(problem.rows.keep(columns))
    assert 0 < len(kept) < 4000
    expected = getattr(folktables.acs, row_filter)(pd.DataFrame(columns))
    np.testing.assert_array_equal(kept, expected.index)


def test_incomplete_columns_become_inputs_with_missing_values_as_zero():
    crimes = PROBLEMS["crimes"]
    whole = crimes.with_incomplete()
    assert len(crimes.numeric) == 99
    assert whole.numeric == crimes.numeric + crimes.incomplete
    assert whole.fills == dict.fromkeys(crimes.incomplete, 0.0)
    assert whole.with_incomplete() == whole


def test_labels_become_numbers_with_missing_labels_as_zero():
    problem = replace(PROBLEMS["acs_travel_time"], fills={"POVPIP": 3.0})
    coded = problem.with_codes()
    assert coded.numeric == problem.predictors
    assert coded.categorical == ()
    assert coded.fills == {"POVPIP": 3.0, **dict.fromkeys(problem.categorical, 0.0)}


def test_a_table_is_described_by_its_columns():
    problem = table_problem(
        path="folder/rents.csv",
        target="rent",
        sensitive=["age"],
        numeric=["size"],
        categorical=["town"],
        extra=["year"],
        units={"size": "m²"},
        descriptions={"town": "one | two\nlines"},
    )
    assert (problem.title, problem.target_unit, problem.row_noun) == (
        "rents.csv",
        "units of rent",
        "rows",
    )
    assert problem.sensitive_options == ("age", "size")
    lines = problem.datasheet.splitlines()
    assert lines[0] == "# rents.csv"
    assert lines[-5:] == [
        "| rent | target |  |  |  |",
        "| age | sensitive |  |  |  |",
        "| size | number |  | m² |  |",
        "| town | label |  |  | one \\| two lines |",
        "| year | kept for folds |  |  |  |",
    ]
