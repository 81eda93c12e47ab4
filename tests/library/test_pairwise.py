"""Pairwise fairness: hand examples, all pairs as oracle, and every way of counting ascents."""

import sys
import tracemalloc
from functools import cache
from importlib import import_module
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import PairwiseRows, pairwise_fairness, pairwise_rates
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.pairwise import (
    MOST_ROWS,
    SUBSAMPLES_FROM,
    ascents_by_bits,
    ascents_by_merging,
    pairwise_on_subsamples,
)

module = import_module("fkd.measures.pairwise")
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
    """Both rates, or None if a condition is never met."""
    found = {1: [], -1: []}
    for i, j in product(range(len(f)), repeat=2):
        if s[i] != s[j] and (criterion == "dp" or y[i] > y[j]):
            credit = 0.5 if ties == "half" and f[i] == f[j] else float(f[i] > f[j])
            found[1 if s[i] > s[j] else -1].append(credit)
    if not found[1] or not found[-1]:
        return None
    return np.mean(found[1]), np.mean(found[-1])


def rates_by_matrix(y, f, s, w, criterion="eo", ties="strict"):
    """Both rates from matrices of all pairs, weighted by products; None if one is undefined."""
    pair = w[:, None] * w * ((y[:, None] > y) | (criterion == "dp"))
    right, wrong, found = f[:, None] > f, f[:, None] < f, []
    for given_s in (s[:, None] > s, s[:, None] < s):
        pairs, above, below = ((pair * given_s * rank).sum() for rank in (1, right, wrong))
        if pairs == 0:
            return None
        found.append(above / pairs if ties == "strict" else (pairs + above - below) / (2 * pairs))
    return tuple(found)


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
def test_value_is_that_of_a_loop_over_all_pairs(criterion, ties, seed):
    y, f, s = tied_rows(seed)
    expected = rates_by_loops(y, f, s, criterion, ties)
    assume(expected is not None)
    options = {"criterion": criterion, "ties": ties}
    assert_allclose(pairwise_rates(y, f, s, **options), expected, rtol=1e-12)
    value = pairwise_fairness(y, f, s, **options)
    assert_allclose(value, abs(expected[0] - expected[1]), atol=1e-12)
    assert 0 <= value <= 1


@some
@given(seed=seeds)
def test_perfect_prediction_is_fair_and_the_attribute_itself_is_unfair(seed):
    y, _, s = untied_rows(seed)
    assert pairwise_fairness(y, y, s) == 0.0
    assert pairwise_fairness(y, s, s) == 1.0
    assert pairwise_fairness(y, s, s, criterion="dp") == 1.0


@criteria
@ties_rules
@some
@given(seed=seeds)
def test_only_the_order_matters_and_reversing_s_swaps_the_rates(criterion, ties, seed):
    y, f, s = tied_rows(seed, n=40)
    options = {"criterion": criterion, "ties": ties}
    rates = pairwise_rates(y, f, s, **options)
    assert pairwise_rates(np.exp(y), f**3 - 100, 0.001 * s + 7, **options) == rates
    order = np.random.default_rng(seed).permutation(40)
    assert pairwise_rates(y[order], f[order], s[order], **options) == rates
    assert pairwise_rates(y, f, -s, **options) == rates[::-1]


@criteria
@some
@given(seed=seeds)
def test_reversing_a_prediction_complements_the_rates(criterion, seed):
    for rows, ties in ((untied_rows(seed), "strict"), (tied_rows(seed, n=40), "half")):
        y, f, s = rows
        above, below = pairwise_rates(y, f, s, criterion=criterion, ties=ties)
        reversed_rates = pairwise_rates(y, -f, s, criterion=criterion, ties=ties)
        assert_allclose(reversed_rates, (1 - above, 1 - below), atol=1e-12)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_unit_of_a_prediction_does_not_matter(rng, unit):
    s, y = rng.uniform(size=(2, 100))
    f = y + s
    assert pairwise_fairness(y, unit * f, s) == pairwise_fairness(y, f, s) > 0.1


