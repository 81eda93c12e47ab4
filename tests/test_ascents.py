"""Rising pairs of a sequence: every way of counting against each pair looked at in turn."""

import sys
from functools import cache
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fkd.measures.pairwise import ascents_by_bits, ascents_by_merging

module = import_module("fkd.measures.pairwise")  # the package's attribute may be the function


def merging(values):
    return ascents_by_merging(values.copy(), np.empty_like(values))


ways = pytest.mark.parametrize("count", [ascents_by_bits, merging, module.ascents])


@ways
@settings(max_examples=80, deadline=None)
@given(values=st.lists(st.integers(0, 12) | st.integers(0, 2**62), min_size=1, max_size=40))
def test_every_way_counts_what_a_loop_over_pairs_counts(count, values):
    expected = sum(a < b for a, b in combinations(values, 2))
    assert count(np.array(values, dtype=np.int64)) == expected


@ways
@pytest.mark.parametrize("n", [1, 2, 3, 63, 64, 65, 127, 128, 129, 1000])
def test_rising_falling_and_equal_sequences(count, n):
    rising = np.arange(n, dtype=np.int64)
    assert count(rising) == n * (n - 1) // 2
    assert count(rising[::-1].copy()) == 0
    assert count(np.zeros(n, dtype=np.int64)) == 0


@ways
def test_the_sequence_is_left_as_it_was(count, rng):
    values = rng.integers(50, size=300)
    before = values.copy()
    count(values)
    assert np.array_equal(values, before)


def test_more_pairs_than_32_bits_hold_are_counted(rng):
    n = 200_000
    rising = np.arange(n, dtype=np.int64)
    assert ascents_by_bits(rising) == n * (n - 1) // 2 > 2**34
    # A sequence and its mirror image share out all pairs of different values.
    values = rng.integers(1000, size=n)
    tied = sum(k * (k - 1) // 2 for k in np.bincount(values).tolist())
    both = ascents_by_bits(values) + ascents_by_bits(values[::-1].copy())
    assert both == n * (n - 1) // 2 - tied


@pytest.mark.needs("numba")
def test_the_compiled_way_counts_the_same(rng, monkeypatch):
    monkeypatch.setattr(module, "COMPILED_FROM", 1)
    for levels in (1, 7, 10**9):
        values = rng.integers(levels, size=50_000)
        assert module.ascents(values) == ascents_by_bits(values)


def test_many_values_go_to_the_compiler_only_where_it_is_installed(rng, monkeypatch):
    values = rng.integers(9, size=300)
    monkeypatch.setattr(module, "COMPILED_FROM", 300)
    monkeypatch.setattr(module, "_compiled", cache(lambda: lambda values, spare: -1))
    assert module.ascents(values[1:]) >= 0  # fewer
    assert module.ascents(values) == -1
    assert module.ascents(values[1:]) == -1  # once it is compiled
    monkeypatch.undo()
    monkeypatch.setattr(module, "COMPILED_FROM", 300)
    monkeypatch.setitem(sys.modules, "numba", None)  # as if its import failed
    module._compiled.cache_clear()
    try:
        assert module.ascents(values) == ascents_by_bits(values)
    finally:
        module._compiled.cache_clear()


@pytest.mark.needs("numba")
def test_where_machine_code_cannot_be_kept_it_is_made_anew(rng, monkeypatch):
    import numba

    real = numba.njit

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    def njit(*, cache=False, **options):
        return (lambda function: full_disk) if cache else real(**options)

    monkeypatch.setattr(numba, "njit", njit)
    module._compiled.cache_clear()
    try:
        values = rng.integers(9, size=300)
        monkeypatch.setattr(module, "COMPILED_FROM", 1)
        assert module.ascents(values) == ascents_by_bits(values)
    finally:
        module._compiled.cache_clear()


def test_more_values_than_positions_hold_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    assert module.ascents(np.arange(3)) == 3
    with pytest.raises(ValueError, match="values must be at most 3, got 4; count a sample"):
        module.ascents(np.arange(4))
