from dataclasses import replace

import pytest
from report_sample import (
    BLACK,
    TITLES,
    WHITE,
    changed,
    held_out,
    make_champion,
    make_report,
    make_trials,
    rejudged,
)

from configs.run import SelectConfig
from tasks.report.model import SensitiveColumn, TargetColumn
from tasks.report.narrative import (
    cautions_of,
    deciding_sentence,
    finding_of,
    limit_sentences,
    person_sentences,
    policy_sentence,
    recoverability_sentence,
    task_sentence,
    tiles_of,
)
from tasks.report.tables import trial_table
from tasks.select.judgement import Recovered


def told(report):
    return " ".join(finding_of(report).sentences)


def test_the_task_names_target_rows_data_and_what_was_removed():
    sentence = task_sentence(make_report())
    assert "violent crimes per population" in sentence
    assert "98 columns of data on 1,993 communities (Communities and Crime)" in sentence
    assert "the share of Black residents" in sentence


def test_nothing_is_said_of_removal_where_nothing_was_removed():
    report = make_report()
    column = replace(report.columns[0], removed=False)
    assert "dependence" not in task_sentence(replace(report, columns=(column,)))


def champion_with(after, before, doubt=0.1, **changes):
    """The sample's champion with other numbers, which are (MAE, HGR, GDP, PF)."""
    after, before = held_out(*after, (BLACK,)), held_out(*before, (BLACK,))
    found = {"held_out": after, "reference": before, "changes": changed(after, before, doubt)}
    return replace(rejudged(make_champion((BLACK,)), **found), **changes)


def test_what_fell_and_what_it_cost_is_told():
    text = told(make_report())
    assert (
        "its dependence on the share of Black residents fell: HGR from 0.577 to 0.391, "
        "GDP from 0.0551 to 0.0189 and PF from 0.296 to 0.111"
    ) in text
    assert "cost accuracy: the mean absolute error rose from 0.0932 to 0.1271" in text
    assert "(+36 %)" in text


def test_what_rose_is_said_to_have_risen():
    champion = champion_with((0.127, 0.4, 0.02, 0.19), (0.093, 0.6, 0.05, 0.013))
    text = told(make_report(champion=champion))
    assert "fell: HGR from 0.600 to 0.400 and GDP from 0.0500 to 0.0200." in text
    assert "residents rose: PF from 0.013 to 0.190." in text


def test_a_change_within_noise_is_neither_praised_nor_blamed():
    champion = champion_with((0.0930, 0.107, 0.0201, 0.09), (0.0932, 0.107, 0.0203, 0.091))
    text = told(make_report(champion=champion))
    assert (
        "did not change beyond noise: HGR from 0.107 to 0.107, GDP from 0.0203 to 0.0201 and "
        "PF from 0.091 to 0.090."
    ) in text
    assert "from 0.0932 to 0.0930 on a scale from 0 to 1 (0 %), which is within noise" in text
    for word in ("fell", "rose", "cost"):
        assert word not in text


def test_an_error_that_fell_cost_nothing():
    champion = champion_with((0.08, 0.4, 0.02, 0.1), (0.1, 0.6, 0.05, 0.3), 0.05)
    assert "cost no accuracy: the mean absolute error fell from" in told(
        make_report(champion=champion)
    )


@pytest.mark.parametrize(("after", "way"), [(0.09321, "rose"), (0.09319, "fell")])
def test_an_error_that_moved_by_less_than_its_figures_is_no_price(after, way):
    champion = champion_with((after, 0.4, 0.02, 0.1), (0.0932, 0.6, 0.05, 0.3), 1e-5)
    text = told(make_report(champion=champion))
    assert (
        f"The mean absolute error {way} by less than its last digit (0.0932 on a scale from 0 to 1 "
        "before and after)."
    ) in text
    assert "from 0.0932 to 0.0932" not in text


def test_nothing_removed_is_said_as_such():
    same = (0.0932, 0.111, 0.0551, 0.296)
    champion = champion_with(same, same, trial="trial-0")
    text = told(make_report(champion=champion))
    assert "It removes nothing" in text
    assert "HGR 0.111, GDP 0.0551 and PF 0.296" in text
    assert "mean absolute error is 0.0932" in text
    for word in ("fell", "rose", "cost", "Compared"):
        assert word not in text


def test_a_constant_is_called_one():
    champion = champion_with((0.18, 0, 0, 0), (0.18, 0, 0, 0), trial="dummy")
    text = told(make_report(champion=champion))
    assert "It predicts a constant" in text
    assert "removes nothing" not in text


