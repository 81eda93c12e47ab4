import pytest

from tasks.palette import style_of
from tasks.panels import Series


def test_no_two_of_fifty_six_series_look_alike():
    assert len({style_of(Series("A", (), slot)) for slot in range(56)}) == 56


def test_neighbours_differ_in_colour_and_in_shape():
    first, second = style_of(Series("A", (), 0)), style_of(Series("B", (), 1))
    assert first.colour != second.colour
    assert first.shape != second.shape


@pytest.mark.parametrize("slot", range(7))
def test_dummies_look_like_no_method(slot):
    dummy, method = style_of(Series("A", (), slot, dummy=True)), style_of(Series("B", (), slot))
    assert dummy.colour != method.colour
    assert dummy.shape != method.shape
