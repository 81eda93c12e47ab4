"""The configuration of data: defaults, options of sources, columns, folds."""

import pytest
from pydantic import ValidationError

from configs.data import FIPS, DataConfig, FoldsConfig, check_release, expand_states
from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config


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


def test_sensitive_columns_are_the_removed_and_the_measured_ones():
    data = DataConfig(sensitive=("racepctblack",), measure_on=("racePctWhite", "racepctblack"))
    assert data.sensitive_columns == ("racepctblack", "racePctWhite")


def test_a_census_problem_has_the_defaults_of_the_paper():
    data = DataConfig(problem="acs_income")
    assert (data.states, data.year, data.horizon) == (("MT",), (2018,), "1-Year")
    assert (data.source, data.sensitive) == ("census", ("AGEP",))


def test_the_scale_is_configured_or_that_of_the_problem():
    assert DataConfig().input_scale == "none"
    assert DataConfig(problem="acs_income").input_scale == "minmax"
    assert DataConfig(problem="acs_income", scale="zscore").input_scale == "zscore"


def test_one_name_is_a_list_of_one():
    data = DataConfig.model_validate({"problem": "acs_income", "states": "ID", "year": 2017})
    assert (data.states, data.year) == (("ID",), (2017,))


def test_a_sensitive_column_that_is_no_input_is_not_dropped():
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
def test_a_dumped_configuration_loads_to_the_same_value(data):
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
        (
            {"states": ["MT"]},
            r"data.states.*applies to problem acs_income.*census or synthetic only, got.*embedded",
        ),
        ({"path": "a.csv"}, "data.path: a.csv applies to problem table"),
        ({"synthetic": {"rows": 5}}, "data.synthetic.*with source synthetic only"),
        ({"problem": "acs_income", "year": 2020}, "2020 has no standard"),
        ({"problem": "acs_income", "states": ["MX"]}, "data.states"),
        ({"problem": "acs_income", "states": []}, "data.states must be given"),
        ({"problem": "acs_income", "horizon": "2-Year"}, "horizon"),
        ({"problem": "acs_income", "sensitive": ["SEX"]}, "data.sensitive"),
        ({"scale_on": "test"}, "scale_on"),
        ({"scale": "max"}, "scale"),
        ({"sample": 1}, "sample"),
        (
            {"missing": "zero"},
            "data.missing: zero applies to problem crimes with source uci",
        ),
        ({"problem": "acs_income", "missing": "zero"}, "applies to problem crimes"),
        ({"labels": "codes"}, "data.labels: codes applies to problem acs_income"),
        ({"source": "uci", "drop": ["PolicCars"]}, "data.drop"),
        ({"sensitve": ["x"]}, "sensitve"),
        ({"problem": "table"}, "data.path must be given"),
        ({"problem": "table", "path": "a.csv", "target": "y"}, "data.numeric or data.categorical"),
    ],
)
def test_an_invalid_configuration_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        DataConfig.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"numeric": []}, "must name an input"),
        ({"numeric": ["x"], "categorical": ["x"]}, r"got \['x'\] twice"),
        ({"numeric": ["x", "y"]}, r"got \['y'\] twice"),
    ],
)
def test_invalid_columns_of_a_users_table_are_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        own(**keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"k": 1}, "greater than or equal to 2"),
        ({"kind": "grouped"}, "folds.by must name"),
        ({"by": "PUMA"}, "folds.by does not apply to kind shuffled"),
        ({"kind": "stratified"}, "kind"),
    ],
)
def test_invalid_folds_are_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        FoldsConfig.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"sensitive": "y"}, "data.target must not be a sensitive column, got 'y' for both"),
        ({"measure_on": "y"}, "data.target must not be a sensitive column"),
        ({"numeric": ["x", "x"]}, r"got \['x'\] twice"),
        ({"categorical": ["x"]}, r"got \['x'\] twice"),
        ({"sensitive": None}, "data.sensitive must name at least one column, got none"),
        ({"sensitive": ["s", "s"]}, "data.sensitive must name each column once"),
        ({"keep": ["t", "t"]}, "data.keep must name each column once"),
        ({"encoding": "klingon"}, "data.encoding must be auto or an encoding"),
        ({"missing": "impute", "scale_on": "all"}, "data.scale_on must be"),
    ],
)
def test_contradictory_columns_of_a_users_table_are_refused(keys, words):
    plain = {"problem": "table", "path": "a.csv", "target": "y", "sensitive": "s", "numeric": "x"}
    DataConfig.model_validate(plain)
    with pytest.raises(ValueError, match=words):
        DataConfig.model_validate({**plain, **keys})


def test_all_means_every_state_with_the_district_of_columbia():
    states = expand_states(("all",))
    assert len(states) == 51
    assert "DC" in states
    assert "PR" not in states


def test_states_are_converted_to_capitals():
    assert expand_states(("mt", "ID")) == ("MT", "ID")
    assert FIPS["MT"] == "30"


def test_an_unknown_state_is_refused():
    with pytest.raises(ValueError, match=r"data\.states.*got 'MX'"):
        expand_states(("MX",))


