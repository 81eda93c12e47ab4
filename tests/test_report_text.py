from dataclasses import replace

import pytest
from report_sample import BLACK, WHITE, held_out, make_champion, make_report, make_trials

from tasks.report.contents import ReportedNoiseFloor
from tasks.report.text import compare, reference_trial, result_sentences, task_sentence


def told(report):
    return " ".join(result_sentences(report))


def test_the_task_names_target_rows_data_and_what_was_removed():
    sentence = task_sentence(make_report())
    assert "violent crimes per population" in sentence
    assert "98 columns of data on 1,993 communities (Communities and Crime)" in sentence
    assert "the share of Black residents" in sentence


def test_nothing_is_said_of_removal_where_nothing_was_removed():
    report = make_report()
    column = replace(report.columns[0], removed=False)
    assert "leaning" not in task_sentence(replace(report, columns=(column,)))


def test_the_comparison_prefers_held_out_rows():
    comparison = compare(make_report())
    assert comparison.where == "on the held-out rows"
    assert comparison.before.mae.value == 0.0932


def test_without_a_held_out_reference_the_folds_are_compared():
    champion = replace(make_champion((BLACK,)), reference=None)
    comparison = compare(make_report(champion=champion))
    assert comparison.where == "in cross-validation"
    assert (comparison.before.mae.value, comparison.after.mae.value) == (0.0915, 0.1250)
    assert comparison.against == "the same model with nothing removed"


def test_the_reference_is_the_chosen_setting_with_nothing_removed():
    report = make_report()
    krr = replace(report, champion=replace(report.champion, trial="trial-8"))
    assert reference_trial(krr).key == "trial-6"


def test_a_method_without_untreated_setting_is_compared_with_the_most_accurate():
    report = make_report()
    trials = tuple(trial for trial in report.trials if trial.key != "trial-0")
    champion = replace(report.champion, reference=None)
    report = replace(report, trials=trials, champion=champion)
    assert compare(report).against == "KRR-FKD with iterations 0"


def test_what_is_left_and_what_it_cost_is_told():
    text = told(make_report())
    assert "its dependence on the share of Black residents fell: HGR from 0.577 to 0.391" in text
    assert "GDP from 0.0551 to 0.0189 and PF from 0.296 to 0.111" in text
    assert "The price is accuracy: the mean absolute error went from 0.0932 to 0.1271" in text
    assert "(+36 %)" in text


def test_a_measure_that_rose_is_not_said_to_have_fallen():
    worse = held_out(0.09, 0.7, 0.06, 0.2, (BLACK,))
    text = told(make_report(champion=replace(make_champion((BLACK,)), held_out=worse)))
    assert "fell" not in text
    assert "It cost no accuracy" in text


@pytest.mark.parametrize(
    ("upper", "verdict"),
    [(0.152, "the dependence that is left is real"), (0.5, "cannot be told from none")],
)
def test_what_is_left_is_compared_with_the_noise_floor(upper, verdict):
    report = make_report()
    column = replace(report.columns[0], noise_floor=ReportedNoiseFloor(0.1, upper, 399, 200))
    assert verdict in told(replace(report, columns=(column,)))


def test_the_floor_on_held_out_rows_goes_before_that_of_a_fold():
    champion = replace(
        make_champion((BLACK,)), noise_floor={BLACK: ReportedNoiseFloor(0.3, 0.4, 90, 200)}
    )
    text = told(make_report(champion=champion))
    assert "an HGR of about 0.30, so the HGR that is left cannot be told from none" in text


def test_columns_above_and_below_the_floor_are_told_apart():
    champion = replace(
        make_champion((BLACK, WHITE)), noise_floor={WHITE: ReportedNoiseFloor(0.3, 0.4, 90, 200)}
    )
    text = told(make_report((BLACK, WHITE), champion=champion))
    assert "what is left on the share of Black residents is real" in text
    assert "what is left on the share of white residents cannot be told from none" in text


def test_an_untreated_champion_is_compared_with_nothing():
    champion = replace(make_champion((BLACK,)), trial="trial-0", reference=None)
    text = told(make_report(champion=champion))
    assert "Compared" not in text
    assert "mean absolute error on the held-out rows is 0.1271" in text


@pytest.mark.parametrize("reason", ["No trial keeps GDP at most 0.001.", ""])
def test_without_champion_the_reason_is_told(reason):
    text = told(make_report(champion=None, no_champion=reason))
    assert text == (reason or "No model was chosen; the figures show what can be had.")


def test_dummies_are_no_reference():
    trials = make_trials((BLACK,))[-1:]
    assert reference_trial(make_report(trials=trials, champion=None)) is None
