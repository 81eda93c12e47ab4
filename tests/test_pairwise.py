"""Pairwise fairness: hand examples, loops over pairs as oracle, exact properties."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import pairwise_fairness, pairwise_rates

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=30, deadline=None)
criteria = pytest.mark.parametrize("criterion", ["eo", "dp"])
ties_rules = pytest.mark.parametrize("ties", ["strict", "half"])


def tied_rows(seed, n=12):
    """Truth, predictions, attribute with many ties in each."""
    return np.random.default_rng(seed).integers(0, 5, size=(3, n)).astype(float)


def untied_rows(seed, n=30):
    rng = np.random.default_rng(seed)
    y, s = rng.normal(size=(2, n))
    return y, y + s + 0.5 * rng.normal(size=n), s


def rates_by_loops(y, f, s, criterion, ties):
    """Both rates, or None where a condition is never met."""
    found = {1: [], -1: []}
    for i, j in product(range(len(f)), repeat=2):
        if s[i] != s[j] and (criterion == "dp" or y[i] > y[j]):
            credit = 0.5 if ties == "half" and f[i] == f[j] else float(f[i] > f[j])
            found[1 if s[i] > s[j] else -1].append(credit)
    if not found[1] or not found[-1]:
        return None
    return np.mean(found[1]), np.mean(found[-1])


@pytest.mark.parametrize(
    ("f", "s", "above", "below", "value"),
    [
        ((1, 3, 2, 4), (1, 3, 2, 4), 1, 0, 1),
        ((2, 1, 4, 3), (2, 1, 3, 4), 0.8, 0, 0.8),
        ((4, 3, 1, 2), (4, 3, 1, 2), 1, 0, 1),
    ],
)
def test_four_rows_by_hand(f, s, above, below, value):
    y = (1, 2, 3, 4)
    assert pairwise_rates(y, f, s) == (above, below)
    assert_allclose(pairwise_fairness(y, f, s), value)


@criteria
@ties_rules
@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_the_value_is_that_of_a_loop_over_all_pairs(criterion, ties, seed):
    y, f, s = tied_rows(seed)
    expected = rates_by_loops(y, f, s, criterion, ties)
    assume(expected is not None)
    assert_allclose(pairwise_rates(y, f, s, criterion=criterion, ties=ties), expected, rtol=1e-12)
    value = pairwise_fairness(y, f, s, criterion=criterion, ties=ties)
    assert_allclose(value, abs(expected[0] - expected[1]), atol=1e-12)
    assert 0 <= value <= 1


@some
@given(seed=seeds)
def test_a_perfect_prediction_is_fair(seed):
    y, _, s = untied_rows(seed)
    assert pairwise_fairness(y, y, s) == 0.0


@some
@given(seed=seeds)
def test_predicting_the_attribute_itself_is_as_unfair_as_can_be(seed):
    y, _, s = untied_rows(seed)
    assert pairwise_fairness(y, s, s) == 1.0
    assert pairwise_fairness(y, s, s, criterion="dp") == 1.0


@criteria
@ties_rules
@some
@given(seed=seeds)
def test_only_the_order_counts(criterion, ties, seed):
    y, f, s = tied_rows(seed, n=40)
    options = {"criterion": criterion, "ties": ties}
    value = pairwise_fairness(y, f, s, **options)
    stretched = np.exp(y), f**3 - 100, 0.001 * s + 7
    assert pairwise_fairness(*stretched, **options) == value
    order = np.random.default_rng(seed).permutation(40)
    assert pairwise_fairness(y[order], f[order], s[order], **options) == value


@criteria
@ties_rules
@some
@given(seed=seeds)
def test_reversing_the_attribute_swaps_the_rates(criterion, ties, seed):
    y, f, s = tied_rows(seed, n=40)
    options = {"criterion": criterion, "ties": ties}
    assert pairwise_rates(y, f, -s, **options) == pairwise_rates(y, f, s, **options)[::-1]


@criteria
@some
@given(seed=seeds)
def test_reversing_an_untied_prediction_complements_the_rates(criterion, seed):
    y, f, s = untied_rows(seed)
    above, below = pairwise_rates(y, f, s, criterion=criterion)
    reversed_rates = pairwise_rates(y, -f, s, criterion=criterion)
    assert_allclose(reversed_rates, (1 - above, 1 - below), atol=1e-12)
    value = pairwise_fairness(y, -f, s, criterion=criterion)
    assert_allclose(value, pairwise_fairness(y, f, s, criterion=criterion), atol=1e-12)


@some
@given(seed=seeds)
def test_half_credit_makes_a_reversed_prediction_the_complement_in_spite_of_ties(seed):
    y, f, s = tied_rows(seed, n=40)
    above, below = pairwise_rates(y, f, s, ties="half")
    assert_allclose(pairwise_rates(y, -f, s, ties="half"), (1 - above, 1 - below), atol=1e-12)


def test_many_rows_give_what_few_rows_give_after_repeating_them(rng):
    # Copies are tied with each other, so each pair just counts k² times: exact at any n.
    rows = np.round(rng.normal(size=(3, 400)), 1)
    few, many = pairwise_fairness(*rows), pairwise_fairness(*np.tile(rows, 80))
    assert_allclose(many, few, rtol=1e-12)


@pytest.mark.parametrize(
    ("y", "f", "s", "criterion"),
    [
        ([1, 2, 3], [3, 1, 2], [1, 2, 3], "eo"),  # s never falls where y rises
        ([1, 1, 1], [3, 1, 2], [1, 3, 2], "eo"),  # no two truths differ
        ([1, 2, 3], [3, 1, 2], [5, 5, 5], "dp"),
    ],
)
def test_a_condition_that_no_pair_meets_is_refused(y, f, s, criterion):
    with pytest.raises(ValueError, match="sensitive_features must leave pairs to compare"):
        pairwise_fairness(y, f, s, criterion=criterion)
    assert pairwise_fairness(y, [1, 1, 1], s, criterion=criterion) == 0.0


def test_parity_needs_no_truth_while_opportunity_does(rng):
    y, f, s = rng.normal(size=(3, 30))
    parity = pairwise_fairness(None, f, s, criterion="dp")
    assert parity == pairwise_fairness(y, f, s, criterion="dp")
    with pytest.raises(ValueError, match="y_true must be given for criterion='eo'"):
        pairwise_fairness(None, f, s)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"criterion": "equal"}, "criterion must be 'eo' or 'dp', got 'equal'"),
        ({"ties": "random"}, "ties must be 'strict' or 'half', got 'random'"),
    ],
)
def test_unknown_options_are_refused(options, rule):
    with pytest.raises(ValueError, match=rule):
        pairwise_fairness([1, 2], [1, 2], [1, 2], **options)


def test_truth_must_have_as_many_rows_as_there_are_predictions():
    with pytest.raises(ValueError, match=r"y_true must have one row per prediction \(3\), got 2"):
        pairwise_fairness([1, 2], [1, 2, 3], [1, 2, 3])


def test_rates_of_several_columns_are_arrays(rng):
    y, f = rng.normal(size=(2, 40))
    S = rng.normal(loc=[5, -3], scale=[1, 2], size=(40, 2))
    above, below = pairwise_rates(y, f, S)
    assert above.shape == below.shape == (2,)
    assert_allclose(pairwise_fairness(y, f, S), abs(above - below))


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_the_unit_of_a_prediction_does_not_matter(rng, unit):
    s, y = rng.uniform(size=(2, 100))
    f = y + s
    assert pairwise_fairness(y, unit * f, s) == pairwise_fairness(y, f, s) > 0.1
