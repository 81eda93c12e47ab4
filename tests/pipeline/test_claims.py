"""Claims: rules that can say yes as well as no, verdicts and their counts, curves as needed."""

from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import TypeAdapter

from configs.reproduction import Claim
from tasks.reproduce.claims import (
    COUNTS,
    NotJudgedError,
    Verdict,
    count,
    errors_of,
    front_error,
    gap,
    headline,
    interval_of,
    levels_of,
    rule_of,
    scores_needed,
    word_of,
)
from tasks.reproduce.curves import Curve

CLAIM = TypeAdapter(Claim)


def claim(rule, **keys):
    return CLAIM.validate_python({"says": "so", "curve": "A", "rule": rule, **keys})


def scores(**curves):
    """Arrays by curve from lists of (mae, hgr, gdp)."""
    return {
        label: {
            name: np.array(column, float)
            for name, column in zip(("mae", "hgr", "gdp"), zip(*points, strict=True), strict=True)
        }
        for label, points in curves.items()
    }


class _Curve(SimpleNamespace):
    def at(self, strength):
        return self.strengths.index(strength) if strength in self.strengths else None

    def words(self, i):
        return f"setting {i}"

    def index(self, parameters):
        return int(parameters["place"])


def curves(*constants, **strengths):
    return {
        label: _Curve(label=label, strengths=list(values), constant=label in constants)
        for label, values in strengths.items()
    }


A = [(0.10, 0.5, 0.05), (0.12, 0.3, 0.03), (0.15, 0.1, 0.01)]
WORSE = [(mae + 0.01, hgr, gdp) for mae, hgr, gdp in A]
DUMMY = [(0.2, 0.0, 0.0)]


def value(of, row, error="mae", **strengths):
    found = curves(**strengths or dict.fromkeys(row, (0,)))
    rule = rule_of(of, found, row, error)
    number = rule.statistic(row)
    return number, rule.low < number < rule.high


def test_a_front_is_interpolated_and_ends_at_the_dummy():
    measure, error = np.array([0.4, 0.2]), np.array([0.1, 0.14])
    found = front_error(measure, error, 0.2, np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.9]))
    np.testing.assert_allclose(found, [0.2, 0.17, 0.14, 0.12, 0.1, 0.1])


def test_a_dominated_point_changes_nothing():
    levels = np.linspace(0, 0.5, 11)
    one = front_error(np.array([0.4, 0.2]), np.array([0.1, 0.14]), 0.2, levels)
    more = front_error(np.array([0.4, 0.2, 0.45]), np.array([0.1, 0.14, 0.19]), 0.2, levels)
    np.testing.assert_array_equal(one, more)


def test_the_gap_of_two_fronts_changes_sign_with_their_order():
    row = scores(A=A, B=WORSE, Dummy=DUMMY)
    levels = levels_of(row, "A", "B", "hgr", "all")
    assert gap(row, "A", "B", "hgr", levels) == -gap(row, "B", "A", "hgr", levels)
    np.testing.assert_allclose(gap(row, "A", "B", "hgr", levels), -0.01)


def test_below_its_own_points_a_front_goes_straight_to_the_dummy():
    row = scores(A=A, B=A[:1], Dummy=DUMMY)  # B ends at an HGR of 0.5
    levels = np.array([0.25])
    # B: halfway between (0.5, 0.10) and (0, 0.2); A: between its own points.
    np.testing.assert_allclose(gap(row, "A", "B", "hgr", levels), 0.1275 - 0.15)


def test_without_a_dummy_a_shift_of_the_error_is_the_gap():
    row = scores(A=A, B=WORSE)
    weak = levels_of(row, "A", "B", "hgr", "weak")
    np.testing.assert_allclose(gap(row, "A", "B", "hgr", weak), -0.01)


def test_fronts_are_compared_over_the_range_that_the_two_have():
    row = scores(A=[(0, 0.6, 0), (0, 0.3, 0)], B=[(0, 0.5, 0), (0, 0.2, 0)])
    levels = levels_of(row, "A", "B", "hgr", "all")
    assert (levels[0], levels[-1]) == (0.2, 0.6)


def test_a_method_that_has_collapsed_to_the_dummy_is_beaten():
    row = scores(A=A, B=[(0.2, 0.01, 0.0), (0.2, 0.02, 0.0)], Dummy=DUMMY)
    assert value(claim("better", than="B", measure="gdp"), row)[1]
    assert not value(claim("better", curve="B", than="A", measure="gdp"), row)[1]


