from dataclasses import replace

import pytest
from report_sample import BLACK, make_champion, make_report, make_trials

from tasks.report.narrative import limits_of
from tasks.report.tables import trial_grid


def text_of(report, title):
    return next((limit.text for limit in limits_of(report) if title in limit.title), "")


@pytest.mark.parametrize(
    "title",
    ["not a reason to automate", "turned against people", "exclude each other", "One data set"],
)
def test_the_standing_cautions_are_always_there(title):
    assert text_of(make_report(champion=None), title)


def test_misuse_names_what_was_removed():
    assert "the share of Black residents" in text_of(make_report(), "turned against")


@pytest.mark.parametrize(
    ("approximation", "cure"),
    [("exact", "A Nystroem approximation keeps"), ("nystroem", "landmarks")],
)
def test_rows_inside_the_model_are_counted(approximation, cure):
    champion = replace(make_champion((BLACK,)), approximation=approximation)
    text = text_of(make_report(champion=champion), "file contains data")
    assert "1,594" in text
    assert cure in text


def test_searched_parameters_are_told_beside_the_numbers():
    first, *others = make_trials((BLACK,))
    report = make_report(trials=(replace(first, searched=True), *others))
    assert "SVR-FKD" in text_of(report, "look a little too good")
    cells = [row.cells[0].text for row in trial_grid(report).rows]
    assert cells[:2] == ["SVR-FKD ‡", "SVR-FKD"]
    assert not text_of(make_report(), "look a little too good")


def test_a_model_without_rows_needs_no_caution():
    champion = replace(make_champion((BLACK,)), stored_rows=0)
    assert not text_of(make_report(champion=champion), "file contains data")


def test_unused_survey_weights_are_named():
    report = make_report()
    weighted = replace(report, data=replace(report.data, survey_weight="PWGTP"))
    assert "PWGTP" in text_of(weighted, "Survey weights were not used")
    assert "these communities" in text_of(report, "Every row counts the same")


def test_used_survey_weights_are_named_with_their_uses():
    report = make_report()
    data = replace(
        report.data, survey_weight="PWGTP", weighed=("what was removed", "every measure")
    )
    text = text_of(replace(report, data=data), "Rows count by PWGTP")
    assert "weighed in what was removed and every measure" in text
    assert "checks of drift, proxies and collapse" in text
    assert not text_of(replace(report, data=data), "Survey weights were not used")


def test_methods_that_need_the_attribute_are_named():
    report = make_report(trials=make_trials((BLACK,), needs_sensitive=True))
    assert "KRR-FKL" in text_of(report, "need the attribute")
    assert not text_of(make_report(), "need the attribute")
