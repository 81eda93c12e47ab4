"""Pair counting by tiles against each pair looked at in turn."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fkd.measures.pairwise import count_by_tiles, dense_ranks

columns = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.tuples(*[st.integers(0, 9)] * d), min_size=1, max_size=14)
)


@settings(max_examples=60, deadline=None)
@given(rows=columns)
def test_tiles_count_what_a_loop_over_pairs_counts(rows):
    expected = sum(all(a > b for a, b in zip(p, q, strict=True)) for p, q in product(rows, rows))
    keys = [dense_ranks(np.array(key, dtype=float)) for key in zip(*rows, strict=True)]
    assert count_by_tiles(keys) == expected


@pytest.mark.parametrize("n", [10, 2000])
def test_rows_in_one_order_dominate_in_all_pairs(n):
    key = np.arange(n)
    assert count_by_tiles([key, key, key]) == n * (n - 1) // 2
    assert count_by_tiles([key, key[::-1].copy(), key]) == 0


def test_equal_values_share_a_dense_rank():
    assert dense_ranks(np.array([2.5, -1.0, 2.5, 7.0])).tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("key_count", [2, 3])
def test_memory_does_not_grow_with_pairs(rng, key_count):
    keys = [dense_ranks(k) for k in rng.normal(size=(key_count, 8000))]
    tracemalloc.start()
    count_by_tiles(keys)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # all pairs at once would take 64 MB
