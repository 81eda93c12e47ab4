import re
from dataclasses import replace

from report_sample import BLACK, TITLES, WHITE, make_champion, make_report, rejudged

from tasks.report.model import ReportedNumber, TargetColumn
from tasks.report.narrative import finding_of, within_sentence
from tasks.report.page import to_html
from tasks.report.tables import (
    champion_table,
    front_of,
    parameters_of,
    trial_table,
    within_tables,
)
from tasks.select.groups import CHOSEN, REFERENCE, GroupedScore, WithinGroups


def column_of(grid, heading):
    place = grid.headings.index(heading)
    return [row.cells[place].text for row in grid.rows]


def test_there_is_one_row_per_trial_and_one_is_chosen():
    report = make_report()
    grid = trial_table(report)
    assert len(grid.rows) == len(report.trials)
    assert [row.chosen for row in grid.rows].index(True) == 4
    assert all(len(row.cells) == len(grid.headings) for row in grid.rows)


def test_numbers_are_shown_with_spread_and_sorted_by_their_mean():
    cell = trial_table(make_report()).rows[0].cells[2]
    assert (cell.text, cell.value) == ("0.0915 ± 0.0027", 0.0915)


def test_the_error_stands_in_its_own_unit_where_the_target_has_one():
    target = TargetColumn("income", "dollars", 100_000.0)
    grid = trial_table(make_report(target=target))
    assert column_of(grid, "MAE in dollars")[0] == "9,150 ± 274"
    assert "MAE in dollars" not in trial_table(make_report()).headings


def test_headings_name_the_column_where_there_are_several():
    assert "GDP" in trial_table(make_report()).headings
    assert f"GDP, {TITLES[WHITE]}" in trial_table(make_report((BLACK, WHITE))).headings


def test_only_reported_measures_have_a_column():
    report = make_report()
    scores = {BLACK: {**report.trials[0].scores[BLACK], "gdp_plugin": ReportedNumber(0.11, 0.01)}}
    table = trial_table(
        replace(report, champion=None, trials=(replace(report.trials[0], scores=scores),))
    )
    assert not any("plug-in" in heading for heading in table.headings)


def test_fronts_are_listed_by_trial():
    report = make_report()
    fronts = column_of(trial_table(report), "On front of")
    assert fronts[4] == "GDP, PF"
    assert "trial-4" not in front_of(report, BLACK, "hgr")
    assert front_of(replace(report, trials=()), BLACK, "hgr") == []


def test_the_champion_stands_beside_the_untreated_model():
    report = make_report()
    grid = champion_table(report, report.champion)
    assert grid.headings == ("Measure", "Chosen model", "Nothing removed", "Change")
    assert column_of(grid, "Measure") == [
        "MAE",
        *(f"{m} on {TITLES[BLACK]}" for m in ("HGR", "GDP", "PF")),
    ]
    first, second, *_ = column_of(grid, "Change")
    assert first == "0.0339 (0.0246\xa0to\xa00.0432)"
    assert second == "−0.186 (−0.244\xa0to\xa0−0.128)"


def test_a_champion_without_reference_stands_alone():
    champion = rejudged(make_champion((BLACK,)), reference=None)
    target = TargetColumn("income", "dollars", 100_000.0)
    grid = champion_table(make_report(champion=champion, target=target), champion)
    assert grid.headings == ("Measure", "Chosen model")
    assert column_of(grid, "Measure")[1] == "MAE in dollars"
    assert column_of(grid, "Chosen model")[1].startswith("12,710 (11,439")


def test_parameters_stand_once_below_the_table():
    report = make_report()
    assert "Parameters" not in trial_table(report).headings
    assert parameters_of(report)["SVR-FKD"] == ["C = 0.75, epsilon = 0.01, gamma = 0.05"]


def test_folds_are_a_column_only_where_they_differ():
    report = make_report()
    assert "Folds" not in trial_table(report).headings
    first, *others = report.trials
    fewer = replace(report, trials=(replace(first, folds=2), *others))
    assert column_of(trial_table(fewer), "Folds")[0] == "2"


def test_a_champion_that_removes_nothing_stands_beside_nobody():
    champion = replace(make_champion((BLACK,)), trial="trial-0")
    grid = champion_table(make_report(champion=champion), champion)
    assert grid.headings == ("Measure", "Chosen model")


SMALL = ("high", 12, "fewer than 30 rows")


