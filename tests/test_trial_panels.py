import math
from dataclasses import replace

from report_sample import BLACK, TITLES, WHITE, make_report, make_trials

from tasks.report.figures import panels_of, style_of, x_range
from tasks.report.model import ReportedNumber, TargetColumn


def first_panel(report):
    return panels_of(report, report.columns[0])[0]


def test_the_three_measures_stand_in_the_order_of_the_paper():
    report = make_report((BLACK, WHITE))
    panels = panels_of(report, report.columns[1])
    assert [panel.x_label for panel in panels] == [
        f"{m} on {TITLES[WHITE]}" for m in ("HGR", "GDP", "PF")
    ]
    assert [panel.floor is not None for panel in panels] == [True, False, False]


def test_a_limit_stands_on_the_panel_of_its_measure_only():
    panels = panels_of(make_report(), make_report().columns[0])
    assert [panel.limit for panel in panels] == [None, 0.02, None]
    assert [p.limit for p in panels_of(make_report(champion=None), make_report().columns[0])] == [
        None,
        None,
        None,
    ]


def test_a_far_limit_does_not_press_the_points_together():
    panel = panels_of(make_report(), make_report().columns[0])[1]
    _, right = x_range(replace(panel, limit=None))
    assert x_range(replace(panel, limit=0.5))[1] == right
    assert x_range(replace(panel, limit=1.2 * right))[1] > 1.2 * right


def test_every_trial_is_a_point_with_its_spread():
    panel = first_panel(make_report())
    assert len(panel.points) == 15
    assert all(point.x_std > 0 and point.y_std > 0 for point in panel.points if point.x)


def test_methods_keep_their_slot_when_another_has_no_number():
    report = make_report()
    unknown = {BLACK: {"gdp": ReportedNumber(0.05), "hgr": ReportedNumber(math.nan)}}
    trials = [
        replace(trial, scores=unknown) if trial.method == "svr_fkd" else trial
        for trial in report.trials
    ]
    hgr, gdp, _ = panels_of(replace(report, trials=tuple(trials)), report.columns[0])
    assert [(series.label, series.slot) for series in hgr.series][:2] == [
        ("KRR-FKD", 1),
        ("KRR-FKL", 2),
    ]
    assert [series.slot for series in gdp.series][:3] == [0, 1, 2]


def test_a_measure_that_nobody_took_has_no_panel():
    trials = [
        replace(trial, scores={BLACK: {"gdp": trial.scores[BLACK]["gdp"]}})
        for trial in make_trials((BLACK,))
    ]
    report = make_report(trials=tuple(trials), champion=None)
    assert [panel.x_label for panel in panels_of(report, report.columns[0])] == [
        f"GDP on {TITLES[BLACK]}"
    ]


def test_lines_join_only_settings_that_differ_in_strength():
    report = make_report()
    other = [
        replace(trial, key=f"{trial.key}-wide", params={**trial.params, "gamma": 0.1})
        for trial in report.trials
        if trial.method == "krr_fkd"
    ]
    panel = first_panel(replace(report, trials=(*report.trials, *other)))
    krr = next(series for series in panel.series if series.label == "KRR-FKD")
    assert [len(path) for path in krr.paths] == [4, 4]


def test_dummies_stand_last():
    report = make_report()
    panel = first_panel(replace(report, trials=report.trials[::-1]))
    assert [series.label for series in panel.series][-1] == "Mean dummy"


def test_only_the_champion_is_chosen():
    points = first_panel(make_report()).points
    assert [point.y for point in points if point.chosen] == [0.125]
    assert not any(point.chosen for point in first_panel(make_report(champion=None)).points)


def test_hovering_tells_method_strength_and_values():
    report = make_report(target=TargetColumn("y", "income", "dollars", 1000.0))
    chosen = next(point for point in first_panel(report).points if point.chosen)
    text = "\n".join(chosen.hover)
    assert "SVR-FKD (the chosen model)\niterations 60\nHGR 0.380 ± 0.023\nMAE 0.1250 ±" in text
    assert "MAE 125 ± 4 dollars" in text
    assert "gamma\xa0=\xa00.05" in text


def test_the_error_is_drawn_in_the_targets_own_unit():
    target = TargetColumn("rent", "monthly rent", "euros", 1000.0)
    report = make_report(target=target)
    panel = panels_of(report, report.columns[0])[1]
    assert panel.y_label == "MAE of monthly rent in euros"
    assert {round(p.y / 1000, 6) for p in panel.points} == {
        round(t.mae.mean, 6) for t in report.trials
    }
    assert panel.meaning.endswith("0.01 is 10.0 euros.")


def test_variants_of_one_method_look_different():
    first, second, *others = make_report().trials
    trials = (replace(first, label="A (x 1)"), replace(second, label="A (x 2)"), *others)
    report = make_report(trials=trials, champion=None)
    one, two, *_ = panels_of(report, report.columns[0])[0].series
    assert (one.label, two.label) == ("A (x 1)", "A (x 2)")
    assert style_of(one) != style_of(two)


def test_a_tooltip_has_short_lines_and_marks_a_searched_setting():
    first, *others = make_report().trials
    report = make_report(trials=(replace(first, searched=True), *others), champion=None)
    hover = panels_of(report, report.columns[0])[0].series[0].points[0].hover
    assert max(map(len, hover)) <= 30
    assert "searched: looks a little too" in hover
