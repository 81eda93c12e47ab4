import math
from datetime import UTC, datetime

import pytest

from tasks.report.html import (
    change,
    count,
    day,
    duration,
    in_unit,
    joined,
    shown,
    with_interval,
    with_std,
    with_std_in_unit,
)
from tasks.report.model import ReportedNumber, TargetColumn
from tasks.select.results import value_text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.12345, 3, "0.123"),
        (12345.6, 0, "12,346"),
        (-0.5, 2, "−0.50"),
        (-0.0001, 3, "0.000"),
        (math.nan, 3, "–"),
        (math.inf, 3, "–"),
    ],
)
def test_numbers_are_shown_with_a_fixed_number_of_decimals(value, decimals, text):
    assert shown(value, decimals) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (ReportedNumber(0.5, 0.01), "0.500 ± 0.010"),
        (ReportedNumber(0.5), "0.500"),
        (ReportedNumber(0.5, math.nan), "0.500"),
    ],
)
def test_an_estimate_without_spread_shows_its_mean_only(estimate, text):
    assert with_std(estimate, 3) == text


def test_an_interval_breaks_only_before_its_bracket():
    text = with_interval((0.2, 0.1, 0.3), 1)
    assert text.split(" ") == ["0.2", "(0.1\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}0.3)"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (TargetColumn("income", "dollars", 899_890.0), "8,999 dollars"),
        (TargetColumn("minutes to work", "minutes", 199.0), "1.99 minutes"),
        (TargetColumn("crimes"), "0.0100 on a scale from 0 to 1"),
    ],
)
def test_errors_are_told_in_the_unit_of_the_target(target, text):
    assert in_unit(0.01, target) == text


def test_mean_and_spread_share_their_decimals():
    target = TargetColumn("minutes to work", "minutes", 199.0)
    assert with_std_in_unit(ReportedNumber(0.08, 0.001), target) == "15.9 ± 0.2"
    assert with_std_in_unit(ReportedNumber(0.08), target) == "15.9"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(1.0, 1.36, "+36 %"), (1.0, 0.34, "−66 %"), (1.0, 1.0, "0 %"), (0.0, 1.0, "–")],
)
def test_a_change_is_a_signed_percentage(before, after, text):
    assert change(before, after) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "under 0.1 s"),
        (1.26, "1.3 s"),
        (42.4, "42 s"),
        (83.4, "1 min 23 s"),
        (3725, "1 h 2 min"),
        (math.nan, "–"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.050, "0.05"), (True, "yes"), (None, "none"), ("rbf", "rbf"), (10, "10")]
)
def test_parameters_are_shown_without_trailing_zeros(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_joined_as_a_person_would(words, text):
    assert joined(words) == text


def test_counts_and_dates_read_naturally():
    assert count(1994) == "1,994"
    assert day(datetime(2026, 11, 3, tzinfo=UTC)) == "3 November 2026"
