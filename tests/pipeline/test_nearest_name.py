import pytest

from configs.errors import UserError, check_name
from configs.load import parse_config


def test_a_valid_name_passes():
    assert check_name("crimes", ["crimes", "table"], key="data.problem") == "crimes"


@pytest.mark.parametrize(
    ("name", "meant"), [("crime", "crimes"), ("CRIMES", "crimes"), ("tabel", "table")]
)
def test_a_misspelt_name_is_answered_by_the_nearest(name, meant):
    with pytest.raises(ValueError, match=rf"data\.problem.*got '{name}'; the nearest is '{meant}'"):
        check_name(name, ["crimes", "table"], key="data.problem")


def test_a_name_like_no_other_gets_the_list_alone():
    with pytest.raises(ValueError, match=r"one of crimes, table, got 'xyzzy'$"):
        check_name("xyzzy", ["crimes", "table"], key="data.problem")


def test_two_letters_that_changed_places_are_the_smallest_slip():
    with pytest.raises(ValueError, match="the nearest is 'krr_fkd'"):
        check_name("krr_fdk", ["krr", "krr_fkl", "krr_fkd", "krr_fkd_printed"], key="name")


@pytest.mark.parametrize(("name", "now"), [("mu", "penalty"), ("mu_scale", "penalty_scale")])
def test_a_renamed_key_is_refused_with_its_present_name(name, now):
    methods = [{"name": "krr_fkl", "grid": {name: ["n"]}}]
    with pytest.raises(UserError, match=rf"got '{name}'.*now called '{now}'"):
        parse_config({"data": {"problem": "crimes"}, "methods": methods}, "mine.yaml")