def test_halves_are_the_fairer_and_the_other_one():
    row = scores(A=A, B=WORSE)
    strong, weak = (levels_of(row, "A", "B", "hgr", part) for part in ("strong", "weak"))
    assert strong.min() == 0.1
    assert strong.max() < weak.min() <= weak.max() == pytest.approx(0.5)
    both = np.concatenate([strong, weak])
    np.testing.assert_array_equal(both, levels_of(row, "A", "B", "hgr", "all"))


@pytest.mark.parametrize("part", ["all", "strong", "weak"])
def test_better(part):
    row = scores(A=A, B=WORSE, Dummy=DUMMY)
    assert value(claim("better", than="B", measure="hgr", part=part), row)[1]
    assert not value(claim("better", than="A", measure="hgr", curve="B", part=part), row)[1]


def squared(row, **rmse):
    """The scores with a second error of each curve."""
    return {label: {**by, "rmse": np.array(rmse[label], float)} for label, by in row.items()}


def test_who_is_better_follows_the_error():
    row = squared(
        scores(A=A, B=WORSE, Dummy=DUMMY), A=[0.2, 0.22, 0.25], B=[0.18, 0.2, 0.23], Dummy=[0.3]
    )
    of = claim("better", than="B", measure="hgr")
    assert value(of, row)[1]
    assert not value(of, row, "rmse")[1]
    assert value(claim("better", curve="B", than="A", measure="hgr"), row, "rmse")[1]
    assert "RMSE at equal HGR" in rule_of(of, {}, row, "rmse").unit


def test_a_front_by_rmse_ends_at_the_dummys_rmse():
    row = squared(scores(A=A, B=A[:1], Dummy=DUMMY), A=[0.2, 0.24, 0.3], B=[0.2], Dummy=[0.4])
    # B: halfway between (0.5, 0.2) and (0, 0.4); A: between its own points.
    found = gap(row, "A", "B", "hgr", np.array([0.25]), "rmse")
    np.testing.assert_allclose(found, 0.255 - 0.3)


def test_only_claims_on_two_fronts_are_judged_by_both_errors():
    assert errors_of(claim("better", than="B", measure="hgr")) == ("mae", "rmse")
    assert errors_of(claim("not_better", than="B", measure="hgr")) == ("mae", "rmse")
    lead = claim("more_pronounced", than="B", measure="hgr", beside="gdp")
    assert errors_of(lead) == ("mae", "rmse")
    assert scores_needed(lead)["Dummy"] == ("mae", "rmse")
    assert errors_of(claim("less_error", than="B")) == ("mae",)


def test_a_margin_is_a_share_of_what_the_better_curve_gains_on_the_dummy():
    row = scores(A=A, B=WORSE, Dummy=DUMMY)  # A: 0.01 better, of a gain of 0.1
    keys = {"measure": "hgr", "part": "weak"}
    number, true = value(claim("not_better", than="B", margin=0.09, **keys), row)
    assert (number, true) == (pytest.approx(-0.1), False)
    assert value(claim("not_better", than="B", margin=0.11, **keys), row)[1]
    assert value(claim("not_better", curve="B", than="A", **keys), row)[1]
    # In another unit of the target the verdict is the same.
    tenth = {label: {**by, "mae": by["mae"] / 10} for label, by in row.items()}
    assert value(claim("not_better", than="B", margin=0.09, **keys), tenth)[0] == pytest.approx(
        -0.1
    )


def test_without_an_effect_there_is_no_share_of_it():
    of = claim("not_better", than="B", measure="hgr")
    flat = scores(A=[(0.21, 0.1, 0)], B=[(0.22, 0.2, 0)], Dummy=DUMMY)
    found = curves(A=(0,), B=(0,))
    with pytest.raises(NotJudgedError, match="neither has less MAE than the dummy"):
        rule_of(of, found, flat)
    with pytest.raises(NotJudgedError, match="without a dummy"):
        rule_of(of, found, scores(A=A, B=WORSE))


def test_two_constants_are_compared_as_any_two_errors():
    row = scores(A=[(0.1999, 0.1, 0)], B=[(0.2, 0.2, 0)], Dummy=DUMMY)
    rule = rule_of(
        claim("not_better", than="B", measure="hgr"), curves("A", "B", A=(0,), B=(0,)), row
    )
    assert -0.001 < rule.statistic(row) < 0
    assert rule.unit.endswith("a share of the dummy's")


def test_more_pronounced_in_the_measure_where_the_lead_is_greater():
    B = [(mae + (0.02 if hgr > 0.2 else 0), hgr, gdp * 0.2) for mae, hgr, gdp in A]
    row = scores(A=A, B=B, Dummy=DUMMY)
    keys = {"than": "B", "curve": "A"}
    assert value(claim("more_pronounced", measure="hgr", beside="gdp", **keys), row)[1]
    assert not value(claim("more_pronounced", measure="gdp", beside="hgr", **keys), row)[1]


