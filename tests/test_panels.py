import pytest

from tasks.report.figures import Panel, Point, Series, with_front, x_range, y_range
from tasks.report.model import ReportedNoiseFloor


def panel(*points, floor=None):
    return Panel("title", "GDP", "MAE", (Series("A", (points,), 0),), floor)


def test_the_front_is_taken_over_all_series():
    series = (
        Series("A", ((Point(0.1, 0.9), Point(0.5, 0.5)),), 0),
        Series("B", ((Point(0.4, 0.4),), (Point(0.9, 0.1),)), 1),
    )
    marked = with_front(Panel("title", "GDP", "MAE", series))
    assert [point.front for point in marked.points] == [True, False, True, True]
    assert [point.x for point in marked.front] == [0.1, 0.4, 0.9]


def test_ranges_hold_every_error_bar_the_floor_and_zero():
    one = panel(Point(0.3, 0.5, x_std=0.1, y_std=0.2), floor=ReportedNoiseFloor(0.4, 0.6, 100, 50))
    left, right = x_range(one)
    low, high = y_range([one])
    assert left < 0.0
    assert right > 0.6
    assert low < 0.3
    assert high > 0.7


@pytest.mark.parametrize("points", [(), (Point(0.0, 0.0),), (Point(0.0, 3.0),)])
def test_ranges_are_never_empty(points):
    assert x_range(panel(*points))[0] < x_range(panel(*points))[1]
    assert y_range([panel(*points)])[0] < y_range([panel(*points)])[1]


def test_a_method_that_needs_the_sensitive_column_is_marked():
    assert Series("A", (), 0, needs_sensitive=True).legend == "A †"
    assert Series("A", (), 0).legend == "A"


def test_the_text_for_those_who_cannot_see_names_methods_and_the_best_point():
    text = panel(Point(0.25, 0.5), Point(0.75, 0.125)).alt
    assert "2 settings of A" in text
    assert "0.125, at 0.75" in text
