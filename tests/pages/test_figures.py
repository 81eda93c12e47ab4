import math
import re
import struct
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from report_sample import BLACK, TITLES, WHITE, make_report, make_trials

from tasks.report.figures import (
    COLOURS,
    DPI,
    Panel,
    Point,
    Series,
    bars_sentence,
    draw,
    panel_svg,
    panels_of,
    png_bytes,
    style_of,
    y_range,
)
from tasks.report.html import CURVE_HEIGHT, WIDTH, CurveFigure, DrawnCurve, ticks
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
    _, right = replace(panel, limit=None).x_range
    assert replace(panel, limit=0.5).x_range[1] == right
    assert replace(panel, limit=1.2 * right).x_range[1] > 1.2 * right


def test_every_trial_is_a_point_with_its_spread():
    panel = first_panel(make_report())
    assert len(panel.points) == 15
    assert all(point.x_bar > 0 and point.y_bar > 0 for point in panel.points if point.x)


def test_methods_keep_their_slot_when_another_has_no_number():
    report = make_report()
    unknown = {BLACK: {"gdp": ReportedNumber(0.05), "hgr": ReportedNumber(math.nan)}}
    trials = [
        replace(trial, scores=unknown) if trial.label == "SVR-FKD" else trial
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
        if trial.label == "KRR-FKD"
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
    report = make_report(target=TargetColumn("income", "dollars", 1000.0))
    chosen = next(point for point in first_panel(report).points if point.chosen)
    text = "\n".join(chosen.text)
    assert "SVR-FKD (the chosen model)\niterations 60\nHGR 0.380 ± 0.023\nMAE 0.1250 ±" in text
    assert "MAE 125 ± 4 dollars" in text
    assert "gamma\xa0=\xa00.05" in text


def test_the_error_is_drawn_in_the_targets_own_unit():
    target = TargetColumn("monthly rent", "euros", 1000.0)
    report = make_report(target=target)
    panel = panels_of(report, report.columns[0])[1]
    assert panel.y_label == "MAE of monthly rent in euros"
    assert {round(p.y / 1000, 6) for p in panel.points} == {
        round(t.mae.mean, 6) for t in report.trials
    }
    assert panel.meaning.endswith("0.01 is 10.0 euros.")


def test_a_figure_draws_intervals_where_there_are_some():
    report = make_report()
    assert bars_sentence(report.trials) == "Error bars show one standard deviation over the folds."

    def known(number):
        return replace(number, ends=(number.mean - 0.001, number.mean + 0.003))

    def counted(trial):
        scores = {
            column: {**found, "hgr": known(found["hgr"])} for column, found in trial.scores.items()
        }
        return replace(trial, mae=known(trial.mae), scores=scores)

    after = replace(report, trials=tuple(map(counted, report.trials)))
    assert "95 % intervals" in bars_sentence(after.trials)
    hgr, gdp, _ = panels_of(after, after.columns[0])
    np.testing.assert_allclose([p.x_bar for p in hgr.points], 0.002)
    np.testing.assert_allclose([p.y_bar for p in hgr.points], 0.002 * after.target.scale)
    before = panels_of(report, report.columns[0])[1]
    assert [p.x_bar for p in gdp.points] == [p.x_bar for p in before.points]
    assert any("\N{NO-BREAK SPACE}to" in line for line in hgr.points[0].text)
    assert ReportedNumber(1.0).bar == 0.0


def test_variants_of_one_method_look_different():
    first, second, *others = make_report().trials
    trials = (replace(first, label="A (x 1)"), replace(second, label="A (x 2)"), *others)
    report = make_report(trials=trials, champion=None)
    one, two, *_ = panels_of(report, report.columns[0])[0].series
    assert (one.label, two.label) == ("A (x 1)", "A (x 2)")
    assert style_of(one) != style_of(two)


def test_a_tooltip_marks_a_searched_setting():
    first, *others = make_report().trials
    report = make_report(trials=(replace(first, searched=True), *others), champion=None)
    text = panels_of(report, report.columns[0])[0].series[0].points[0].text
    assert any("searched" in line for line in text)


def panel(*points, floor=None):
    return Panel("title", "GDP", "MAE", (Series("A", (points,), 0),), floor)


def test_the_front_is_taken_over_all_series():
    series = (
        Series("A", ((Point(0.1, 0.9), Point(0.5, 0.5)),), 0),
        Series("B", ((Point(0.4, 0.4),), (Point(0.9, 0.1),)), 1),
    )
    front = Panel("title", "GDP", "MAE", series).front
    assert [point.x for point in front] == [0.1, 0.4, 0.9]


def test_ranges_hold_every_error_bar_the_floor_and_zero():
    one = panel(Point(0.3, 0.5, x_bar=0.1, y_bar=0.2), floor=(0.4, 0.6))
    left, right = one.x_range
    low, high = y_range([one])
    assert left < 0.0
    assert right > 0.6
    assert low < 0.3
    assert high > 0.7


@pytest.mark.parametrize("points", [(Point(0.0, 0.0),), (Point(0.0, 3.0),)])
def test_ranges_are_never_empty(points):
    assert panel(*points).x_range[0] < panel(*points).x_range[1]
    assert y_range([panel(*points)])[0] < y_range([panel(*points)])[1]


def test_a_method_that_needs_the_sensitive_column_is_marked():
    assert Series("A", (), 0, needs_sensitive=True).legend == "A †"
    assert Series("A", (), 0).legend == "A"


def test_the_text_for_those_who_cannot_see_names_methods_and_the_best_point():
    text = panel(Point(0.25, 0.5), Point(0.75, 0.125)).alt
    assert "2 settings of A" in text
    assert "0.125, at 0.75" in text


def drawn(panel, **options):
    """The SVG of a panel as a tree; elements have no namespace inside HTML."""
    return ET.fromstring(panel_svg(panel, **options))


def of_class(tree, name):
    return [one for one in tree.iter() if name in one.get("class", "").split()]


@pytest.fixture
def hgr_panel():
    return first_panel(make_report())


def test_every_point_has_error_bars_and_its_numbers(hgr_panel):
    tree = drawn(hgr_panel)
    points = of_class(tree, "point")
    assert len(points) == len(hgr_panel.points) == 15
    for point, known in zip(points, hgr_panel.points, strict=True):
        assert point.find("title").text == "\n".join(known.text)
        assert len(of_class(point, "bars")) == len(of_class(point, "mark")) == 1
    assert {one.get("class") for one in tree if one.get("color")} == {"s0", "s1", "s2", "d0"}


def test_one_point_of_a_panel_is_a_tab_stop(hgr_panel):
    stops = [point.get("tabindex") for point in of_class(drawn(hgr_panel), "point")]
    assert stops == ["0", *["-1"] * 14]


def test_dominated_points_are_hollow_in_the_svg(hgr_panel):
    hollow = ["hollow" in point.get("class") for point in of_class(drawn(hgr_panel), "point")]
    assert hollow == [point not in hgr_panel.front for point in hgr_panel.points]
    assert any(hollow)


def center(mark):
    """The centre of a marker, whose shape is 16 wide before it is scaled."""
    x, y, scale = map(float, re.findall(r"[-\d.]+", mark.get("transform")))
    return x + 8 * scale, y + 8 * scale


def test_points_are_at_their_values_and_the_champion_has_a_ring(hgr_panel):
    tree = drawn(hgr_panel, y_limits=(0.0, 0.2))
    centers = [center(mark) for mark in of_class(tree, "mark")]
    for place, of in enumerate(("x", "y")):
        values = np.array([getattr(point, of) for point in hgr_panel.points])
        places = np.array([one[place] for one in centers])
        slope, offset = np.polyfit(values, places, 1)
        np.testing.assert_allclose(places, slope * values + offset, atol=0.15)
        assert (slope > 0) == (of == "x")
    (ring,) = of_class(tree, "chosen")
    chosen = [point.chosen for point in hgr_panel.points].index(True)
    assert float(ring.get("cx")) == pytest.approx(centers[chosen][0], abs=0.2)
    assert float(ring.get("cy")) == pytest.approx(centers[chosen][1], abs=0.2)


def test_the_svg_has_noise_floor_front_and_limit():
    report = make_report()
    hgr, gdp, pf = (drawn(panel) for panel in panels_of(report, report.columns[0]))
    for tree, floors, bounds in ((hgr, 2, 0), (gdp, 0, 1), (pf, 0, 0)):
        assert len(of_class(tree, "floor")) == floors
        assert len(of_class(tree, "bound")) == bounds
        (front,) = of_class(tree, "pareto")
        assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+", front.get("d"))
    band, line = of_class(hgr, "floor")
    left, width = float(band.get("x")), float(band.get("width"))
    mean = float(re.match(r"M([\d.]+)", line.get("d"))[1])
    assert (mean - left) / width == pytest.approx(0.103 / 0.152, abs=0.01)


def test_a_limit_beyond_the_range_is_not_drawn():
    panel = replace(first_panel(make_report()), limit=9.0)
    assert of_class(drawn(panel), "bound") == []


def test_paths_are_not_joined_to_each_other():
    paths = ((Point(0.1, 0.2), Point(0.2, 0.1)), (Point(0.3, 0.3),))
    (line,) = of_class(drawn(Panel("t", "x", "y", (Series("A", paths, 0),))), "line")
    assert line.get("d").count("L") == 1


def test_text_from_data_is_escaped_in_the_svg():
    point = Point(0.1, 0.2, text=("<a href='x'>",))
    odd = Panel("t", "<i>x", "<b>y", (Series("<u>", ((point,),), 0),))
    texts = {one.text for one in drawn(odd).iter()}
    assert {"<a href='x'>", "<i>x", "<b>y"} <= texts
    assert "<a" not in panel_svg(odd)


@pytest.fixture
def panels():
    report = make_report(trials=make_trials((BLACK,), needs_sensitive=True))
    return panels_of(report, report.columns[0])


def test_the_file_is_a_png_of_three_panels_at_150_dpi(panels):
    png = png_bytes(draw(panels))
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert width == pytest.approx(3 * 4.1 * DPI, abs=2)
    assert width > 2 * height


def test_the_same_panels_give_the_same_bytes(panels):
    assert png_bytes(draw(panels)) == png_bytes(draw(panels))


def test_every_panel_has_error_bars_on_both_axes(panels):
    for_each = [
        [artist for artist in ax.collections if isinstance(artist, LineCollection)]
        for ax in draw(panels).axes
    ]
    # One collection of bars per axis for each of the four series.
    assert [len(bars) for bars in for_each] == [8, 8, 8]


def test_mae_stands_on_y_and_the_measure_on_x(panels):
    axes = draw(panels).axes
    assert axes[0].get_ylabel() == "MAE of violent crimes per population\n(scaled)"
    assert [ax.get_xlabel() for ax in axes] == [
        f"{m} on {TITLES[BLACK]}" for m in ("HGR", "GDP", "PF")
    ]
    assert len({ax.get_ylim() for ax in axes}) == 1


def test_beaten_settings_are_hollow(panels):
    markers = [a for a in draw(panels).axes[0].collections if isinstance(a, PathCollection)]
    krr = markers[1].get_facecolors()
    assert (krr == 1.0).all(axis=1).tolist() == [True, True, True, True]


def test_the_legend_names_methods_floor_champion_and_the_need_of_the_sensitive_column(panels):
    labels = [text.get_text() for text in draw(panels).legends[0].get_texts()]
    assert labels == [
        "SVR-FKD",
        "KRR-FKD",
        "KRR-FKL †",
        "Mean dummy",
        "Pareto front",
        "chosen model",
        "noise floor",
        "limit",
        "† predictions need the sensitive column",
    ]


@pytest.mark.parametrize("count", [5, 12, 20])
def test_a_legend_of_many_entries_stays_within_the_figure(count):
    series = tuple(
        Series(f"KRR-FKL, no. {i}", ((Point(x=0.1 * i, y=1.0, x_bar=0.0, y_bar=0.0),),), i)
        for i in range(count)
    )
    figure = draw([Panel(title=m, x_label=m, y_label="MAE", series=series) for m in "abc"])
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_the_limit_is_a_line_on_the_panel_of_its_measure(panels):
    lines = [
        [
            line.get_xdata()[0]
            for line in ax.lines
            if line.is_dashed() and len(set(line.get_xdata())) == 1
        ]
        for ax in draw(panels).axes
    ]
    assert lines == [[], [0.02], []]


def test_only_the_hgr_panel_has_the_noise_floor(panels):
    assert [len(ax.patches) for ax in draw(panels).axes] == [1, 0, 0]


@pytest.mark.parametrize("count", [1, 4, 5])
def test_any_number_of_panels_finds_its_place(count):
    one = Panel("t", "x", "y", (Series("A", ((Point(0.1, 0.2),),), 0),))
    axes = draw([one] * count).axes
    assert sum(ax.get_visible() for ax in axes) == count


def test_text_that_looks_like_a_formula_is_drawn_as_it_stands():
    odd = Panel(r"$\frac{", "a$b$c", "$y", (Series("$_{", ((Point(0.1, 0.2),),), 0),))
    assert png_bytes(draw([odd], title="50$ to 60$ {")).startswith(b"\x89PNG")


def test_no_two_of_fifty_six_series_look_alike():
    assert len({style_of(Series("A", (), slot)) for slot in range(56)}) == 56


def luminance(colour):
    """WCAG's relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def page_colours():
    """The cards of the light and of the dark page."""
    css = (files("tasks.report") / "templates" / "report.css").read_text(encoding="utf-8")
    return re.findall(r"--card: (#[0-9a-f]{6})", css)


@pytest.mark.parametrize("page", page_colours())
@pytest.mark.parametrize(
    "colour",
    [
        *(style_of(Series("A", (), slot)).colour for slot in range(7)),
        style_of(Series("A", (), 0, dummy=True)).colour,
        *COLOURS.values(),
    ],
)
def test_every_colour_stands_out_from_the_light_and_from_the_dark_page(colour, page):
    dark, light = sorted([luminance(colour), luminance(page)])
    assert (light + 0.05) / (dark + 0.05) >= 3.0


def test_both_pages_were_looked_at():
    assert len(page_colours()) == 2


def test_neighbours_differ_in_colour_and_in_shape():
    first, second = style_of(Series("A", (), 0)), style_of(Series("B", (), 1))
    assert first.colour != second.colour
    assert first.marker != second.marker


@pytest.mark.parametrize("slot", range(7))
def test_dummies_look_like_no_method(slot):
    dummy, method = style_of(Series("A", (), slot, dummy=True)), style_of(Series("B", (), slot))
    assert dummy.colour != method.colour
    assert dummy.marker != method.marker


def figure(**changes):
    x = np.linspace(20.0, 60.0, 41)
    y = x**2
    curve = DrawnCurve("a < b & c", "model", x, y, (y - 5, y + 5), (y - 9, y + 90))
    options = {"title": "T", "x_label": "age <in years>", "y_label": "wage", "curves": (curve,)}
    return CurveFigure(**{**options, **changes})


def test_a_figure_is_well_formed_and_escapes_every_text():
    tree = ET.fromstring(figure().svg)
    assert tree.attrib["role"] == "img"
    assert "a < b & c" in tree.attrib["aria-label"]
    assert "age <in years>" in "".join(tree.itertext())


def test_everything_drawn_lies_on_the_paper():
    svg = str(figure(zero=True, ticks=(10.0, 30.0)).svg)
    pairs = [
        tuple(map(float, pair.split(",")))
        for points in re.findall(r'points="([^"]+)"', svg)
        for pair in points.split()
    ]
    assert len(pairs) == 41 + 4 * 41
    assert all(0 <= x <= WIDTH and 0 <= y <= CURVE_HEIGHT for x, y in pairs)
    # A mark outside the range of the curve is not drawn.
    assert svg.count('class="tick"') == 1


def test_a_higher_value_stands_higher():
    svg = str(figure().svg)
    (line,) = re.findall(r'<polyline points="([^"]+)"', svg)
    heights = [float(pair.split(",")[1]) for pair in line.split()]
    assert heights == sorted(heights, reverse=True)


def test_few_points_are_dots_as_well():
    x = np.array([0.0, 1.0])
    curve = DrawnCurve("two", "other", x, np.array([3.0, 3.0]))
    assert str(figure(curves=(curve,)).svg).count("<circle") == 2


def test_one_point_is_drawn_too():
    curve = DrawnCurve("one", "other", np.array([4.0]), np.array([0.0]))
    assert "nan" not in str(figure(curves=(curve,)).svg)


def test_a_long_label_is_cut_on_the_axis_and_whole_in_the_description():
    found = figure(y_label="w" * 80)
    assert "w" * 80 in found.alt
    tree = ET.fromstring(found.svg)
    assert any(text.endswith("…") for text in tree.itertext())


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.3, 0.31, ["-0.2", "0.0", "0.2"]),
        (18, 81, ["20", "40", "60", "80"]),
        (1001, 1002, ["1001.0", "1001.2", "1001.4", "1001.6", "1001.8", "1002.0"]),
        (0, 120_000, ["0k", "25k", "50k", "75k", "100k"]),
        (0, 60_000, ["0", "20000", "40000", "60000"]),
        (0, 5e8, ["0M", "100M", "200M", "300M", "400M", "500M"]),
        (0, 4e-8, ["0.00000000", "0.00000001", "0.00000002", "0.00000003", "0.00000004"]),
        (0, 0.012, ["0.0000", "0.0025", "0.0050", "0.0075", "0.0100"]),
    ],
)
def test_ticks_are_round_and_told_apart(low, high, words):
    assert [text for _, text in ticks(low, high)] == words
