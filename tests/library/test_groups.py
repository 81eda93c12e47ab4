"""Groups of rows: measures within control groups, and means by quantiles of s."""

import itertools
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.validation import FairnessWarning
from fkd.measures import (
    MEASURES,
    by_stratum,
    gdp,
    hgr,
    means_by_pair,
    means_by_quantile,
    pairwise_fairness,
)
from fkd.measures.groups import LEAST_IN_GROUP, LEAST_ROWS, control_groups

three = pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])


def measured(name, y, f, s, rows=slice(None), **options):
    measure = MEASURES[name]
    return measure(*measure.columns(y[rows], f[rows], s[rows]), **options)


# How control columns form groups


def sizes(control):
    return {group.label: len(group.index) for group in control_groups(control, len(control))}


def mixed():
    table = np.empty((100, 2), dtype=object)
    table[:, 0], table[:, 1] = list(range(100)), "x"
    return table


@pytest.mark.parametrize(
    ("control", "groups"),
    [
        (["b", "a", "b"], {"a": 1, "b": 2}),
        ([2018, 2019, 2018], {"2018": 2, "2019": 1}),
        ([True, False, True], {"False": 1, "True": 2}),
        (np.arange(10), {str(i): 1 for i in range(10)}),
        # More than ten numbers are cut at their quintiles; equal numbers stay together.
        (np.arange(11), {"0 to 2": 3, "3 to 4": 2, "5 to 6": 2, "7 to 8": 2, "9 to 10": 2}),
        (np.r_[np.zeros(900), np.arange(1, 101)], {"0": 900, "1 to 100": 100}),
        (np.r_[np.full(900, 200), np.arange(100)], {"0 to 99": 100, "200": 900}),
        ([f"word {i:02}" for i in range(11)], {f"word {i:02}": 1 for i in range(11)}),
        ([1_000_000.1, 1_000_000.2], {"1000000.1": 1, "1000000.2": 1}),
        (
            pd.DataFrame({"kind": ["a", "b", "a", "a"], "year": [1, 1, 2, 2]}),
            {"a / 1": 1, "a / 2": 2, "b / 1": 1},
        ),
        ([("a", 1), ("b", 1), ("a", 2), ("a", 2)], {"a / 1": 1, "a / 2": 2, "b / 1": 1}),
        (
            mixed(),
            {f"{i} to {i + 19} / x": 20 for i in range(0, 100, 20)},
        ),
    ],
)
def test_control_columns_form_groups(control, groups):
    assert sizes(control) == groups


def test_equal_labels_do_not_join_groups():
    groups = control_groups([("a / b", "c"), ("a", "b / c")], 2)
    assert [group.label for group in groups] == ["a / b / c", "a / b / c"]
    assert sorted(int(group.index[0]) for group in groups) == [0, 1]


def test_groups_hold_the_positions_of_their_rows_in_order():
    a, b = control_groups(["b", "a", "b", "a"], 4)
    assert (a.index.tolist(), b.index.tolist()) == ([1, 3], [0, 2])


@pytest.mark.parametrize(
    ("control", "words"),
    [
        ([1.0, np.nan, 2.0], "missing values, got 1 in column 0, the first in row 1"),
        (["a", None, None], "missing values, got 2 in column 0, the first in row 1"),
        (pd.Series([1, None, 2], dtype="Int64"), "missing values"),
        (pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}), "column 1"),
        (np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"), "missing values"),
        ([1.0, np.inf, 2.0], "finite"),
        ([1, 2], r"\(3\), got 2"),
        (np.zeros((3, 1, 1)), "table"),
        (np.zeros((3, 0)), "column"),
        ([[1], [1, 2], [3]], "length"),
        (np.ma.masked_equal([1, 2, 3], 2), "masked"),
    ],
)
def test_invalid_control_columns_are_refused(control, words):
    with pytest.raises(ValueError, match=f"control_features .*{words}"):
        control_groups(control, 3)


# Measures within groups


@pytest.fixture
def explained(rng):
    """A prediction that depends on s only through a control column of four levels."""
    control = rng.integers(4, size=4000)
    s = control / 4 + rng.uniform(0, 0.5, 4000)
    return control + 0.3 * rng.normal(size=4000), s, control


def test_dependence_explained_by_the_control_vanishes_within_groups(explained):
    f, s, control = explained
    assert gdp(f, s) > 0.5
    assert gdp(f, s, control_features=control) < 0.02
    assert hgr(f, s) > 0.7
    assert hgr(f, s, control_features=control) < 0.15
    parity = partial(pairwise_fairness, None, criterion="dp")
    assert parity(f, s) > 0.5
    assert parity(f, s, control_features=control) < 0.05


