import re
from importlib.resources import files

import pytest

from tasks.report.figures import CHOSEN_COLOUR, FLOOR_COLOUR, FRONT_COLOUR, Series, style_of


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
        CHOSEN_COLOUR,
        FLOOR_COLOUR,
        FRONT_COLOUR,
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
    assert first.shape != second.shape


@pytest.mark.parametrize("slot", range(7))
def test_dummies_look_like_no_method(slot):
    dummy, method = style_of(Series("A", (), slot, dummy=True)), style_of(Series("B", (), slot))
    assert dummy.colour != method.colour
    assert dummy.shape != method.shape