@pytest.mark.parametrize(
    ("y", "f", "s", "criterion"),
    [
        ([1, 2, 3], [3, 1, 2], [1, 2, 3], "eo"),  # s never falls while y rises
        ([1, 1, 1], [3, 1, 2], [1, 3, 2], "eo"),  # no two truths differ
        ([1, 2, 3], [3, 1, 2], [5, 5, 5], "dp"),
    ],
)
def test_condition_without_pairs_is_refused(y, f, s, criterion):
    with pytest.raises(UndefinedMeasureError, match=r"^sensitive_features must"):
        pairwise_fairness(y, f, s, criterion=criterion)
    assert pairwise_fairness(y, [1, 1, 1], s, criterion=criterion) == 0.0


def test_parity_needs_no_truth(rng):
    y, f, s = rng.normal(size=(3, 30))
    parity = pairwise_fairness(None, f, s, criterion="dp")
    assert parity == pairwise_fairness(y, f, s, criterion="dp")


def test_rates_of_several_columns_are_arrays(rng):
    y, f = rng.normal(size=(2, 40))
    S = rng.normal(loc=[5, -3], scale=[1, 2], size=(40, 2))
    above, below = pairwise_rates(y, f, S)
    assert above.shape == below.shape == (2,)
    assert_allclose(pairwise_fairness(y, f, S), abs(above - below))


@criteria
@ties_rules
def test_rows_sorted_once_give_the_bits_of_the_plain_call(rng, criterion, ties):
    y, S = rng.normal(size=700), rng.integers(40, size=(700, 2)).astype(float)
    rows = PairwiseRows(y, S, criterion=criterion)
    single = PairwiseRows(y, S[:, 0], criterion=criterion)
    options = {"criterion": criterion, "ties": ties}
    for f in (rng.normal(size=700), S[:, 1] + rng.integers(3, size=700), np.full(700, 0.1)):
        plain = pairwise_fairness(y, f, S, **options)
        assert rows.fairness(f, ties=ties).tolist() == plain.tolist()
        assert single.fairness(f, ties=ties) == plain[0]
        for a, b in zip(rows.rates(f, ties=ties), pairwise_rates(y, f, S, **options), strict=True):
            assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda y, f, s: pairwise_fairness(y, f, s, criterion="equal"), "criterion"),
        (lambda y, f, s: pairwise_fairness(y, f, s, ties="random"), "ties"),
        (lambda y, f, s: pairwise_fairness(None, f, s), "y_true"),
        (lambda y, f, s: pairwise_fairness(y[:-1], f, s), "y_true"),
        (lambda y, f, s: PairwiseRows(None, s), "y_true"),
        (lambda y, f, s: PairwiseRows(y[:5], s), "y_true"),
        (lambda y, f, s: PairwiseRows(y, 3.0), "sensitive_features"),
        (lambda y, f, s: PairwiseRows(y, s).fairness(f[:20]), "y_pred"),
        (lambda y, f, s: PairwiseRows(y, s).rates(f, ties="no"), "ties"),
        (lambda y, f, s: PairwiseRows(s, s).fairness(f), "sensitive_features"),
    ],
)
def test_invalid_arguments_are_refused_by_name(rng, call, parameter):
    with pytest.raises(ValueError, match=f"^{parameter} must"):
        call(*rng.normal(size=(3, 30)))


# Sorting counts every pair


@criteria
@ties_rules
@settings(max_examples=100, deadline=None)
@given(
    seed=seeds,
    n=st.integers(2, 90),
    levels=st.tuples(*[st.sampled_from([1, 2, 3, 10, 10**6])] * 3),
    weights=st.sampled_from([None, 1, 50]),
)
def test_sorted_pairs_are_those_of_the_matrix(criterion, ties, seed, n, levels, weights):
    rng = np.random.default_rng(seed)
    y, f, s = (rng.integers(number, size=n).astype(float) for number in levels)
    w = None if weights is None else rng.integers(1, weights + 1, size=n)
    try:
        found = pairwise_rates(y, f, s, criterion=criterion, ties=ties, sample_weight=w)
    except UndefinedMeasureError:
        found = None
    assert found == rates_by_matrix(y, f, s, np.ones(n) if w is None else w, criterion, ties)