def test_without_an_untreated_trial_nothing_is_said_of_changes():
    champion = rejudged(make_champion((BLACK,)), reference=None, changes=None)
    text = told(make_report(champion=champion))
    assert "was not among the trials, so the effect of the removal and its cost are unknown" in text
    assert "HGR 0.391, GDP 0.0189 and PF 0.111" in text


@pytest.mark.parametrize("source", ["policy", "gate"])
def test_a_broken_limit_is_the_first_thing_told(source):
    champion = make_champion((BLACK,))
    policy = SelectConfig(subject_to={"gdp": 0.01} if source == "policy" else {})
    gate = {"gdp": 0.01} if source == "gate" else {}
    report = make_report(champion=replace(champion, policy=policy, gate_limits=gate))
    (first,) = finding_of(report).broken
    assert first == (
        "The chosen model breaks its limit: GDP on the share of Black residents is 0.0189 "
        "(0.0170\xa0to\xa00.0208) on the held-out rows, above 0.01."
    )
    kept = replace(champion, policy=SelectConfig(subject_to={"gdp": 0.02}))
    assert "breaks" not in told(make_report(champion=kept))


def test_of_two_limits_on_one_measure_the_stricter_counts():
    champion = replace(make_champion((BLACK,)), gate_limits={"gdp": 0.005, "mae": 0.1})
    assert champion.limits == {"gdp": 0.005}


@pytest.mark.parametrize(
    ("upper", "verdict"),
    [(0.152, "the remaining HGR exceeds noise"), (0.5, "the remaining HGR is within noise")],
)
def test_what_is_left_is_compared_with_the_noise_floor(upper, verdict):
    report = make_report()
    column = replace(report.columns[0], noise_floor={"hgr": (0.1, upper)})
    assert verdict in told(replace(report, columns=(column,)))


def test_columns_above_and_below_the_floor_are_told_apart():
    report = make_report((BLACK, WHITE))
    black, white = report.columns
    columns = black, replace(white, noise_floor={"hgr": (0.3, 0.4)})
    text = told(replace(report, columns=columns))
    assert "on the share of Black residents exceeds noise" in text
    assert "on the share of white residents it is within noise" in text


def test_a_measure_without_a_floor_has_no_sentence():
    report = make_report()
    column = replace(report.columns[0], noise_floor={"pf": (0.02, 0.05)})
    text = told(replace(report, columns=(column,)))
    assert "have a mean PF of about 0.02, so the remaining PF exceeds noise" in text
    assert "mean HGR of" not in text


@pytest.mark.parametrize("reason", ["No trial keeps GDP at most 0.001.", ""])
def test_without_champion_the_reason_is_told(reason):
    text = told(make_report(champion=None, no_champion=reason))
    assert text == (reason or "No model was chosen. The figures show all trials.")


@pytest.mark.parametrize(
    ("after", "word"),
    [
        ((0.127, 0.4, 0.02, 0.05), "fell"),
        ((0.127, 0.8, 0.08, 0.5), "rose"),
        ((0.127, 0.4, 0.02, 0.5), "fell and rose"),
        ((0.0932, 0.6, 0.05, 0.3), "within noise"),
    ],
)
def test_what_was_found_is_one_word(after, word):
    champion = champion_with(after, (0.093, 0.6, 0.05, 0.3))
    champion = replace(champion, policy=SelectConfig(minimise="mae"))
    assert finding_of(make_report(champion=champion)).word == word


def test_nothing_removed_is_never_called_a_fall():
    same = (0.0932, 0.111, 0.0551, 0.296)
    champion = champion_with(same, same, trial="trial-0")
    champion = replace(champion, policy=SelectConfig(minimise="mae"))
    assert finding_of(make_report(champion=champion)).word == "nothing removed"
    broken = replace(champion, gate_limits={"gdp": 0.01})
    assert finding_of(make_report(champion=broken)).word == "limit broken; nothing removed"


def test_error_comes_first_then_the_measures_with_what_they_were():
    tiles = tiles_of(make_report())
    assert [tile.value for tile in tiles] == ["0.1271", "0.391", "0.0189", "0.111"]
    assert [tile.change for tile in tiles] == [
        "rose 36 %, from 0.0932",
        "fell 32 %, from 0.577",
        "fell 66 %, from 0.0551",
        "fell 62 %, from 0.296",
    ]
    assert tiles[1].title == "HGR, maximal correlation"


