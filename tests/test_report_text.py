from dataclasses import replace

import pytest
from report_sample import BLACK, WHITE, changed, held_out, make_champion, make_report

from tasks.report.model import ReportedNoiseFloor, SelectionPolicy
from tasks.report.narrative import compare, finding_of, result_sentences, task_sentence


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


def champion_with(after, before, doubt=0.1, **changes):
    """The sample's champion with other numbers, which are (MAE, HGR, GDP, PF)."""
    after, before = held_out(*after, (BLACK,)), held_out(*before, (BLACK,))
    found = {"held_out": after, "reference": before, "changes": changed(after, before, doubt)}
    return replace(make_champion((BLACK,)), **{**found, **changes})


def test_what_fell_and_what_it_cost_is_told():
    text = told(make_report())
    assert (
        "its dependence on the share of Black residents fell by HGR (0.577 to 0.391), "
        "GDP (0.0551 to 0.0189) and PF (0.296 to 0.111)"
    ) in text
    assert "The price is accuracy: the mean absolute error rose from 0.0932 to 0.1271" in text
    assert "(+36 %)" in text


def test_what_rose_is_said_to_have_risen():
    champion = champion_with((0.127, 0.4, 0.02, 0.19), (0.093, 0.6, 0.05, 0.013))
    text = told(make_report(champion=champion))
    assert "fell by HGR (0.600 to 0.400) and GDP (0.0500 to 0.0200)" in text
    assert "residents rose by PF (0.013 to 0.190): more of it is there than" in text


def test_a_change_within_noise_is_neither_praised_nor_blamed():
    champion = champion_with((0.0930, 0.107, 0.0201, 0.09), (0.0932, 0.107, 0.0203, 0.091))
    text = told(make_report(champion=champion))
    assert (
        "by HGR (0.107 to 0.107), GDP (0.0203 to 0.0201) and PF (0.091 to 0.090) cannot be told"
        in text
    )
    assert "went from 0.0932 to 0.0930 on a scale from 0 to 1 (0 %), which cannot be told" in text
    for word in ("fell", "rose", "price", "cost"):
        assert word not in text


def test_an_error_that_fell_cost_nothing():
    champion = champion_with((0.08, 0.4, 0.02, 0.1), (0.1, 0.6, 0.05, 0.3), 0.05)
    assert "It cost no accuracy: the mean absolute error fell from" in told(
        make_report(champion=champion)
    )


@pytest.mark.parametrize(("after", "way"), [(0.09321, "rose"), (0.09319, "fell")])
def test_an_error_that_moved_by_less_than_its_figures_is_no_price(after, way):
    champion = champion_with((after, 0.4, 0.02, 0.1), (0.0932, 0.6, 0.05, 0.3), 1e-5)
    text = told(make_report(champion=champion))
    assert (
        f"It cost next to no accuracy: the mean absolute error {way}, but by less than its figures "
        "show (0.0932 on a scale from 0 to 1 before and after)."
    ) in text
    assert "from 0.0932 to 0.0932" not in text


def test_nothing_removed_is_said_as_such():
    same = (0.0932, 0.111, 0.0551, 0.296)
    champion = champion_with(same, same, trial="trial-0")
    text = told(make_report(champion=champion))
    assert "It removes nothing: whatever its inputs say of the share of Black residents" in text
    assert "HGR 0.111, GDP 0.0551 and PF 0.296; its mean absolute error is 0.0932" in text
    for word in ("fell", "rose", "price", "cost", "Compared"):
        assert word not in text
    assert compare(make_report(champion=champion)) is None


def test_a_constant_is_called_one():
    champion = champion_with((0.18, 0, 0, 0), (0.18, 0, 0, 0), trial="dummy")
    text = told(make_report(champion=champion))
    assert "It is a constant: it leans on nothing" in text
    assert "unhindered" not in text


def test_without_an_untreated_trial_nothing_is_said_of_changes():
    champion = replace(make_champion((BLACK,)), reference=None, changes=None)
    text = told(make_report(champion=champion))
    assert "was no trial, so what the removal changed, and what it cost, is not known" in text
    assert "HGR 0.391, GDP 0.0189 and PF 0.111" in text


@pytest.mark.parametrize("source", ["policy", "gate"])
def test_a_broken_limit_is_the_first_thing_told(source):
    champion = make_champion((BLACK,))
    policy = SelectionPolicy("least", subject_to={"gdp": 0.01} if source == "policy" else {})
    gate = {"gdp": 0.01} if source == "gate" else {}
    report = make_report(champion=replace(champion, policy=policy, gate_limits=gate))
    (first,) = finding_of(report).broken
    assert first == (
        "The chosen model breaks its limit: GDP on the share of Black residents is 0.0189 "
        "(0.0170\xa0to\xa00.0208) on the held-out rows, above 0.01."
    )
    kept = replace(champion, policy=SelectionPolicy("least", subject_to={"gdp": 0.02}))
    assert "breaks" not in told(make_report(champion=kept))


def test_of_two_limits_on_one_measure_the_stricter_counts():
    champion = replace(make_champion((BLACK,)), gate_limits={"gdp": 0.005, "mae": 0.1})
    assert champion.limits == {"gdp": 0.005}


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


@pytest.mark.parametrize("reason", ["No trial keeps GDP at most 0.001.", ""])
def test_without_champion_the_reason_is_told(reason):
    text = told(make_report(champion=None, no_champion=reason))
    assert text == (reason or "No model was chosen; the figures show what can be had.")


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
    champion = replace(champion, policy=SelectionPolicy("least"))
    assert finding_of(make_report(champion=champion)).word == word


def test_nothing_removed_is_never_called_a_fall():
    same = (0.0932, 0.111, 0.0551, 0.296)
    champion = champion_with(same, same, trial="trial-0")
    champion = replace(champion, policy=SelectionPolicy("least"))
    assert finding_of(make_report(champion=champion)).word == "nothing removed"
    broken = replace(champion, gate_limits={"gdp": 0.01})
    assert finding_of(make_report(champion=broken)).word == "limit broken; nothing removed"
