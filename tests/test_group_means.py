import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import means_by_pair, means_by_quantile
from fkd.measures.groups import LEAST_IN_GROUP, merged_codes, quantile_codes


@pytest.mark.parametrize("n", [400, BLOCK_ROWS + 7])
def test_deciles_of_different_values_are_tenths_of_the_rows(n):
    rng = np.random.default_rng(0)
    s, V = rng.permutation(n).astype(float), rng.normal(size=(n, 2))
    groups = means_by_quantile(V, s)
    assert len(groups) == 10
    assert {group.rows for group in groups} <= {n // 10, n // 10 + 1}
    order = np.argsort(s)
    first = V[order[: groups[0].rows]]
    assert_allclose(groups[0].mean, first.mean(axis=0))
    low, high = stats.t.interval(0.95, len(first) - 1, first.mean(axis=0), stats.sem(first))
    assert_allclose([groups[0].low, groups[0].high], [low, high])


@given(
    values=st.lists(st.integers(0, 12), min_size=5, max_size=300),
    groups=st.integers(2, 12),
)
def test_groups_hold_every_row_once_and_never_part_equal_values(values, groups):
    s = np.array(values, dtype=float)
    found = means_by_quantile(s, s, groups=groups)
    assert sum(group.rows for group in found) == len(s)
    assert len(found) <= groups
    assert all(group.rows >= LEAST_IN_GROUP for group in found)
    ends = [end for group in found for end in group.ranges[0]]
    assert ends == sorted(ends)
    # A value that two groups share would end one and begin the next.
    assert all(a.ranges[0][1] < b.ranges[0][0] for a, b in itertools.pairwise(found))
    assert_allclose(sum(group.rows * group.mean[0] for group in found), s.sum(), atol=1e-9)


def test_small_groups_are_counted_with_the_one_before():
    codes = np.repeat([0, 1, 2, 3], [3, 9, 2, 4])
    assert np.bincount(merged_codes(codes, 5)).tolist() == [12, 6]
    assert merged_codes(np.array([0, 1]), 5).tolist() == [0, 0]


def test_one_value_is_one_group():
    assert quantile_codes(np.full(9, 2.0), 10).tolist() == [0] * 9


def test_a_pair_is_cut_by_either_column_and_names_what_it_leaves_out():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(size=(2, 900))
    b = np.where(a < 1 / 3, np.minimum(b, 0.6), b)  # hardly anybody is low in a and high in b
    V = rng.normal(size=900)
    found, left_out = means_by_pair(V, a, b)
    assert sum(group.rows for group in (*found, *left_out)) == 900
    assert len(found) + len(left_out) == 9
    assert all(group.rows < 30 and "fewer than 30 rows" in group.why for group in left_out)
    (low_a, high_a), (low_b, high_b) = found[0].ranges
    inside = (a >= low_a) & (a <= high_a) & (b >= low_b) & (b <= high_b)
    assert_allclose(found[0].mean, V[inside].mean())
    assert found[0].rows == inside.sum()


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="at least 5 rows, got 4"):
        means_by_quantile(np.ones(4), np.arange(4.0))