def test_repeated_rows_do_not_change_the_value_and_pairs_exceed_32_bits(rng):
    # Copies are tied with each other, so each pair counts k² times.
    rows = np.round(rng.normal(size=(3, 400)), 1)
    assert_allclose(pairwise_rates(*np.tile(rows, 400)), pairwise_rates(*rows), rtol=1e-12)


def test_rates_of_many_rows_are_complements(rng):
    y, f, s = rng.normal(size=(3, 150_000))  # 2^33 pairs
    above, below = pairwise_rates(y, f + s, s)
    assert above > 0.6 > 0.4 > below
    assert_allclose(pairwise_rates(y, -f - s, s), (1 - above, 1 - below), rtol=1e-14)


def test_memory_does_not_grow_with_pairs(rng):
    columns = rng.normal(size=(3, 8000))
    tracemalloc.start()
    pairwise_fairness(*columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # all pairs at once would take 64 MB


# Rising pairs of a sequence, which the sorted way counts


def merging(values):
    return ascents_by_merging(values.copy(), np.empty_like(values))


ways = pytest.mark.parametrize("count", [ascents_by_bits, merging, module.ascents])


@ways
@settings(max_examples=80, deadline=None)
@given(values=st.lists(st.integers(0, 12) | st.integers(0, 2**62), min_size=1, max_size=40))
def test_every_way_counts_the_rising_pairs_of_a_loop(count, values):
    sequence = np.array(values, dtype=np.int64)
    assert count(sequence) == sum(a < b for a, b in combinations(values, 2))
    assert sequence.tolist() == values


@ways
@pytest.mark.parametrize("n", [1, 2, 3, 63, 64, 65, 1000])
def test_rising_falling_and_equal_sequences(count, n):
    rising = np.arange(n, dtype=np.int64)
    assert count(rising) == n * (n - 1) // 2
    assert count(rising[::-1].copy()) == 0
    assert count(np.zeros(n, dtype=np.int64)) == 0


@settings(max_examples=100, deadline=None)
@given(seed=seeds, n=st.integers(1, 70), levels=st.sampled_from([2, 9, 10**6]))
def test_weighted_rising_pairs_count_the_product_of_their_weights(seed, n, levels):
    rng = np.random.default_rng(seed)
    values, w = rng.integers(levels, size=n), rng.integers(0, 50, size=n).astype(float)
    above = np.triu(values[:, None] < values[None, :])
    assert module.ascents(values, w) == float(w @ above @ w)


@pytest.mark.needs("numba")
def test_compiled_way_counts_the_same(rng, monkeypatch):
    monkeypatch.setattr(module, "COMPILED_FROM", 1)
    for levels in (1, 7, 10**9):
        values = rng.integers(levels, size=50_000)
        assert module.ascents(values) == ascents_by_bits(values)


def test_compiler_is_used_for_many_values_if_installed(rng, monkeypatch):
    values = rng.integers(9, size=300)
    monkeypatch.setattr(module, "COMPILED_FROM", 300)
    monkeypatch.setattr(module, "_compiled", cache(lambda: lambda values, spare: -1))
    assert module.ascents(values[1:]) >= 0  # fewer
    assert module.ascents(values) == -1
    assert module.ascents(values[1:]) == -1  # already compiled
    monkeypatch.undo()
    monkeypatch.setattr(module, "COMPILED_FROM", 300)
    monkeypatch.setitem(sys.modules, "numba", None)  # its import fails
    module._compiled.cache_clear()
    try:
        assert module.ascents(values) == ascents_by_bits(values)
    finally:
        module._compiled.cache_clear()


@pytest.mark.needs("numba")
def test_full_disk_does_not_prevent_compilation(rng, monkeypatch):
    import numba

    real = numba.njit

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    def njit(*, cache=False, **options):
        return (lambda function: full_disk) if cache else real(**options)

    monkeypatch.setattr(numba, "njit", njit)
    monkeypatch.setattr(module, "COMPILED_FROM", 1)
    module._compiled.cache_clear()
    try:
        values = rng.integers(9, size=300)
        assert module.ascents(values) == ascents_by_bits(values)
    finally:
        module._compiled.cache_clear()


def test_more_values_than_positions_are_refused():
    values = np.broadcast_to(np.int64(0), MOST_ROWS + 1)  # takes eight bytes
    with pytest.raises(ValueError, match=r"^values must"):
        module.ascents(values)


# Weights


def test_pairs_of_fractional_weights_count_the_product(rng):
    n = 600
    s, w = np.round(rng.gamma(2.0, size=n), 1), rng.uniform(size=n)
    y = np.round(s + rng.normal(size=n), 1)
    f = np.round(y + rng.normal(size=n), 1)
    found = pairwise_rates(y, f, s, sample_weight=w)
    assert_allclose(found, rates_by_matrix(y, f, s, w), rtol=1e-10)
    for g, expected in ((y, (1.0, 1.0)), (-y, (0.0, 0.0)), (s, (1.0, 0.0))):
        found = pairwise_rates(y, g, s, sample_weight=w)
        assert_allclose(found, expected, atol=1e-12)
        assert 0 <= min(found) <= max(found) <= 1


@pytest.mark.parametrize("n", [300, *range(700, 710)])
def test_rounding_of_fractional_weights_makes_no_pairs(rng, n):
    s, w = rng.normal(size=n), rng.uniform(size=n)
    with pytest.raises(UndefinedMeasureError):
        pairwise_fairness(s, rng.normal(size=n), s, sample_weight=w)
    # A single pair of whole weights counts, however many others there are.
    y = s.copy()
    y[np.argsort(s)[:2]] = y[np.argsort(s)[1::-1]]
    assert pairwise_rates(y, y, s, sample_weight=rng.integers(1, 9, size=n)) == (1.0, 1.0)


# Subsamples of the same rows


def gap(y, f, s, w=None):
    """The first rate minus the second, NaN without pairs."""
    if np.ptp(f) < 1e-12:
        return 0.0
    try:
        above, below = pairwise_rates(y, f, s, sample_weight=w)
    except UndefinedMeasureError:
        return np.nan
    return above - below


@pytest.mark.parametrize("weights", [None, 4])
@pytest.mark.parametrize("change", [{}, {"PAIR_TILE_CELLS": 700}, {"SUBSAMPLES_FROM": 0}])
def test_every_subsample_has_the_gap_it_has_alone(rng, monkeypatch, change, weights):
    for name, size in change.items():
        monkeypatch.setattr(module, name, size)
    s = np.round(rng.uniform(size=150), 1)
    s[:110] = s[0]  # some subsamples have nothing to compare
    y = np.round(s + rng.uniform(size=150), 1)
    f = np.round(y + 0.5 * s + 0.3 * rng.normal(size=150), 1)
    w = None if weights is None else rng.integers(1, weights, size=150).astype(float)
    # Rounding errors of a constant are no ranking.
    predictions = [f, rng.normal(size=150), np.full(150, 0.1), 0.3 + 1e-16 * y]
    subsamples = [rng.permutation(150)[:size] for size in (8, *[37] * 20, 150)]
    subsamples[1] = np.arange(37)  # s is constant
    found = pairwise_on_subsamples(y, predictions, s, iter(subsamples), w)
    expected = [
        [gap(y[rows], g[rows], s[rows], None if w is None else w[rows]) for rows in subsamples]
        for g in predictions
    ]
    assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert np.isnan(found[0, 1])
    assert (found[0] > 0).any()
    assert (found[1] < 0).any()
    assert (found[2:] == 0).all()


def test_subsamples_of_many_rows_are_counted_one_by_one(rng):
    n = SUBSAMPLES_FROM
    y, s = rng.normal(size=(2, n))
    f = y + 0.3 * s
    rows = rng.permutation(n)[:2000]
    found = pairwise_on_subsamples(y, [f, -f], s, [rows])
    expected = gap(y[rows], f[rows], s[rows])
    assert_allclose(found, [[expected], [-expected]], rtol=1e-12)
