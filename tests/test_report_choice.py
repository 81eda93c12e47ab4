from dataclasses import replace

import pytest
from report_sample import BLACK, WHITE, changed, held_out, make_champion, make_report, make_trials

from tasks.report.choice import (
    deciding_sentence,
    limit_sentences,
    person_sentences,
    policy_sentence,
    recoverability_sentence,
)
from tasks.report.model import (
    Recoverability,
    ReportedInterval,
    ReportedNumber,
    SelectionPolicy,
    SensitiveColumn,
    TargetColumn,
)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            SelectionPolicy("least", subject_to={"gdp": 0.02, "hgr": 0.3}),
            "a mean GDP of at most 0.02 and HGR of at most 0.3 take the one with the least MAE",
        ),
        (SelectionPolicy("least"), "take the least MAE"),
        (SelectionPolicy("knee", measure="pf"), "the knee of the front of PF against MAE"),
    ],
)
def test_the_policy_is_told_in_words(policy, words):
    assert words in policy_sentence(replace(make_champion((BLACK,)), policy=policy))


@pytest.mark.parametrize(
    ("deciding", "words"),
    [
        ({"mae": 0.118, "gdp": 0.0197}, "where this setting has MAE 0.1180 and GDP 0.0197"),
        ({}, "its numbers differ a little from those in the figures"),
    ],
)
def test_the_rows_and_numbers_that_decided_are_told(deciding, words):
    sentence = deciding_sentence(replace(make_champion((BLACK,)), deciding=deciding))
    assert "folds inside 1,594 rows only" in sentence
    assert words in sentence


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ReportedInterval(0.015, 0.012, 0.018), "keeps the limit of 0.02."),
        (ReportedInterval(0.019, 0.017, 0.021), "keeps the limit of 0.02, though the interval"),
        (ReportedInterval(0.022, 0.019, 0.025), "exceeds the limit of 0.02, though the interval"),
        (ReportedInterval(0.030, 0.027, 0.033), "exceeds the limit of 0.02."),
    ],
)
def test_a_limit_is_checked_on_held_out_rows(found, words):
    champion = make_champion((BLACK,))
    scores = replace(champion.held_out, scores={BLACK: {"gdp": found}})
    (sentence,) = limit_sentences(make_report(champion=replace(champion, held_out=scores)))
    assert words in sentence


def test_without_champion_nothing_is_said_of_limits_or_persons():
    assert limit_sentences(make_report(champion=None)) == ()
    assert person_sentences(make_report(champion=None)) == ()


@pytest.mark.parametrize(("after", "share"), [(0.412, "41 %"), (-0.3, "nothing")])
def test_the_best_probe_speaks_for_all(after, share):
    column = SensitiveColumn("age")
    rows = (
        Recoverability("age", "ridge", ReportedNumber(0.5), ReportedNumber(-0.5)),
        Recoverability("age", "boosting", ReportedNumber(0.92), ReportedNumber(after)),
        Recoverability("income", "ridge", ReportedNumber(0.99), ReportedNumber(0.99)),
    )
    sentence = recoverability_sentence(make_report(recoverability=rows), column)
    assert "(boosting) explains 92 % of the variation of age" in sentence
    assert f"and {share} (boosting) after it" in sentence


def test_a_person_learns_what_entered_what_is_left_and_how_wrong_it_can_be():
    inputs, left, error = person_sentences(
        make_report(target=TargetColumn("y", "yearly income", "dollars", 100_000.0))
    )
    assert "not given the share of Black residents" in inputs
    assert "by about 1,890 dollars (with nothing removed: 5,510)" in left
    assert "a prediction of yearly income is off by 12,710 dollars" in error


def test_several_columns_are_spoken_of_in_the_plural():
    inputs, left, _ = person_sentences(make_report((BLACK, WHITE)))
    assert "part of what its inputs say about them has been taken out" in inputs
    assert left.count("the average prediction differs") == 2


def test_a_constant_prediction_moves_with_nothing():
    still = held_out(0.18, 0.0, 0.0, 0.0, (BLACK,))
    sentences = person_sentences(
        make_report(champion=replace(make_champion((BLACK,)), held_out=still))
    )
    assert len(sentences) == 2


def test_a_person_learns_that_the_attribute_will_be_asked_for():
    champion = replace(make_champion((BLACK,)), trial="trial-12", reference=None)
    report = make_report(champion=champion, trials=make_trials((BLACK,), needs_sensitive=True))
    inputs, left, _ = person_sentences(report)
    assert inputs.startswith("This model asks for")
    assert "with nothing removed" not in left


def test_a_person_learns_that_nothing_was_removed():
    champion = replace(make_champion((BLACK,)), trial="trial-0")
    told = person_sentences(make_report(champion=champion))[0]
    assert "nothing of what its inputs say about it has been taken out" in told


def test_a_person_is_told_which_inputs_stand_in_for_the_attribute():
    report = make_report()
    proxies = (("the share of white residents", 0.794), ("the share with low income", 0.413))
    columns = (replace(report.columns[0], proxies=proxies),)
    told = person_sentences(replace(report, columns=columns))[0]
    assert (
        "but the inputs that go along with it most remain: the share of white residents "
        "(correlation 0.79) and the share with low income (correlation 0.41)"
    ) in told


def test_a_removal_that_cannot_be_shown_is_not_claimed():
    champion = make_champion((BLACK,))
    unchanged = changed(champion.held_out, champion.held_out)
    told = person_sentences(make_report(champion=replace(champion, changes=unchanged)))[0]
    assert "these rows cannot show that the removal has taken out any of that" in told


def test_a_person_learns_of_a_constant():
    champion = replace(make_champion((BLACK,)), trial="dummy")
    told = person_sentences(make_report(champion=champion))[0]
    assert told == "This model predicts the same for everybody."


def test_a_person_learns_that_the_attribute_is_an_input():
    report = make_report()
    column = replace(report.columns[0], is_input=True)
    assert "among its inputs" in person_sentences(replace(report, columns=(column,)))[0]


def test_a_model_that_removes_nothing_is_compared_with_nothing():
    champion = replace(make_champion((BLACK,)), trial="trial-0")
    rows = (Recoverability(BLACK, "ridge", ReportedNumber(0.8), ReportedNumber(0.8)),)
    report = make_report(champion=champion, recoverability=rows)
    assert "with nothing removed" not in " ".join(person_sentences(report))
    told = recoverability_sentence(report, report.columns[0])
    assert told.endswith("nothing was removed from them.")
    assert "after" not in told
