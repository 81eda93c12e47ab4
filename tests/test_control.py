import pytest
from pydantic import ValidationError

from configs.data import DataConfig
from configs.load import dump_config, load_config


def test_no_control_leaves_no_trace_in_a_configuration_or_its_digest():
    config = load_config("default")
    assert config.data.control == ()
    assert "control" not in dump_config(config)
    assert load_config("default", ["data.control=[]"]).digest == config.digest
    assert load_config("default", ["data.control=[medIncome]"]).digest != config.digest


def test_a_control_is_written_out_and_read_again(tmp_path):
    config = load_config("default", ["data.control=medIncome"])
    assert config.data.control == ("medIncome",)
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config))
    assert load_config(path).digest == config.digest


def test_inputs_kept_columns_the_target_and_other_sensitive_columns_may_control():
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
        ({"control": ["medIncome"], "drop": ["medIncome"]}, "which data.drop leaves out"),
    ],
)
def test_a_control_that_cannot_be_meant_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        DataConfig.model_validate(keys)
