from dataclasses import replace

from report_sample import BLACK, TITLES, WHITE, make_champion, make_report

from tasks.report.model import ReportedNumber, TargetColumn
from tasks.report.tables import champion_grid, on_front, parameters_of, trial_grid


def column_of(grid, heading):
    place = grid.headings.index(heading)
    return [row.cells[place].text for row in grid.rows]


def test_there_is_one_row_per_trial_and_one_is_chosen():
    report = make_report()
    grid = trial_grid(report)
    assert len(grid.rows) == len(report.trials)
    assert [row.chosen for row in grid.rows].index(True) == 4
    assert all(len(row.cells) == len(grid.headings) for row in grid.rows)


def test_numbers_are_shown_with_spread_and_sorted_by_their_mean():
    cell = trial_grid(make_report()).rows[0].cells[2]
    assert (cell.text, cell.value) == ("0.0915 ± 0.0027", 0.0915)


def test_the_error_stands_in_its_own_unit_where_the_target_has_one():
    target = TargetColumn("y", "income", "dollars", 100_000.0)
    grid = trial_grid(make_report(target=target))
    assert column_of(grid, "MAE in dollars")[0] == "9,150 ± 274"
    assert "MAE in dollars" not in trial_grid(make_report()).headings


def test_headings_name_the_column_where_there_are_several():
    assert "GDP" in trial_grid(make_report()).headings
    assert f"GDP, {TITLES[WHITE]}" in trial_grid(make_report((BLACK, WHITE))).headings


def test_a_further_measure_gets_a_column_and_no_front():
    report = make_report()
    scores = {BLACK: {**report.trials[0].scores[BLACK], "gdp_plugin": ReportedNumber(0.11, 0.01)}}
    trials = (replace(report.trials[0], scores=scores), *report.trials[1:])
    grid = trial_grid(replace(report, trials=trials))
    assert column_of(grid, "GDP (plug-in)")[:2] == ["0.1100 ± 0.0100", "–"]
    assert "plug-in" not in "".join(column_of(grid, "On front of"))


def test_fronts_are_listed_by_trial():
    report = make_report()
    fronts = column_of(trial_grid(report), "On front of")
    assert fronts[4] == "GDP, PF"
    assert not on_front(report.trials, BLACK, "hgr")["trial-4"]
    assert on_front((), BLACK, "hgr") == {}


def test_the_champion_stands_beside_the_untreated_model():
    report = make_report()
    grid = champion_grid(report, report.champion)
    assert grid.headings == ("Measure", "Chosen model", "Nothing removed", "Change")
    assert column_of(grid, "Measure") == [
        "MAE",
        *(f"{m} on {TITLES[BLACK]}" for m in ("HGR", "GDP", "PF")),
    ]
    first, second, *_ = column_of(grid, "Change")
    assert first == "0.0339 (0.0246\xa0to\xa00.0432)"
    assert second == "−0.186 (−0.244\xa0to\xa0−0.128)"


def test_a_champion_without_reference_stands_alone():
    champion = replace(make_champion((BLACK,)), reference=None)
    target = TargetColumn("y", "income", "dollars", 100_000.0)
    grid = champion_grid(make_report(champion=champion, target=target), champion)
    assert grid.headings == ("Measure", "Chosen model")
    assert column_of(grid, "Measure")[1] == "MAE in dollars"
    assert column_of(grid, "Chosen model")[1].startswith("12,710 (11,439")


def test_parameters_stand_once_below_the_table():
    report = make_report()
    assert "Parameters" not in trial_grid(report).headings
    assert parameters_of(report)["SVR-FKD"] == ["C = 0.75, epsilon = 0.01, gamma = 0.05"]


def test_folds_are_a_column_only_where_they_differ():
    report = make_report()
    assert "Folds" not in trial_grid(report).headings
    first, *others = report.trials
    fewer = replace(report, trials=(replace(first, folds=2), *others))
    assert column_of(trial_grid(fewer), "Folds")[0] == "2"


def test_a_champion_that_removes_nothing_stands_beside_nobody():
    champion = replace(make_champion((BLACK,)), trial="trial-0")
    grid = champion_grid(make_report(champion=champion), champion)
    assert grid.headings == ("Measure", "Chosen model")