def test_without_a_lead_none_is_greater():
    worse_in_gdp = [(mae, hgr, 2 * gdp) for mae, hgr, gdp in A]
    row = scores(A=worse_in_gdp, B=A, Dummy=DUMMY)
    of = claim("more_pronounced", than="B", measure="hgr", beside="gdp")
    assert not value(of, row)[1]  # equal by HGR, worse by GDP


def test_constant_values_have_no_trend():
    row = scores(A=[(0.1, 0.0, 0.0), (0.1, 0.0, 0.0)])
    assert value(claim("trend", of="hgr", direction="down"), row) == (0.0, False)


def test_draws_are_shifted_to_the_number_except_at_a_bound():
    draws = np.linspace(1.1, 1.5, 1001)  # of a number that is 1 on the rows themselves
    free, bounded, least = (
        SimpleNamespace(bounded=b, least=c)
        for b, c in ((False, -np.inf), (True, -np.inf), (False, 0.9))
    )
    assert interval_of(free, 1.0, draws) == (pytest.approx(0.81), pytest.approx(1.19))
    assert interval_of(bounded, 1.0, draws) == (1.0, pytest.approx(1.49))
    assert interval_of(least, 1.0, draws) == (0.9, pytest.approx(1.19))
    with pytest.raises(NotJudgedError, match="not defined"):
        interval_of(free, float("nan"), draws)


def test_equal_and_less_error():
    row = scores(A=[(0.199, 0, 0)], B=[(0.15, 0, 0)], Dummy=DUMMY)
    assert value(claim("equal", than="Dummy"), row)[1]
    assert not value(claim("equal", than="Dummy", curve="B"), row)[1]
    assert value(claim("less_error", than="Dummy", curve="B"), row)[1]
    assert not value(claim("less_error", than="B", curve="Dummy"), row)[1]


def test_equal_can_be_taken_at_one_strength():
    """Regularised the curve has the dummy's error, unregularised it has less, or the reverse."""
    row = scores(A=[(0.21, 0, 0), (0.199, 0, 0)], Dummy=DUMMY)
    assert value(claim("equal", than="Dummy"), row, A=(0, 5))[1]
    found = value(claim("equal", than="Dummy", at=0), row, A=(0, 5))
    assert found == (pytest.approx(0.05), False)
    assert value(claim("equal", than="Dummy", at=5), row, A=(0, 5))[1]
    assert "setting 0" in rule_of(claim("equal", than="Dummy", at=0), curves(A=(0,)), row).unit


def test_near_compares_equal_strengths_only():
    far = [(9.0, 9.0, 9.0), *A[1:]]
    row = scores(A=A, B=far, C=WORSE)
    keys = {"measure": "hgr", "curve": "A"}
    same = {"A": (0, 1, 2), "B": (7, 1, 2), "C": (0, 1, 2)}
    assert value(claim("near", to="B", **keys), row, **same)[0] == 0
    assert not value(claim("near", to="C", **keys), row, **same)[1]  # 0.01 of a range of 0.05


def test_near_without_a_common_setting_is_not_judged():
    with pytest.raises(NotJudgedError, match="no common setting"):
        rule_of(
            claim("near", to="B", measure="hgr"), curves(A=(1,), B=(2,)), scores(A=A[:1], B=A[:1])
        )


def test_trend_and_change():
    row = scores(A=A)
    assert value(claim("trend", of="mae", direction="up"), row) == (1.0, True)
    assert value(claim("trend", of="hgr", direction="up"), row) == (-1.0, False)
    steps = {"start": 0, "stop": 2}
    up = claim("change", of="mae", direction="up", **steps)
    assert value(up, row, A=(0, 1, 2)) == (pytest.approx(1 / 3), True)
    flat = claim("change", of="hgr", direction="not_down", **steps)
    assert not value(flat, row, A=(0, 1, 2))[1]
    assert value(claim("change", of="hgr", direction="down", **steps), row, A=(0, 1, 2))[1]


def test_a_small_fall_is_none():
    row = scores(A=[(0.1, 0.300, 0), (0.1, 0.297, 0)])
    keys = {"of": "hgr", "direction": "not_down", "start": 0, "stop": 1}
    assert value(claim("change", margin=0.02, **keys), row, A=(0, 1))[1]
    assert not value(claim("change", margin=0.005, **keys), row, A=(0, 1))[1]


