"""How a champion is chosen where a configuration says much, little or nothing of it."""

import pytest

from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config

METHODS = {"methods": ["krr_fkd"]}


def selected(**more):
    return parse_config({**METHODS, **more}, "mine.yaml").select


def test_without_a_word_it_is_the_knee_of_gdp():
    assert selected().knee_of == "gdp"
    assert selected(select={"inner_folds": 3}).knee_of == "gdp"


def test_null_still_means_none():
    assert selected(select=None) is None


@pytest.mark.parametrize("policy", [{"minimise": "mae"}, {"subject_to": {"hgr": 0.2}}])
def test_least_error_is_what_one_asks_for(policy):
    assert selected(select=policy).knee_of is None


def test_a_policy_survives_being_written_out(tmp_path):
    for policy in ({"minimise": "mae"}, {"inner_folds": 3}, {"subject_to": {"pf": 0.1}}):
        config = parse_config({**METHODS, "select": policy}, "mine.yaml")
        (tmp_path / "again.yaml").write_text(dump_config(config))
        assert load_config(tmp_path / "again.yaml") == config


@pytest.mark.parametrize("key", ["gate", "select.subject_to"])
@pytest.mark.parametrize("limit", [20, -0.1])
def test_a_limit_on_another_scale_is_refused_with_the_scale(key, limit):
    with pytest.raises(UserError) as told:
        load_config("default", [f"{key}={{gdp: {limit}}}"])
    assert "a limit on gdp must lie between 0 and 1" in str(told.value)
    assert "share of the target's range" in str(told.value)
    assert f"got {limit}" in str(told.value)


@pytest.mark.parametrize("limit", [0, 1])
def test_both_ends_of_the_scale_are_limits(limit):
    assert selected(select={"subject_to": {"hgr": limit}}).subject_to == {"hgr": limit}
