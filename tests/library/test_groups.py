from functools import partial

import numpy as np
import pytest

from fkd.core.validation import FairnessWarning
from fkd.measures import by_stratum, chi2, gdp, gedi, hgr, pairwise_fairness
from fkd.measures.groups import LEAST_ROWS


@pytest.fixture
def explained(rng):
    """A prediction that depends on s through a legitimate column of four levels alone."""
    control = rng.integers(4, size=4000)
    s = control / 4 + rng.uniform(0, 0.5, 4000)
    return control + 0.3 * rng.normal(size=4000), s, control


def measured(f, s, y):
    """The three measures, by name, as functions of rows and control columns."""
    return {
        "hgr": lambda rows, **control: hgr(f[rows], s[rows], **control),
        "gdp": lambda rows, **control: gdp(f[rows], s[rows], **control),
        "pf": lambda rows, **control: pairwise_fairness(y[rows], f[rows], s[rows], **control),
    }


def test_what_the_control_explains_is_gone_within_its_groups(explained):
    f, s, control = explained
    assert gdp(f, s) > 0.5
    assert gdp(f, s, control_features=control) < 0.02
    assert hgr(f, s) > 0.7
    assert hgr(f, s, control_features=control) < 0.15
    assert pairwise_fairness(None, f, s, criterion="dp") > 0.5
    within = pairwise_fairness(None, f, s, criterion="dp", control_features=control)
    assert within < 0.05


def test_what_the_control_does_not_explain_is_still_seen(explained):
    f, s, control = explained
    leaning = f + s
    assert gdp(leaning, s, control_features=control) > 5 * gdp(f, s, control_features=control)
    assert hgr(leaning, s, control_features=control) > 0.3


def test_a_continuous_control_explains_by_its_fifths(rng):
    c = rng.uniform(size=4000)
    s = c + rng.uniform(0, 0.5, 4000)
    assert gdp(c, s, control_features=c) < 0.3 * gdp(c, s)


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])
def test_one_group_is_the_plain_value_bit_for_bit(name, rng):
    for n in (31, 333):
        f, s, y = rng.normal(size=(3, n))
        measure, rows = measured(f, s, y)[name], slice(None)
        assert measure(rows, control_features=np.zeros(n)) == measure(rows)
        assert measure(rows, control_features=["same"] * n) == measure(rows)


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])
def test_the_value_is_the_mean_over_groups_weighted_by_their_rows(name, rng):
    f, s, y = rng.normal(size=(3, 400))
    control = np.repeat(["a", "b", "c"], [50, 100, 250])
    measure = measured(f, s, y)[name]
    a, b, c = (measure(control == level) for level in "abc")
    expected = (50 * a + 100 * b + 250 * c) / 400
    assert measure(slice(None), control_features=control) == pytest.approx(expected, rel=1e-12)
    assert abs(a - c) > 1e-3  # or weights would not matter


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])
def test_the_order_of_rows_does_not_matter(name, rng):
    f, s, y, control = rng.normal(size=(4, 300))
    measure, order = measured(f, s, y)[name], rng.permutation(300)
    shuffled = measure(order, control_features=control[order])
    assert shuffled == pytest.approx(measure(slice(None), control_features=control), rel=1e-9)


