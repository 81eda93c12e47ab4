"""The Pareto front: its points, its knee, and selection under limits."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures.pareto import knee, non_dominated, select

some = settings(max_examples=40, deadline=None)
clouds = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.tuples(*[st.integers(0, 6)] * d), min_size=1, max_size=12)
)
flat_clouds = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=12)


def beats(p, q):
    return all(a <= b for a, b in zip(p, q, strict=True)) and p != q


@some
@given(points=clouds)
def test_point_is_on_the_front_exactly_if_no_other_dominates_it(points):
    expected = [not any(beats(q, p) for q in points) for p in points]
    assert non_dominated(points).tolist() == expected


def test_knee_is_where_the_front_bends():
    points = [[0, 10], [1, 3], [3, 1], [10, 0], [1.5, 1.5], [9, 9]]
    assert knee(points) == 4


@some
@given(points=flat_clouds, a=st.floats(0.01, 100), b=st.floats(0.01, 100))
def test_knee_is_on_the_front_in_any_unit(points, a, b):
    found = knee(points)
    assert non_dominated(points)[found]
    scaled = knee(np.array(points) * [a, b] + [3, -7])
    # Equally bent points may swap under rounding, so the bend is compared, not the index.
    front = np.array(points, dtype=float)[non_dominated(points)]
    spread = np.where(np.ptp(front, axis=0) > 0, np.ptp(front, axis=0), 1)
    bend = (np.array(points) - front.min(axis=0)) / spread
    assert_allclose(bend[scaled].sum(), bend[found].sum(), atol=1e-9)


def test_knee_of_a_straight_front_is_one_of_its_points():
    assert knee([[0, 1], [1, 0]]) in (0, 1)
    assert knee([[3, 3]]) == 0


def test_differences_within_the_tolerance_do_not_count():
    # A constant at the end of the front, and errors that double for a dependence below the noise.
    points = [[0.07, 0.0], [0.03, 0.003], [0.001, 0.0038], [0.0, 0.004]]
    assert knee(points, tolerance=[0.002, 0.005]) == 3
    # Unfair beyond noise: a fairer point at an error that is within its tolerance wins.
    assert knee([[0.0, 0.1], [0.01, 0.02], [0.2, 0.0]], tolerance=[0.02, 0.01]) == 1


def test_small_excess_over_the_tolerance_counts_little():
    points = [[0.07, 0.0], [0.0, 0.0052]]
    assert knee(points, tolerance=[0.0, 0.0]) == 1  # a tie is decided by the first coordinate
    assert knee([[0.07, 0.0], [0.02, 0.002], [0.0, 0.0052]], tolerance=[0.0, 0.005]) == 2


@some
@given(points=flat_clouds)
def test_tolerance_of_zero_is_no_tolerance(points):
    rows = np.array(points, dtype=float)
    rows -= rows.min(axis=0)
    front = rows[non_dominated(rows)]
    spread = np.where(np.ptp(front, axis=0) > 0, np.ptp(front, axis=0), 1)
    bends = [(rows[i] / spread).sum() for i in (knee(rows), knee(rows, tolerance=[0, 0]))]
    assert_allclose(*bends)


TRIALS = {"mae": [0.10, 0.12, 0.15, 0.12], "gdp": [0.05, 0.02, 0.01, 0.015], "hgr": [0.2] * 4}


@pytest.mark.parametrize(
    ("limits", "chosen"),
    [({}, 0), ({"gdp": 0.05}, 0), ({"gdp": 0.02}, 3), ({"gdp": 0.01}, 2), ({"hgr": 0.2}, 0)],
)
def test_most_accurate_within_the_limits_is_selected(limits, chosen):
    assert select(TRIALS, minimise="mae", subject_to=limits) == chosen
    assert select(pd.DataFrame(TRIALS), minimise="mae", subject_to=limits) == chosen


@some
@given(points=flat_clouds, limit=st.integers(0, 8))
def test_no_allowed_point_is_better_than_the_selected_one(points, limit):
    columns = {"mae": [p[0] for p in points], "gdp": [p[1] for p in points]}
    allowed = [p for p in points if p[1] <= limit]
    if allowed:
        chosen = points[select(columns, minimise="mae", subject_to={"gdp": limit})]
        assert chosen == min(allowed)
    else:
        with pytest.raises(ValueError, match=f"least gdp reachable is {min(columns['gdp'])}"):
            select(columns, minimise="mae", subject_to={"gdp": limit})


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        ({"gdp": 0.005}, r"gdp <= 0.005 .*least gdp reachable is 0.01 \(with mae 0.15\)"),
        ({"gdp": 0.005, "hgr": 0.3}, r"least gdp reachable is 0.01 \(with mae 0.15\)$"),
        ({"gdp": 0.001, "hgr": 0.1}, "least gdp reachable is 0.01 .*least hgr reachable is 0.2"),
        ({"gdp": 0.01, "other": 1.0}, "each limit can be met alone, but not all of them at once"),
    ],
)
def test_unreachable_limits_are_named_with_the_least_value(limits, cause):
    trials = TRIALS | {"other": [0.5, 0.5, 2.0, 0.5]}
    with pytest.raises(ValueError, match=cause):
        select(trials, minimise="mae", subject_to=limits)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: non_dominated([]), "points must"),
        (lambda: non_dominated([[1.0, np.nan]]), "points must .*row 0"),
        (lambda: knee([[1, 2, 3]]), "points must"),
        (lambda: knee([[1, 2]], tolerance=[1]), "tolerance must"),
        (lambda: knee([[1, 2]], tolerance=[1, -1]), "tolerance must"),
        (
            lambda: select(TRIALS, minimise="mea", subject_to={}),
            "points must .*'mea'",
        ),
        (
            lambda: select(TRIALS, minimise="mae", subject_to={"gdp": np.nan}),
            "subject_to must",
        ),
    ],
)
def test_invalid_arguments_are_refused_by_name(call, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        call()