def test_a_change_within_noise_has_no_direction():
    champion = make_champion((BLACK,))
    wide = changed(champion.judgement.held_out, champion.judgement.reference, doubt=2.0)
    tiles = tiles_of(make_report(champion=rejudged(champion, changes=wide)))
    assert tiles[1].change == "within noise of 0.577"


def test_every_column_has_its_tiles():
    titles = [tile.title for tile in tiles_of(make_report((BLACK, WHITE)))]
    assert titles[4:] == [f"{m}, {TITLES[WHITE]}" for m in ("HGR", "GDP", "PF")]


def test_the_error_stands_in_the_targets_own_unit():
    target = TargetColumn("income", "dollars", 100_000.0)
    assert tiles_of(make_report(target=target))[0].value == "12,710 dollars"


def test_without_champion_there_are_no_tiles():
    assert tiles_of(make_report(champion=None)) == []


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            SelectConfig(subject_to={"gdp": 0.02, "hgr": 0.3}),
            "a mean GDP of at most 0.02 and HGR of at most 0.3, the one with the smallest MAE",
        ),
        (SelectConfig(minimise="mae"), "the smallest MAE"),
        (SelectConfig(knee_of="pf"), "the knee of the front of PF against MAE"),
    ],
)
def test_the_policy_is_told_in_words(policy, words):
    assert words in policy_sentence(replace(make_champion((BLACK,)), policy=policy))


@pytest.mark.parametrize(
    ("deciding", "words"),
    [
        ({"mae": 0.118, "gdp": 0.0197}, "this setting has MAE 0.1180 and GDP 0.0197"),
        ({}, "its numbers differ slightly from those in the figures"),
    ],
)
def test_the_rows_and_numbers_that_decided_are_told(deciding, words):
    sentence = deciding_sentence(replace(make_champion((BLACK,)), deciding=deciding))
    assert "folds within 1,594 rows only" in sentence
    assert words in sentence


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((0.015, 0.012, 0.018), "within the limit of 0.02."),
        ((0.019, 0.017, 0.021), "within the limit of 0.02. The interval includes"),
        ((0.022, 0.019, 0.025), "above the limit of 0.02. The interval includes"),
        ((0.030, 0.027, 0.033), "above the limit of 0.02."),
    ],
)
def test_a_limit_is_checked_on_held_out_rows(found, words):
    champion = make_champion((BLACK,))
    scores = replace(champion.judgement.held_out, measures={BLACK: {"gdp": found}})
    (sentence,) = limit_sentences(make_report(champion=rejudged(champion, held_out=scores)))
    assert words in sentence
    assert ("interval includes" in sentence) == ("interval includes" in words)


def test_without_champion_nothing_is_said_of_limits_or_persons():
    assert limit_sentences(make_report(champion=None)) == ()
    assert person_sentences(make_report(champion=None)) == ()


@pytest.mark.parametrize(("after", "share"), [(0.412, "41 %"), (-0.3, "nothing")])
def test_the_best_probe_speaks_for_all(after, share):
    column = SensitiveColumn("age")
    rows = (
        Recovered("age", "ridge", 0.5, -0.5),
        Recovered("age", "boosting", 0.92, after),
        Recovered("income", "ridge", 0.99, 0.99),
    )
    champion = rejudged(make_champion((BLACK,)), recovered=rows)
    sentence = recoverability_sentence(make_report(champion=champion), column)
    assert "(boosting) explains 92 % of the variation of age" in sentence
    assert f"and {share} (boosting) after it" in sentence


def test_a_person_learns_what_entered_what_is_left_and_how_wrong_it_can_be():
    inputs, left, error = person_sentences(
        make_report(target=TargetColumn("yearly income", "dollars", 100_000.0))
    )
    assert "do not include the share of Black residents" in inputs
    assert "by about 1,890 dollars (with nothing removed: 5,510)" in left
    assert "a prediction of yearly income is 12,710 dollars" in error


def test_several_columns_are_spoken_of_in_the_plural():
    inputs, left, _ = person_sentences(make_report((BLACK, WHITE)))
    assert "Part of what the inputs reveal about them was removed" in inputs
    assert left.count("the mean prediction differs") == 2


def test_a_constant_prediction_moves_with_nothing():
    still = held_out(0.18, 0.0, 0.0, 0.0, (BLACK,))
    sentences = person_sentences(
        make_report(champion=rejudged(make_champion((BLACK,)), held_out=still))
    )
    assert len(sentences) == 2


def test_a_person_learns_that_the_attribute_will_be_asked_for():
    champion = replace(rejudged(make_champion((BLACK,)), reference=None), trial="trial-12")
    report = make_report(champion=champion, trials=make_trials((BLACK,), needs_sensitive=True))
    inputs, left, _ = person_sentences(report)
    assert inputs.startswith("Every prediction of this model needs")
    assert "with nothing removed" not in left