def test_groups_larger_than_a_block_are_measured_as_by_themselves(rng):
    n = 36_000
    f, s = rng.normal(size=(2, n))
    control = np.arange(n) % 2
    for measure in (hgr, gdp):
        found = by_stratum(measure, f, s, control_features=control)
        assert [group.rows for group in found.strata] == [n // 2, n // 2]
        assert found.strata[1].value == measure(f[1::2], s[1::2])


def test_options_reach_every_group(rng):
    f, s = rng.normal(size=200), rng.uniform(size=200)
    y, control = rng.normal(size=200).round(), np.repeat([0, 1], 100)
    halves = [slice(0, 100), slice(100, 200)]

    def mean(measure, *columns):
        return np.mean([measure(*(column[half] for column in columns)) for half in halves])

    plugin = partial(gdp, estimator="plugin", margins="given", bandwidth=0.1)
    assert plugin(f, s, control_features=control) == pytest.approx(mean(plugin, f, s))
    on_grid = partial(gdp, grid=[0.2, 0.7], bandwidth=0.2)
    assert on_grid(f, s, control_features=control) == pytest.approx(mean(on_grid, f, s))
    by_rank = partial(gdp, margins="rank")
    assert by_rank(f, s**9, control_features=control) == pytest.approx(mean(by_rank, f, s**9))
    ranked = partial(hgr, margins="rank")
    assert ranked(f, s, control_features=control) == pytest.approx(mean(ranked, f, s))
    half = partial(pairwise_fairness, ties="half")
    assert half(y, f.round(), s, control_features=control) == pytest.approx(
        mean(half, y, f.round(), s)
    )
    assert half(y, f.round(), s) != pairwise_fairness(y, f.round(), s)


def test_groups_are_told_with_label_rows_and_value(rng):
    f, s = rng.normal(size=(2, 100))
    control = np.repeat(["large", "middle", "small"], [60, 30, 10])
    for measure in (gdp, gedi, chi2):
        found = by_stratum(measure, f, s, control_features=control)
        assert [(g.label, g.rows) for g in found.strata] == [("large", 60), ("middle", 30)]
        assert found.strata[0].value == measure(f[:60], s[:60])
        (out,) = found.left_out
        assert (out.label, out.rows, out.why) == ("small", 10, f"fewer than {LEAST_ROWS} rows")
        assert (found.rows, found.weights) == (90, (60 / 90, 30 / 90))


def test_a_group_without_anything_to_compare_is_left_out_by_name(rng):
    f, s, y = rng.normal(size=(3, 120))
    s[:40], y[80:] = 1.0, 2.0
    control = np.repeat(["constant s", "both", "constant y"], 40)
    found = by_stratum(pairwise_fairness, y, f, s, control_features=control)
    assert [group.label for group in found.strata] == ["both"]
    assert {(group.label, group.why) for group in found.left_out} == {
        ("constant s", "sensitive column constant"),
        ("constant y", "no pairs to compare in both directions"),
    }
    assert len(by_stratum(gdp, f, s, control_features=control).strata) == 2


def test_several_sensitive_columns_give_one_value_each(rng):
    f, S = rng.normal(size=200), rng.normal(size=(200, 2))
    control = np.repeat([0, 1], [80, 120])
    both = gdp(f, S, control_features=control)
    each = [gdp(f, s, control_features=control) for s in S.T]
    assert both.shape == (2,)
    np.testing.assert_allclose(both, each, rtol=1e-12)


def test_a_control_that_is_the_sensitive_column_is_refused_with_the_cure(rng):
    s = rng.integers(3, size=300)
    with pytest.raises(
        ValueError,
        match=r"got none of 3: 3 with sensitive column constant \('0', '1', '2'\); take .*"
        "a column that does not determine sensitive_features",
    ):
        gdp(rng.normal(size=300), s, control_features=s)


def test_groups_that_are_all_too_small_are_refused_with_the_cure(rng):
    f, s = rng.normal(size=(2, 100))
    with pytest.raises(ValueError, match=r"none of 10: 10 with fewer than 30 rows .*, \.\.\.\)"):
        hgr(f, s, control_features=np.arange(100) % 10)


@pytest.mark.parametrize(
    ("f", "control", "words"),
    [
        ([1.0, np.nan] * 50, [0] * 100, r"y_pred must be finite.*at index \(1,\)"),
        ([1.0, 2.0] * 50, [0] * 99, r"control_features must have one row per prediction \(100\)"),
        ([1.0, 2.0] * 50, [0.0] * 99 + [np.nan], "control_features must have no missing values"),
    ],
)
def test_rows_that_cannot_be_measured_are_refused(f, control, words):
    s = np.arange(100.0)
    for measure in (gdp, hgr, partial(pairwise_fairness, s)):
        with pytest.raises(ValueError, match=words):
            measure(f, s, control_features=control)


def test_a_wrong_option_is_no_reason_to_leave_groups_out(rng):
    f, s = rng.normal(size=(2, 100))
    with pytest.raises(ValueError, match="ties must be"):
        by_stratum(partial(pairwise_fairness, ties="no"), s, f, s, control_features=[0] * 100)
    with pytest.raises(ValueError, match="argument 0 must have one row per prediction"):
        by_stratum(gdp, f[:-1], s, control_features=[0] * 100)
    with pytest.raises(ValueError, match="must end with the sensitive ones"):
        by_stratum(gdp, control_features=[0] * 100)


def test_outliers_within_a_group_are_warned_of(rng):
    f, s = rng.normal(size=(2, 400))
    s[0] = 1e6
    with pytest.warns(FairnessWarning, match="outliers"):
        gdp(f, s, control_features=np.arange(400) % 2)
