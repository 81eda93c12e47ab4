import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tasks.report.svg import (
    HEIGHT,
    WIDTH,
    CurveFigure,
    DrawnCurve,
    nice_ticks,
    tick_words,
)


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
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in pairs)
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
    assert tick_words(nice_ticks(low, high)) == words
