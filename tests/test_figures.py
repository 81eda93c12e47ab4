import struct

import pytest
from matplotlib.collections import LineCollection, PathCollection
from report_sample import BLACK, TITLES, make_report, make_trials

from tasks.report.figures import DPI, Panel, Point, Series, draw, panels_of, still


@pytest.fixture
def panels():
    report = make_report(trials=make_trials((BLACK,), needs_sensitive=True))
    return panels_of(report, report.columns[0])


def test_the_file_is_a_png_of_three_panels_at_150_dpi(panels):
    png = still(panels)
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert width == pytest.approx(3 * 4.1 * DPI, abs=2)
    assert width > 2 * height


def test_the_same_panels_give_the_same_bytes(panels):
    assert still(panels) == still(panels)


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
        "HGR noise floor",
        "limit",
        "† needs the sensitive column to predict",
    ]


@pytest.mark.parametrize("count", [5, 12, 20])
def test_a_legend_of_many_entries_stays_within_the_figure(count):
    series = tuple(
        Series(f"KRR-FKL, no. {i}", ((Point(x=0.1 * i, y=1.0, x_std=0.0, y_std=0.0),),), i)
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


@pytest.mark.parametrize(("count", "columns", "shown"), [(1, 3, 1), (4, 2, 4), (5, 3, 5)])
def test_any_number_of_panels_finds_its_place(count, columns, shown):
    one = Panel("t", "x", "y", (Series("A", ((Point(0.1, 0.2),),), 0),))
    axes = draw([one] * count, columns=columns).axes
    assert sum(ax.get_visible() for ax in axes) == shown


def test_text_that_looks_like_a_formula_is_drawn_as_it_stands():
    odd = Panel(r"$\frac{", "a$b$c", "$y", (Series("$_{", ((Point(0.1, 0.2),),), 0),))
    assert still([odd], title="50$ to 60$ {").startswith(b"\x89PNG")


def test_no_panels_are_refused():
    with pytest.raises(ValueError, match="at least one panel, got none"):
        still([])
