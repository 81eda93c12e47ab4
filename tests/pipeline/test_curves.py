"""The settings of a curve, as claims ask for them."""

from types import SimpleNamespace

from tasks.reproduce.curves import Curve


def curve(*settings):
    results = [SimpleNamespace(trial=SimpleNamespace(parameters=setting)) for setting in settings]
    return Curve("A", None, tuple(results))


def test_a_setting_is_found_by_all_of_its_values():
    found = curve({"gamma": 1.0, "C": 1.0}, {"gamma": 2.0, "C": 1.0}, {"gamma": 2.0, "C": 3.0})
    assert found.index({"gamma": 2.0}) == 1
    assert found.index({"gamma": 2.0, "C": 3.0}) == 2
    assert found.index({"gamma": 1.0, "C": 3.0}) is None


def test_only_what_differs_varies():
    assert curve({"gamma": 1.0, "C": 1.0}, {"gamma": 2.0, "C": 1.0}).varying == ("gamma",)
