import pytest
from report_sample import make_report

from tasks.report.figures import Panel, Point, Series, interactive, panels_of


@pytest.fixture
def panel():
    report = make_report()
    return panels_of(report, report.columns[0])[0]


def test_every_series_has_points_with_error_bars_on_both_axes(panel):
    markers = [trace for trace in interactive(panel).data if trace.hovertemplate]
    assert [trace.name for trace in markers] == ["SVR-FKD", "KRR-FKD", "KRR-FKL", "Mean dummy"]
    assert all(len(trace.error_x.array) == len(trace.x) for trace in markers)
    assert all(len(trace.error_y.array) == len(trace.x) for trace in markers)


def test_beaten_settings_are_hollow(panel):
    svr = next(trace for trace in interactive(panel).data if trace.name == "SVR-FKD")
    symbols = ["circle-open" if not p.front else "circle" for p in panel.series[0].points]
    assert list(svr.marker.symbol) == symbols
    assert "circle-open" in symbols


def test_the_noise_floor_is_a_band_with_a_line(panel):
    band, line = interactive(panel).layout.shapes
    assert (band.x0, band.x1) == (0.0, 0.152)
    assert line.x0 == line.x1 == 0.103


def test_the_champion_is_ringed(panel):
    ring = interactive(panel).data[-1]
    assert (list(ring.x), list(ring.y)) == ([0.380], [0.1250])


def test_panels_can_share_a_range_of_y(panel):
    assert list(interactive(panel, y_limits=(0.0, 2.0)).layout.yaxis.range) == [0.0, 2.0]


def test_text_from_data_is_escaped():
    point = Point(0.1, 0.2, hover=("<a href='x'>",))
    odd = Panel("t", "<i>x", "<b>y", (Series("<u>", ((point,),), 0),))
    figure = interactive(odd)
    trace = figure.data[2]
    axes = figure.layout.xaxis, figure.layout.yaxis
    shown = [trace.name, *trace.text, *(axis.title.text for axis in axes)]
    assert [text for text in shown if "<" in text] == []
    assert len(shown) == 4


def test_paths_are_not_joined_to_each_other():
    paths = ((Point(0.1, 0.2), Point(0.2, 0.1)), (Point(0.3, 0.3),))
    figure = interactive(Panel("t", "x", "y", (Series("A", paths, 0),)))
    assert list(figure.data[1].x) == [0.1, 0.2, None, 0.3, None]
