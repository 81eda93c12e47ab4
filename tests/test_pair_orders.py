"""Pairs by three orders: two keys at a time against all three compared pair by pair."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fkd.measures import PairwiseRows, pairwise_fairness, pairwise_rates
from fkd.measures.pairwise import PairOrders, concordant, dense_ranks, orders_by_tiles

module = import_module("fkd.measures.pairwise")
levels = st.sampled_from([1, 2, 3, 10, 10**6])


def ranks(rng, number, n):
    return dense_ranks(rng.integers(number, size=n).astype(float))


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 90),
    of=st.tuples(levels, levels, levels),
    truth=st.booleans(),
)
def test_sorting_counts_what_comparing_counts(seed, n, of, truth):
    rng = np.random.default_rng(seed)
    y, f, s = (ranks(rng, number, n) for number in of)
    y = y if truth else None
    assert PairOrders(y, s).counts(f) == orders_by_tiles(y, s, f)


@pytest.mark.parametrize("n", [2, 255, 256, 257, 3000])
@pytest.mark.parametrize("number", [2, 60, 10**9])
def test_orders_that_agree_or_oppose_each_other(rng, n, number):
    a, b = ranks(rng, number, n), ranks(rng, number, n)
    for y, f, s in ((a, a, a), (a, a, a.max() - a), (a, a.max() - a, a), (a, b, a), (b, a, a)):
        assert PairOrders(y, s).counts(f) == orders_by_tiles(y, s, f)


def test_one_split_serves_many_predictions(rng):
    y, s = ranks(rng, 40, 800), ranks(rng, 12, 800)
    orders = PairOrders(y, s)
    for number in (1, 4, 10**6):
        f = ranks(rng, number, 800)
        assert orders.counts(f) == orders_by_tiles(y, s, f)


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("weighed", [True, False])
def test_some_of_the_rows_are_counted_by_their_ranks_among_all(rng, truth, weighed):
    y, f, s = rng.integers((9, 400, 30), size=(700, 3)).T
    w = rng.integers(1, 4, size=700).astype(float) if weighed else None
    whole = PairOrders(dense_ranks(y) if truth else None, dense_ranks(s), w)
    ranks = dense_ranks(f)
    for size in (5, 60, 699):
        rows = rng.choice(700, size, replace=False)
        alone = PairOrders(
            dense_ranks(y[rows]) if truth else None,
            dense_ranks(s[rows]),
            None if w is None else w[rows],
        )
        assert whole.take(rows).counts(ranks[rows]) == alone.counts(dense_ranks(f[rows]))


def test_concordant_pairs_do_not_depend_on_which_key_comes_first(rng):
    a, b = ranks(rng, 30, 5000), ranks(rng, 10**6, 5000)
    assert concordant(a, b) == concordant(b, a)


def test_counts_beyond_32_bits_share_out_all_pairs(rng):
    n = 150_000
    y, f, s = (dense_ranks(x) for x in rng.normal(size=(3, n)))
    counts = PairOrders(y, s).counts(f)
    assert sum(counts.pairs) == n * (n - 1) // 2 > 2**32
    for pairs, right, wrong in zip(counts.pairs, counts.right, counts.wrong, strict=True):
        assert right + wrong == pairs
    # Copies are tied with each other: each pair of rows just counts four times.
    few = [key[:1000] for key in (y, f, s)]
    y2, f2, s2 = (dense_ranks(np.tile(key, 2).astype(float)) for key in few)
    y1, f1, s1 = (dense_ranks(key.astype(float)) for key in few)
    once, twice = PairOrders(y1, s1).counts(f1), PairOrders(y2, s2).counts(f2)
    assert twice.right == tuple(4 * right for right in once.right)
    assert twice.pairs == tuple(4 * pairs for pairs in once.pairs)


@pytest.mark.parametrize("criterion", ["eo", "dp"])
@pytest.mark.parametrize("ties", ["strict", "half"])
@pytest.mark.parametrize("n", [499, 500, 501])
def test_the_switch_between_both_ways_cannot_be_seen(rng, monkeypatch, criterion, ties, n):
    y, f, s = rng.integers(9, size=(3, n)).astype(float)
    options = {"criterion": criterion, "ties": ties}
    found = pairwise_rates(y, f, s, **options)
    for switch in (0, 10**9):
        monkeypatch.setattr(module, "SORT_FROM", switch)
        assert pairwise_rates(y, f, s, **options) == found


@pytest.mark.parametrize("criterion", ["eo", "dp"])
@pytest.mark.parametrize("ties", ["strict", "half"])
def test_sorted_rows_give_the_bits_of_the_plain_call(rng, criterion, ties):
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


def test_sorted_rows_refuse_what_the_plain_call_refuses(rng):
    y, f, s = rng.normal(size=(3, 30))
    with pytest.raises(ValueError, match="y_true must be given for criterion='eo'"):
        PairwiseRows(None, s)
    with pytest.raises(ValueError, match="y_true must have one row per prediction"):
        PairwiseRows(y[:5], s)
    with pytest.raises(ValueError, match="sensitive_features must be one column"):
        PairwiseRows(y, 3.0)
    with pytest.raises(ValueError, match="y_pred must have one row per prediction"):
        PairwiseRows(y, s).fairness(f[:20])
    with pytest.raises(ValueError, match="ties must be 'strict' or 'half'"):
        PairwiseRows(y, s).rates(f, ties="no")
    with pytest.raises(ValueError, match="must leave pairs to compare"):
        PairwiseRows(s, s).fairness(f)
