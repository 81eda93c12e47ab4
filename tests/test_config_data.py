import pytest
from pydantic import ValidationError

from configs.data import DataConfig, FoldsConfig


def own(**changes):
    keys = {
        "problem": "table",
        "path": "a.csv",
        "target": "y",
        "sensitive": "age",
        "numeric": ["x"],
    }
    return DataConfig.model_validate({**keys, **changes})


def test_the_default_is_the_embedded_data_set():
    data = DataConfig()
    assert (data.problem, data.source) == ("crimes", "embedded")
    assert data.sensitive == data.measure_on == data.drop == ("racepctblack",)


def test_measured_and_dropped_columns_follow_the_sensitive_ones():
    data = DataConfig(sensitive=("racepctblack", "racePctWhite"))
    assert data.drop == data.measure_on == ("racepctblack", "racePctWhite")


def test_every_column_that_is_removed_or_measured_is_listed_once():
    data = DataConfig(sensitive=("racepctblack",), measure_on=("racePctWhite", "racepctblack"))
    assert data.sensitive_columns == ("racepctblack", "racePctWhite")


def test_a_census_problem_has_the_papers_choice_by_default():
    data = DataConfig(problem="acs_income")
    assert (data.states, data.year, data.horizon) == (("MT",), (2018,), "1-Year")
    assert (data.source, data.sensitive) == ("census", ("AGEP",))


def test_inputs_are_scaled_as_the_user_says_else_as_the_problem_does():
    assert DataConfig().input_scale == "none"
    assert DataConfig(problem="acs_income").input_scale == "minmax"
    assert DataConfig(problem="acs_income", scale="zscore").input_scale == "zscore"


def test_one_name_stands_for_a_list_of_one():
    data = DataConfig.model_validate({"problem": "acs_income", "states": "ID", "year": 2017})
    assert (data.states, data.year) == (("ID",), (2017,))


def test_an_own_table_keeps_a_sensitive_column_that_is_no_input():
    assert own().drop == ()
    assert own(numeric=["x", "age"]).drop == ("age",)
    assert own().declaration.sensitive == ("age",)


@pytest.mark.parametrize(
    "data",
    [
        DataConfig(),
        DataConfig(problem="acs_travel_time", year=(2016, 2017)),
        DataConfig(problem="acs_income", source="synthetic"),
        own(keep=["year"], scale="zscore"),
    ],
)
def test_a_resolved_configuration_loads_to_the_same_value(data):
    assert DataConfig.model_validate(data.model_dump(mode="json")) == data


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"problem": "crime"}, "nearest is 'crimes'"),
        ({"problem": ["crimes"]}, "data.problem must be one of"),
        ({"source": "census"}, r"data.source must be one of embedded, uci, got 'census'"),
        ({"sensitive": ["racepctBlack"]}, "nearest is 'racepctblack'"),
        ({"measure_on": ["racePctwhite"]}, "nearest is 'racePctWhite'"),
        ({"sensitive": []}, "at least one"),
        ({"sensitive": ["racepctblack", "racepctblack"]}, "once"),
        ({"drop": ["ViolentCrimesPerPop"]}, "data.drop"),
        ({"states": ["MT"]}, "data.states has a meaning for the census problems only"),
        ({"path": "a.csv"}, "data.path has a meaning for problem table only"),
        ({"twin": {"rows": 5}}, "data.twin has a meaning for source synthetic only"),
        ({"problem": "acs_income", "year": 2020}, "2020 has no standard"),
        ({"problem": "acs_income", "states": ["MX"]}, "data.states"),
        ({"problem": "acs_income", "states": []}, "data.states must not be empty"),
        ({"problem": "acs_income", "horizon": "2-Year"}, "horizon"),
        ({"problem": "acs_income", "sensitive": ["SEX"]}, "data.sensitive"),
        ({"scale_on": "test"}, "scale_on"),
        ({"scale": "max"}, "scale"),
        ({"sample": 1}, "sample"),
        ({"missing": "zero"}, "needs problem crimes with source uci.*source embedded"),
        ({"problem": "acs_income", "missing": "zero"}, "needs problem crimes"),
        ({"labels": "codes"}, "data.labels: codes has a meaning for the census problems only"),
        ({"source": "uci", "drop": ["PolicCars"]}, "data.drop"),
        ({"sensitve": ["x"]}, "sensitve"),
        ({"problem": "table"}, "data.path must be given"),
        ({"problem": "table", "path": "a.csv", "target": "y"}, "data.sensitive must be given"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        DataConfig.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"numeric": []}, "must name an input"),
        ({"numeric": ["x"], "categorical": ["x"]}, r"got twice \['x'\]"),
        ({"numeric": ["x", "y"]}, r"got twice \['y'\]"),
    ],
)
def test_an_own_table_with_odd_columns_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        own(**keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"k": 1}, "greater than or equal to 2"),
        ({"kind": "grouped"}, "folds.by must name"),
        ({"by": "PUMA"}, "no meaning for kind shuffled"),
        ({"kind": "stratified"}, "kind"),
    ],
)
def test_folds_that_cannot_be_meant_are_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        FoldsConfig.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"sensitive": "y"}, "data.target must not be a sensitive column, got 'y' for both"),
        ({"measure_on": "y"}, "data.target must not be a sensitive column"),
        ({"numeric": ["x", "x"]}, "got twice \\['x'\\]"),
        ({"categorical": ["x"]}, "got twice \\['x'\\]"),
        ({"sensitive": None}, "data.sensitive must be given for problem table, got none"),
        ({"sensitive": ["s", "s"]}, "data.sensitive must name each column once"),
        ({"keep": ["t", "t"]}, "data.keep must name each column once"),
        ({"encoding": "klingon"}, "data.encoding must be auto or an encoding"),
        ({"missing": "impute", "scale_on": "all"}, "data.scale_on must be"),
    ],
)
def test_an_own_tables_columns_are_held_against_each_other_before_any_work(keys, words):
    plain = {"problem": "table", "path": "a.csv", "target": "y", "sensitive": "s", "numeric": "x"}
    DataConfig.model_validate(plain)
    with pytest.raises(ValueError, match=words):
        DataConfig.model_validate({**plain, **keys})
