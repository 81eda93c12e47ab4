import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.blocks.tree import TreeSum


def total(parts, order):
    tree = TreeSum(len(parts))
    for position in order:
        assert tree.total is None
        tree.put(position, parts[position])
    return tree.total


@given(order=st.integers(1, 40).flatmap(lambda n: st.permutations(range(n))))
def test_the_order_of_arrival_leaves_no_trace(order):
    parts = np.random.default_rng(len(order)).normal(size=len(order)).tolist()
    found = total(parts, order)
    assert found == total(parts, range(len(parts)))
    assert found == pytest.approx(sum(parts))


def test_parts_are_added_left_to_right():
    assert total(list("abcdefg"), [6, 2, 0, 5, 1, 4, 3]) == "abcdefg"


def test_few_parts_wait_when_they_come_in_order():
    tree = TreeSum(1000)
    waiting = [tree.put(i, 1) or len(tree._waiting) for i in range(1000)]
    assert max(waiting) <= 10
    assert tree.total == 1000
