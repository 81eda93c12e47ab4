"""The shipped Communities and Crime table and the synthetic census."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd import FairKernelRidge, datasets
from fkd.datasets import load_crimes, make_census
from fkd.measures import gdp
from fkd.problems import PROBLEMS


def test_crimes_have_the_declared_columns():
    crimes, declared = load_crimes(), PROBLEMS["crimes"]
    assert crimes.data.shape == (1993, 98)
    assert crimes.target.shape == crimes.sensitive.shape == crimes.fold.shape == (1993,)
    assert crimes.frame is None
    assert crimes.target_names == ["ViolentCrimesPerPop"]
    assert crimes.sensitive_names == ["racepctblack"]
    assert {*crimes.feature_names, *crimes.sensitive_names} == {*declared.numeric}
    assert "racepctblack" not in crimes.feature_names


def test_crimes_are_on_the_scale_of_uci():
    crimes = load_crimes()
    values = np.column_stack([crimes.data, crimes.sensitive, crimes.target])
    assert_allclose([values.min(), values.max()], [0.0, 1.0])
    white = crimes.data[:, crimes.feature_names.index("racePctWhite")]
    means = [crimes.sensitive.mean(), white.mean(), crimes.target.mean()]
    # UCI's means over all 1994 rows; the one absent row can move them by 5e-4.
    assert_allclose(means, [0.1796, 0.7537, 0.2380], atol=6e-4)
    assert set(crimes.fold) == set(range(1, 11))


def test_a_changed_file_is_refused(monkeypatch):
    monkeypatch.setattr(datasets, "CRIMES_SHA256", "0" * 64)
    with pytest.raises(RuntimeError, match=r"crimes\.csv\.gz.*Reinstall"):
        load_crimes()


def test_descriptions_name_their_source():
    text = load_crimes().DESCR
    assert "CC BY 4.0" in text
    assert datasets.CRIMES_SHA256 in text
    text = make_census(20).DESCR
    assert text.startswith("**Synthetic data")
    assert PROBLEMS["acs_income"].datasheet in text


@pytest.mark.parametrize(
    "make",
    [
        load_crimes,
        lambda **options: make_census(300, **options),
        lambda **options: make_census(300, problem="acs_travel_time", **options),
    ],
    ids=["crimes", "income", "travel_time"],
)
def test_frames_hold_the_same_numbers(make):
    plain, framed = make(), make(as_frame=True)
    assert list(framed.data.columns) == plain.feature_names
    names = [*plain.feature_names, *plain.sensitive_names, *plain.target_names]
    assert list(framed.frame.columns) == names
    assert_array_equal(framed.data.astype("Float64").to_numpy(np.float64, np.nan), plain.data)
    pd.testing.assert_series_equal(framed.target, framed.frame[plain.target_names[0]])
    assert_array_equal(framed.sensitive, plain.sensitive)
    labels = [name for name, kind in framed.data.dtypes.items() if kind == "category"]
    assert labels == plain.categorical_names == framed.categorical_names


@pytest.mark.parametrize("problem", ["acs_income", "acs_travel_time"])
def test_census_tables_have_the_rows_and_columns_of_the_problem(problem):
    census, declared = make_census(700, problem=problem), PROBLEMS[problem]
    assert census.data.shape == (700, len(census.feature_names))
    assert census.target_names == [declared.target]
    assert census.sensitive_names == ["AGEP"]
    # The state is constant and left out.
    assert set(declared.predictors) - {"AGEP", "ST"} == set(census.feature_names)
    numbers = [name not in census.categorical_names for name in census.feature_names]
    assert np.isfinite(census.data[:, numbers]).all()
    assert np.isfinite(census.target).all()
    assert census.sensitive.min() > 16
    assert census.sample_weight.min() >= 1


def test_the_seed_decides_the_table():
    first, again, other = make_census(50), make_census(50), make_census(50, random_state=1)
    assert_array_equal(first.data, again.data)
    assert np.abs(first.target - other.target).max() > 0
    generator = make_census(50, random_state=np.random.default_rng(1))
    assert_array_equal(generator.target, other.target)
    assert len(make_census(1).target) == 1


@pytest.mark.parametrize(("problem", "least"), [("acs_income", 5000.0), ("acs_travel_time", 0.3)])
def test_the_target_depends_on_age(problem, least):
    census = make_census(5000, problem=problem)
    shuffled = np.random.default_rng(0).permutation(census.sensitive)
    assert gdp(census.target, census.sensitive) > least
    assert gdp(census.target, census.sensitive) > 3 * gdp(census.target, shuffled)


def test_persons_have_rough_marginals_of_the_census():
    persons = datasets.draw_persons(20_000, np.random.default_rng(0), state=30)
    assert 35 < persons["AGEP"].mean() < 48
    assert 0.4 < (persons["ESR"] == 1).mean() < 0.6
    assert 15_000 < np.nanmedian(persons["PINCP"]) < 40_000
    assert 12 < np.nanmedian(persons["JWMNP"]) < 30
    assert 0.03 < (persons["JWTR"] == 11).sum() / (persons["ESR"] == 1).sum() < 0.12
    works = persons["ESR"] == 1
    age = np.digitize(persons["AGEP"][works], [17, 26, 41, 56, 71])
    income = [np.median(persons["PINCP"][works][age == k]) for k in range(1, 5)]
    single = [(persons["MAR"][works][age == k] == 5).mean() for k in range(1, 5)]
    assert income[2] > 2 * income[0]
    assert single[0] > 0.5 > 0.15 > single[3]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"n_samples": 0}, "n_samples"), ({"n_samples": 5, "problem": "crimes"}, "problem")],
)
def test_impossible_tables_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        make_census(**options)


def test_a_fit_names_the_column_of_a_missing_code():
    census = make_census(300, problem="acs_travel_time", as_frame=True)
    with pytest.raises(ValueError, match=r"X must be finite, got NaN in column '[A-Z]+'"):
        FairKernelRidge().fit(census.data, census.target, sensitive_features=census.sensitive)