def test_remaining_dependence_is_detected_within_groups(explained):
    f, s, control = explained
    leaning = f + s
    assert gdp(leaning, s, control_features=control) > 5 * gdp(f, s, control_features=control)
    assert hgr(leaning, s, control_features=control) > 0.3


def test_continuous_control_is_cut_into_quintiles(rng):
    c = rng.uniform(size=4000)
    s = c + rng.uniform(0, 0.5, 4000)
    assert gdp(c, s, control_features=c) < 0.3 * gdp(c, s)


@three
def test_one_group_is_the_plain_value_bit_for_bit(name, rng):
    for n in (31, 333):
        rows = rng.normal(size=(3, n))
        for control in (np.zeros(n), ["same"] * n):
            assert measured(name, *rows, control_features=control) == measured(name, *rows)


@three
def test_value_is_the_mean_over_groups_weighted_by_rows(name, rng):
    rows = rng.normal(size=(3, 400))
    control = np.repeat(["a", "b", "c"], [50, 100, 250])
    a, b, c = (measured(name, *rows, control == level) for level in "abc")
    expected = (50 * a + 100 * b + 250 * c) / 400
    assert measured(name, *rows, control_features=control) == pytest.approx(expected, rel=1e-12)
    assert abs(a - c) > 1e-3  # or weights would not matter


@three
def test_order_of_rows_does_not_matter(name, rng):
    *rows, control = rng.normal(size=(4, 300))
    order = rng.permutation(300)
    shuffled = measured(name, *rows, order, control_features=control[order])
    assert shuffled == pytest.approx(measured(name, *rows, control_features=control), rel=1e-9)