def test_a_person_learns_that_nothing_was_removed():
    champion = replace(make_champion((BLACK,)), trial="trial-0")
    told = person_sentences(make_report(champion=champion))[0]
    assert "Nothing that the inputs reveal about it was removed" in told


def test_a_person_is_told_which_inputs_stand_in_for_the_attribute():
    report = make_report()
    proxies = (("the share of white residents", 0.794), ("the share with low income", 0.413))
    columns = (replace(report.columns[0], proxies=proxies),)
    told = person_sentences(replace(report, columns=columns))[0]
    assert (
        "columns with the highest correlation with it: the share of white residents "
        "(correlation 0.79) and the share with low income (correlation 0.41)"
    ) in told


def test_a_removal_that_cannot_be_shown_is_not_claimed():
    champion = make_champion((BLACK,))
    unchanged = changed(champion.judgement.held_out, champion.judgement.held_out)
    told = person_sentences(make_report(champion=rejudged(champion, changes=unchanged)))[0]
    assert "do not show that the removal had an effect" in told


def test_a_person_learns_of_a_constant():
    champion = replace(make_champion((BLACK,)), trial="dummy")
    told = person_sentences(make_report(champion=champion))[0]
    assert told == "This model predicts the same value for everybody."


def test_a_person_learns_that_the_attribute_is_an_input():
    report = make_report()
    column = replace(report.columns[0], is_input=True)
    assert "inputs of this model include" in person_sentences(replace(report, columns=(column,)))[0]


def test_a_model_that_removes_nothing_is_compared_with_nothing():
    rows = (Recovered(BLACK, "ridge", 0.8, 0.8),)
    champion = replace(rejudged(make_champion((BLACK,)), recovered=rows), trial="trial-0")
    report = make_report(champion=champion)
    assert "with nothing removed" not in " ".join(person_sentences(report))
    told = recoverability_sentence(report, report.columns[0])
    assert told.endswith("Nothing was removed from them.")
    assert "after" not in told


def text_of(report, title):
    return next((text for name, text in cautions_of(report).items() if title in name), "")


@pytest.mark.parametrize(
    "title",
    ["not a reason to automate", "used against people", "exclude each other", "One data set"],
)
def test_the_standing_cautions_are_always_there(title):
    assert text_of(make_report(champion=None), title)


def test_misuse_names_what_was_removed():
    assert "the share of Black residents" in text_of(make_report(), "used against")


@pytest.mark.parametrize(
    ("approximation", "cure"),
    [("exact", "A Nystroem approximation keeps"), ("nystroem", "are the landmarks")],
)
def test_rows_inside_the_model_are_counted(approximation, cure):
    champion = replace(make_champion((BLACK,)), approximation=approximation)
    text = text_of(make_report(champion=champion), "file contains data")
    assert "1,594" in text
    assert cure in text


def test_searched_parameters_are_told_beside_the_numbers():
    first, *others = make_trials((BLACK,))
    report = make_report(trials=(replace(first, searched=True), *others))
    assert "SVR-FKD" in text_of(report, "slightly optimistic")
    cells = [row.cells[0].text for row in trial_table(report).rows]
    assert cells[:2] == ["SVR-FKD ‡", "SVR-FKD"]
    assert not text_of(make_report(), "slightly optimistic")


def test_a_model_without_rows_needs_no_caution():
    champion = replace(make_champion((BLACK,)), stored_rows=0)
    assert not text_of(make_report(champion=champion), "file contains data")


def test_unused_survey_weights_are_named():
    report = make_report()
    weighted = replace(report, data=replace(report.data, survey_weight="PWGTP"))
    assert "PWGTP" in text_of(weighted, "Survey weights were not used")
    assert "these communities" in text_of(report, "Every row has the same weight")


def test_used_survey_weights_are_named_with_their_uses():
    report = make_report()
    data = replace(report.data, survey_weight="PWGTP", weighted=("the removal", "every measure"))
    text = text_of(replace(report, data=data), "weighted by PWGTP")
    assert "used in the removal and every measure" in text
    assert "checks of drift, proxies and collapse" in text
    assert not text_of(replace(report, data=data), "Survey weights were not used")


def test_methods_that_need_the_attribute_are_named():
    report = make_report(trials=make_trials((BLACK,), needs_sensitive=True))
    assert "KRR-FKL" in text_of(report, "need the attribute")
    assert not text_of(make_report(), "need the attribute")
