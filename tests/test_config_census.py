import pytest

from configs.data import FIPS, check_release, expand_states


def test_all_means_every_state_with_the_district_of_columbia():
    states = expand_states(("all",))
    assert len(states) == 51
    assert "DC" in states
    assert "PR" not in states


def test_states_are_written_in_capitals():
    assert expand_states(("mt", "ID")) == ("MT", "ID")
    assert FIPS["MT"] == "30"


def test_an_unknown_state_is_named():
    with pytest.raises(ValueError, match=r"data\.states.*got 'MX'"):
        expand_states(("MX",))


def test_a_state_named_twice_is_refused():
    with pytest.raises(ValueError, match="once"):
        expand_states(("MT", "mt"))


def test_the_year_without_a_standard_release_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"2020 has no standard 1-Year release.*2019, 2021"):
        check_release(2020, "1-Year")
    check_release(2020, "5-Year")


@pytest.mark.parametrize(
    ("year", "horizon"), [(2004, "1-Year"), (2008, "5-Year"), (2014, "3-Year"), (2006, "3-Year")]
)
def test_releases_that_never_were_are_refused(year, horizon):
    with pytest.raises(ValueError, match=rf"{horizon} releases.*got {year}"):
        check_release(year, horizon)


@pytest.mark.parametrize(
    ("year", "horizon"), [(2005, "1-Year"), (2018, "1-Year"), (2024, "5-Year"), (2013, "3-Year")]
)
def test_published_releases_pass(year, horizon):
    check_release(year, horizon)