def test_groups_larger_than_a_block_have_their_own_value(rng):
    n = 2 * BLOCK_ROWS + 4000
    f, s = rng.normal(size=(2, n))
    for measure in (hgr, gdp):
        found = by_stratum(measure, f, s, control_features=np.arange(n) % 2)
        assert [group.rows for group in found.strata] == [n // 2, n // 2]
        assert found.strata[1].value == measure(f[1::2], s[1::2])


def test_options_apply_to_every_group(rng):
    f, s = rng.normal(size=200), rng.uniform(size=200) ** 9
    y, control = rng.normal(size=200).round(), np.repeat([0, 1], 100)
    halves = [slice(0, 100), slice(100, 200)]
    for measure, columns in (
        (partial(gdp, estimator="plugin", margins="given", bandwidth=0.1), (f, s)),
        (partial(gdp, grid=[0.2, 0.7], bandwidth=0.2), (f, s)),
        (partial(gdp, margins="rank"), (f, s)),
        (partial(hgr, margins="rank"), (f, s)),
        (partial(pairwise_fairness, ties="half"), (y, f.round(), s)),
        (partial(pairwise_fairness, criterion="dp"), (y, f.round(), s)),
    ):
        expected = np.mean([measure(*(c[half] for c in columns)) for half in halves])
        assert measure(*columns, control_features=control) == pytest.approx(expected)
        with warnings.catch_warnings(action="ignore", category=FairnessWarning):
            default = measure.func(*columns, control_features=control)
        assert default != pytest.approx(expected)


def test_groups_have_labels_rows_values_and_reasons(rng):
    f, s = rng.normal(size=(2, 100))
    control = np.repeat(["large", "middle", "small"], [60, 30, 10])
    for measure in (gdp, MEASURES["gedi"], MEASURES["chi2"]):
        found = by_stratum(measure, f, s, control_features=control)
        assert [(g.label, g.rows) for g in found.strata] == [("large", 60), ("middle", 30)]
        assert found.strata[0].value == measure(f[:60], s[:60])
        (out,) = found.left_out
        assert (out.label, out.rows, out.why) == ("small", 10, f"fewer than {LEAST_ROWS} rows")
        assert (found.rows, found.weights) == (90, (60 / 90, 30 / 90))


def test_group_without_anything_to_compare_is_left_out(rng):
    f, s, y = rng.normal(size=(3, 120))
    s[:40], y[80:] = 1.0, 2.0
    control = np.repeat(["constant s", "both", "constant y"], 40)
    found = by_stratum(pairwise_fairness, y, f, s, control_features=control)
    assert [group.label for group in found.strata] == ["both"]
    why = {group.label: group.why for group in found.left_out}
    assert "constant" in why["constant s"]
    assert "pairs" in why["constant y"]
    assert len(by_stratum(gdp, f, s, control_features=control).strata) == 2


def test_several_sensitive_columns_have_one_value_each(rng):
    f, S = rng.normal(size=200), rng.normal(size=(200, 2))
    control = np.repeat([0, 1], [80, 120])
    both = gdp(f, S, control_features=control)
    assert both.shape == (2,)
    assert_allclose(both, [gdp(f, s, control_features=control) for s in S.T], rtol=1e-12)


def test_control_features_must_leave_a_group_to_measure(rng):
    f, s = rng.normal(size=(2, 300))
    with pytest.raises(ValueError, match=r"control_features .*none of 10: .*fewer than 30 rows"):
        hgr(f[:100], s[:100], control_features=np.arange(100) % 10)
    levels = np.arange(300) % 3
    with pytest.raises(ValueError, match=r"none of 3: .*constant .*'0', '1', '2'"):
        gdp(f, levels, control_features=levels)


@pytest.mark.parametrize(
    ("f", "control", "words"),
    [
        ([1.0, np.nan] * 50, [0] * 100, r"y_pred must .*\(1,\)"),
        ([1.0, 2.0] * 50, [0] * 99, "control_features must"),
        ([1.0, 2.0] * 50, [0.0] * 99 + [np.nan], "control_features must"),
    ],
)
def test_invalid_rows_are_refused_by_name(f, control, words):
    s = np.arange(100.0)
    for measure in (gdp, hgr, partial(pairwise_fairness, s)):
        with pytest.raises(ValueError, match=words):
            measure(f, s, control_features=control)


def test_invalid_options_are_refused_not_left_out(rng):
    f, s = rng.normal(size=(2, 100))
    with pytest.raises(ValueError, match=r"^ties must"):
        by_stratum(partial(pairwise_fairness, ties="no"), s, f, s, control_features=[0] * 100)
    with pytest.raises(ValueError, match=r"^argument 1 must"):
        by_stratum(gdp, f[:-1], s, control_features=[0] * 100)
    with pytest.raises(ValueError, match=r"^columns must"):
        by_stratum(gdp, control_features=[0] * 100)


def test_outliers_within_a_group_give_a_warning(rng):
    f, s = rng.normal(size=(2, 400))
    s[0] = 1e6
    with pytest.warns(FairnessWarning, match="outliers"):
        gdp(f, s, control_features=np.arange(400) % 2)


# Means by quantiles


@pytest.mark.parametrize("n", [400, BLOCK_ROWS + 7])
def test_deciles_have_the_means_and_t_intervals_of_their_rows(n):
    rng = np.random.default_rng(0)
    s, V = rng.permutation(n).astype(float), rng.normal(size=(n, 2))
    groups = means_by_quantile(V, s)
    assert len(groups) == 10
    assert {group.rows for group in groups} <= {n // 10, n // 10 + 1}
    first = V[np.argsort(s)[: groups[0].rows]]
    assert_allclose(groups[0].mean, first.mean(axis=0))
    low, high = stats.t.interval(0.95, len(first) - 1, first.mean(axis=0), stats.sem(first))
    assert_allclose([groups[0].low, groups[0].high], [low, high])


@given(
    values=st.lists(st.integers(0, 12), min_size=5, max_size=300),
    groups=st.integers(2, 12),
)
def test_quantile_groups_contain_every_row_once_and_keep_equal_values_together(values, groups):
    s = np.array(values, dtype=float)
    found = means_by_quantile(s, s, groups=groups)
    assert sum(group.rows for group in found) == len(s)
    assert len(found) <= groups
    assert all(group.rows >= LEAST_IN_GROUP for group in found)
    ends = [end for group in found for end in group.ranges[0]]
    assert ends == sorted(ends)
    assert all(a.ranges[0][1] < b.ranges[0][0] for a, b in itertools.pairwise(found))
    assert_allclose(sum(group.rows * group.mean[0] for group in found), s.sum(), atol=1e-9)


def test_small_quantile_groups_join_the_group_before():
    s = np.repeat([0.0, 1, 2, 3], [3, 9, 2, 4])
    found = means_by_quantile(s, s, groups=10)
    assert [(group.rows, group.ranges[0]) for group in found] == [(12, (0, 1)), (6, (2, 3))]
    (one,) = means_by_quantile(np.ones(9), np.full(9, 2.0))
    assert one.rows == 9


def test_pairs_of_thirds_have_the_means_of_their_rows(rng):
    a, b = rng.uniform(size=(2, 900))
    b = np.where(a < 1 / 3, np.minimum(b, 0.6), b)  # few rows are low in a and high in b
    V = rng.normal(size=900)
    found, left_out = means_by_pair(V, a, b)
    assert sum(group.rows for group in (*found, *left_out)) == 900
    assert len(found) + len(left_out) == 9
    assert left_out
    assert all(group.rows < 30 and "30 rows" in group.why for group in left_out)
    (low_a, high_a), (low_b, high_b) = found[0].ranges
    inside = (a >= low_a) & (a <= high_a) & (b >= low_b) & (b <= high_b)
    assert_allclose(found[0].mean, V[inside].mean())
    assert found[0].rows == inside.sum()


def test_quantile_groups_need_five_rows():
    with pytest.raises(ValueError, match="5 rows, got 4"):
        means_by_quantile(np.ones(4), np.arange(4.0))