def test_a_state_named_twice_is_refused():
    with pytest.raises(ValueError, match="once"):
        expand_states(("MT", "mt"))


def test_the_year_without_a_standard_release_is_refused():
    with pytest.raises(ValueError, match=r"2020 has no standard 1-Year release.*2019, 2021"):
        check_release(2020, "1-Year")
    check_release(2020, "5-Year")


@pytest.mark.parametrize(
    ("year", "horizon"), [(2004, "1-Year"), (2008, "5-Year"), (2014, "3-Year"), (2006, "3-Year")]
)
def test_unpublished_releases_are_refused(year, horizon):
    with pytest.raises(ValueError, match=rf"{horizon} releases.*got {year}"):
        check_release(year, horizon)


@pytest.mark.parametrize(
    ("year", "horizon"), [(2005, "1-Year"), (2018, "1-Year"), (2024, "5-Year"), (2013, "3-Year")]
)
def test_published_releases_are_accepted(year, horizon):
    check_release(year, horizon)


def test_a_control_is_part_of_the_digest():
    config = load_config("default")
    assert config.data.control == ()
    assert load_config("default", ["data.control=[]"]).digest == config.digest
    assert load_config("default", ["data.control=[medIncome]"]).digest != config.digest


def test_a_control_survives_a_dump(tmp_path):
    config = load_config("default", ["data.control=medIncome"])
    assert config.data.control == ("medIncome",)
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config))
    assert load_config(path).digest == config.digest


def test_inputs_the_target_and_other_sensitive_columns_may_control():
    DataConfig(control=("medIncome", "ViolentCrimesPerPop"))
    DataConfig(problem="acs_income", control=("SCHL", "ST"))
    both = ("racepctblack", "racePctWhite")
    DataConfig(sensitive=both, measure_on=("racepctblack",), control=("racePctWhite",))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"control": ["medincome"]}, "data.control must be one of .*nearest is 'medIncome'"),
        ({"control": ["racepctblack"]}, "must not name a measured column, got 'racepctblack'"),
        ({"control": ["medIncome", "medIncome"]}, "data.control must name each column once"),
        ({"control": ["medIncome"], "drop": ["medIncome"]}, "listed under data.drop"),
    ],
)
def test_an_invalid_control_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        DataConfig.model_validate(keys)


TEXTS = {
    "title": "Rents of Berlin",
    "row_noun": "flats",
    "description": "Made up for a **test**.",
    "titles": {"rent": "monthly rent", "age": "age of the tenant"},
    "units": {"rent": "euros", "age": "years"},
    "descriptions": {"size": "Living space, cellar | attic left out"},
}


def tree(**texts):
    return {
        "name": "rents",
        "data": {
            "problem": "table",
            "path": "rents.csv",
            "target": "rent",
            "sensitive": "age",
            "numeric": ["size"],
            "categorical": ["district"],
            **texts,
        },
        "methods": ["dummy", "krr_fkd"],
    }


def config_of(**texts):
    return parse_config(tree(**texts), "rents")


def test_texts_do_not_change_the_digest():
    assert config_of(**TEXTS).digest == config_of().digest
    other = config_of(titles={"rent": "net rent"})
    assert other.digest == config_of().digest
    assert config_of(numeric=["size", "rooms"]).digest != config_of().digest


def test_texts_survive_a_dump(tmp_path):
    config = config_of(**TEXTS)
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config))
    again = load_config(path).data
    assert (again.titles, again.units) == (config.data.titles, config.data.units)
    assert "titles" not in dump_config(load_config("default"))


def test_texts_become_those_of_the_problem():
    problem = config_of(**TEXTS).data.declaration
    assert problem.title == "Rents of Berlin"
    assert problem.target_unit == "euros"
    assert problem.titles["age"] == "age of the tenant"
    assert problem.row_noun == "flats"
    assert "Made up for a **test**." in problem.datasheet
    assert "| rent | target | monthly rent | euros |  |" in problem.datasheet
    assert "| size | number |  |  | Living space, cellar \\| attic left out |" in problem.datasheet


def test_without_texts_the_names_are_used():
    problem = config_of().data.declaration
    assert (problem.title, problem.target_unit) == ("rents.csv", "units of rent")


@pytest.mark.parametrize(
    ("texts", "fragment"),
    [
        ({"titles": {"rnt": "monthly rent"}}, "rent"),
        ({"units": {"age": ""}}, "one line"),
        ({"titles": {"age": "two\nlines"}}, "one line"),
        ({"titles": {"age": "x" * 81}}, "80 characters"),
        ({"descriptions": {"age": "  "}}, "descriptions"),
    ],
)
def test_invalid_texts_are_refused(texts, fragment):
    with pytest.raises(UserError, match=fragment):
        config_of(**texts)


def test_texts_of_declared_problems_are_fixed():
    with pytest.raises(UserError, match=r"data\.titles.*applies to problem table"):
        load_config("default", ["data.titles={racepctblack: race}"])