def test_faster():
    row = scores(A=[(0, 0.5, 0), (0, 0.2, 0)], B=[(0, 0.6, 0), (0, 0.5, 0)])
    steps = {"A": (0, 60), "B": (0, 60)}
    found = value(claim("faster", than="B", measure="hgr", at=60), row, **steps)
    assert found == (pytest.approx(0.2), True)
    assert not value(claim("faster", curve="B", than="A", measure="hgr", at=60), row, **steps)[1]
    with pytest.raises(NotJudgedError, match="A was not computed at 30"):
        value(claim("faster", than="B", measure="hgr", at=30), row, **steps)


def test_less_error_at_one_setting():
    row = scores(A=A, Dummy=[(0.14, 0.0, 0.0)])
    for at, true in ((0, True), (5, True), (9, False)):
        found = value(claim("less_error", than="Dummy", at=at), row, A=(0, 5, 9))
        assert found[1] is true
    with pytest.raises(NotJudgedError, match="not computed at 7"):
        value(claim("less_error", than="Dummy", at=7), row, A=(0, 5, 9))


def test_optimal_to_a_margin():
    of = claim("optimal", at={"place": 2}, by="mse")
    far = {"A": {"mse": np.array([4.0, 2.0, 3.0])}}
    assert value(of, far, A=(0, 0, 0))[0] == pytest.approx(0.5)
    row = {"A": {"mse": np.array([1.00, 1.005, 1.2])}}
    for place, true in ((0, True), (1, True), (2, False)):
        of = claim("optimal", at={"place": place}, by="mse")
        assert value(of, row, A=(0, 0, 0))[1] is true
        best = rule_of(of, curves(A=(0, 0, 0)), row).unit
        assert best.endswith("setting 1" if place == 0 else "setting 0")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(-3, -1, "holds"), (1, 3, "fails"), (-1, 1, "unclear"), (0, 1, "fails")],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(low, high, word):
    assert word_of(SimpleNamespace(low=-np.inf, high=0.0), (low + high) / 2, low, high) == word


@pytest.mark.parametrize(("value", "low", "high"), [(0.5, -3, -1), (-0.5, 1, 3)])
def test_a_verdict_does_not_contradict_its_own_number(value, low, high):
    assert word_of(SimpleNamespace(low=-np.inf, high=0.0), value, low, high) == "unclear"


def test_an_interval_that_only_touches_the_region_fails():
    above = SimpleNamespace(low=0.0, high=np.inf)
    assert word_of(above, -1.0, -2.0, 0.0) == "fails"


def verdict(word, rmse=None, *, source="section 4.1", collapsed=""):
    return Verdict("crimes", "so", source, word, rmse_verdict=rmse, collapsed=collapsed)


FOUND = [
    verdict("holds", "holds"),
    verdict("holds", "fails"),
    verdict("holds", "unclear"),
    verdict("unclear", "holds"),
    verdict("fails", "fails"),
    verdict("holds"),
    verdict("holds", "holds", collapsed="NN-HGR"),
    verdict("fails", "holds", collapsed="NN-HGR"),
    verdict("holds", "holds", source="ours"),
]


@pytest.mark.parametrize(
    ("word", "collapsed", "as_"),
    [
        ("holds", "", "holds"),
        ("holds", "NN-HGR", "holds against a constant"),
        ("fails", "NN-HGR", "fails"),
        ("unclear", "NN-HGR", "unclear"),
    ],
)
def test_only_what_holds_is_counted_apart(word, collapsed, as_):
    assert verdict(word, collapsed=collapsed).counted_as == as_


def test_every_verdict_is_counted_once():
    assert sum(count(FOUND, as_) for as_ in COUNTS) == len(FOUND)
    assert count(FOUND, "holds") == 5
    assert count(FOUND, "holds", ours=False) == 4
    assert count(FOUND, "holds", ours=True) == 1
    assert count(FOUND, "holds against a constant") == 1


def test_the_headline_names_the_error_by_which_statements_hold():
    text = headline(FOUND, ours=False)
    assert "taken from the paper 4 hold, 1 more hold only against a network" in text
    assert "2 fail, 1 are unclear, 0 were not judged" in text
    assert "Of 5 that compare errors" in text
    assert "1 hold by MAE and by RMSE, 2 by MAE alone, 1 by RMSE alone, 1 by neither" in text
    assert "constant" not in headline([verdict("holds", "holds")], ours=False).split("Of 1 that")[0]
    assert "RMSE" not in headline([verdict("holds")], ours=False)
    assert "added here 1 hold" in headline(FOUND, ours=True)


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