def score(value, left_out=(SMALL,)):
    groups = (("low", 100, value), ("middle", 200, 2 * value))
    mean = (100 * value + 400 * value) / 300
    return GroupedScore(3 * value, (mean, 0.9 * mean, 1.1 * mean), groups, left_out)


def make_within(**changes):
    scores = {
        "hgr": {CHOSEN: score(0.1), REFERENCE: score(0.2)},
        "gdp": {CHOSEN: score(0.003), REFERENCE: score(0.012)},
        "pf": {CHOSEN: score(0.04), REFERENCE: score(0.08)},
    }
    found = WithinGroups(("medIncome",), {BLACK: scores}, {BLACK: {}}, {BLACK: {"hgr": 0.17}})
    return replace(found, **changes)


def reported(within=None, **changes):
    within = make_within() if within is None else within
    return make_report(within=within, control=("median income",), **changes)


def texts(row):
    return [cell.text for cell in row.cells]


def test_groups_their_mean_and_all_rows_stand_below_each_other():
    (table,) = within_tables(reported())
    assert table.headings[:4] == ("Group", "Rows", "HGR", "HGR, nothing removed")
    low, middle, mean, every = (texts(row) for row in table.rows)
    assert low[:6] == ["low", "100", "0.100", "0.200", "0.0030", "0.0120"]
    assert middle[:4] == ["middle", "200", "0.200", "0.400"]
    assert mean[:2] == ["Mean by rows", "300"]
    assert mean[2].startswith("0.167 (0.150")
    assert every[:4] == ["All rows at once", "312", "0.300", "0.600"]


def test_groups_left_out_are_named_and_counted():
    (table,) = within_tables(reported())
    assert "Left out: 1 group: high (12 rows: fewer than 30 rows)." in table.notes
    assert any("a mean HGR of about 0.17" in note for note in table.notes)
    one = make_within()
    odd = score(0.04, (SMALL, ("odd", 40, "no pairs")))
    pf = {CHOSEN: odd, REFERENCE: odd}
    one = replace(one, scores={BLACK: {**one.scores[BLACK], "pf": pf}})
    (table,) = within_tables(reported(one))
    assert "odd (40 rows: no pairs, for PF)" in " ".join(table.notes)


def test_a_model_that_removes_nothing_stands_alone():
    report = reported()
    report = replace(report, champion=replace(report.champion, trial="trial-0"))
    (table,) = within_tables(report)
    assert table.headings == ("Group", "Rows", "HGR", "GDP", "PF")
    assert "nothing removed" not in within_sentence(report)


def test_the_sentence_is_said_wherever_the_finding_is():
    sentence = within_sentence(reported())
    assert sentence == (
        "Within groups of median income, the mean GDP on the share of Black residents is 0.0050 "
        "(0.0045\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}0.0055) over 2 of 3 groups, "
        "with nothing removed 0.0200 (0.0180\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}0.0220)."
    )
    assert finding_of(reported()).sentences[-1] == sentence
    assert finding_of(reported()).sentences[:-1] == finding_of(make_report()).sentences


def test_the_page_has_the_section_only_where_it_was_asked_for():
    page = to_html(reported())
    assert '<h2 id="h-within">Dependence within groups</h2>' in page
    assert '<a href="#within">' in page
    assert "median income may explain part of the dependence" in page
    assert re.search(r"<td[^>]*>0.0030</td><td[^>]*>0.0120</td>", page)
    assert "Mean by rows" in page
    assert "high (12 rows: fewer than 30 rows)" in page
    assert "h-within" not in to_html(make_report())


def test_what_could_not_be_measured_is_said_instead():
    nothing = make_within(
        scores={BLACK: {}}, problems={BLACK: {"gdp": "got none of 9"}}, noise={BLACK: {}}
    )
    (table,) = within_tables(reported(nothing))
    assert table.rows == ()
    assert table.notes == ("GDP could not be computed: got none of 9.",)
    assert "could not be measured" in within_sentence(reported(nothing))
    assert "got none of 9" in to_html(reported(nothing))


def test_names_of_groups_cannot_break_the_page():
    bad = GroupedScore(0.1, (0.1, 0.1, 0.1), (("<script>x", 40, 0.1),), (("<b>", 2, "few"),))
    found = WithinGroups(("c",), {BLACK: {"gdp": {CHOSEN: bad}}}, {BLACK: {}}, {BLACK: {}})
    page = to_html(reported(found))
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert "<b>" not in page.split('id="within"')[1].split("</section>")[0]
