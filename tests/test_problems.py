import folktables.acs
import numpy as np
import pandas as pd
import pytest

from fkd.problems import PROBLEMS


def test_every_problem_is_registered_under_its_name():
    assert set(PROBLEMS) == {"crimes", "acs_income", "acs_travel_time"}
    assert all(problem.name == name for name, problem in PROBLEMS.items())


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_a_declaration_holds_together(name):
    problem = PROBLEMS[name]
    assert set(problem.sensitive) <= set(problem.sensitive_options) <= set(problem.numeric)
    assert set(problem.numeric).isdisjoint(problem.categorical)
    assert problem.target not in problem.predictors
    assert set(problem.fills) <= set(problem.numeric)
    assert problem.datasheet.startswith("# ")


@pytest.mark.parametrize(
    ("name", "theirs"), [("acs_income", "ACSIncome"), ("acs_travel_time", "ACSTravelTime")]
)
def test_features_and_targets_are_those_of_folktables(name, theirs):
    original = getattr(folktables.acs, theirs)
    assert set(PROBLEMS[name].predictors) == set(original.features)
    assert PROBLEMS[name].target == original.target


@pytest.mark.parametrize(
    ("name", "filtering"),
    [("acs_income", "adult_filter"), ("acs_travel_time", "travel_time_filter")],
)
def test_row_filters_look_only_at_the_columns_they_name(name, filtering):
    rng = np.random.default_rng(0)
    rows = PROBLEMS[name].rows
    frame = pd.DataFrame({column: rng.choice([0, 1, 40, 300], 500) for column in rows.columns})
    kept = rows.keep(frame)
    assert 0 < len(kept) < len(frame)
    pd.testing.assert_frame_equal(kept, getattr(folktables.acs, filtering)(frame))
