"""The Pareto front: what is on it, where it bends, how much it covers, what to choose."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures.pareto import hypervolume, knee, non_dominated, select

some = settings(max_examples=40, deadline=None)
clouds = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.tuples(*[st.integers(0, 6)] * d), min_size=1, max_size=12)
)
flat_clouds = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=12)


def beats(p, q):
    return all(a <= b for a, b in zip(p, q, strict=True)) and p != q


@some
@given(points=clouds)
def test_a_point_is_on_the_front_exactly_if_nothing_beats_it(points):
    expected = [not any(beats(q, p) for q in points) for p in points]
    assert non_dominated(points).tolist() == expected


@some
@given(points=clouds)
def test_every_point_off_the_front_is_beaten_by_one_on_it(points):
    mask = non_dominated(points)
    assert mask.any()
    front = [p for p, on in zip(points, mask, strict=True) if on]
    off = [p for p, on in zip(points, mask, strict=True) if not on]
    assert all(any(beats(q, p) for q in front) for p in off)


def test_equal_points_stay_together():
    assert non_dominated([[1, 2], [1, 2], [2, 2]]).tolist() == [True, True, False]


@some
@given(points=flat_clouds)
def test_the_area_is_the_number_of_unit_cells_that_are_beaten(points):
    # Whole numbers: each cell below the reference (7, 7) is beaten entirely or not at all.
    expected = sum(any(x <= i and y <= j for x, y in points) for i in range(7) for j in range(7))
    assert_allclose(hypervolume(points, [7, 7]), expected)


@some
@given(points=flat_clouds, more=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_the_area_never_shrinks_by_another_point(points, more):
    assert hypervolume([*points, more], [7, 7]) >= hypervolume(points, [7, 7])


def test_points_beyond_the_reference_add_no_area():
    assert hypervolume([[2, 0], [0, 2]], [1, 1]) == 0.0


def test_the_knee_is_where_the_front_bends():
    points = [[0, 10], [1, 3], [3, 1], [10, 0], [1.5, 1.5], [9, 9]]
    assert knee(points) == 4


@some
@given(points=flat_clouds, a=st.floats(0.01, 100), b=st.floats(0.01, 100))
def test_the_knee_lies_on_the_front_in_any_unit(points, a, b):
    found = knee(points)
    assert non_dominated(points)[found]
    scaled = knee(np.array(points) * [a, b] + [3, -7])
    # Equally bent points may swap under rounding, so the bend is compared, not the index.
    front = np.array(points, dtype=float)[non_dominated(points)]
    spread = np.where(np.ptp(front, axis=0) > 0, np.ptp(front, axis=0), 1)
    bend = (np.array(points) - front.min(axis=0)) / spread
    assert_allclose(bend[scaled].sum(), bend[found].sum(), atol=1e-9)


def test_a_straight_front_has_its_knee_at_an_end_or_on_the_line():
    assert knee([[0, 1], [1, 0]]) in (0, 1)
    assert knee([[3, 3]]) == 0


def test_differences_within_the_tolerance_count_as_none():
    # A constant at the end of the front, and errors that double for a dependence below the noise.
    points = [[0.07, 0.0], [0.03, 0.003], [0.001, 0.0038], [0.0, 0.004]]
    assert knee(points, tolerance=[0.002, 0.005]) == 3
    # Unfair beyond noise: a fairer point at an error that is within its tolerance wins.
    assert knee([[0.0, 0.1], [0.01, 0.02], [0.2, 0.0]], tolerance=[0.02, 0.01]) == 1


def test_an_excess_that_is_small_against_the_tolerance_decides_little():
    points = [[0.07, 0.0], [0.0, 0.0052]]
    assert knee(points, tolerance=[0.0, 0.0]) == 1  # a tie is decided by the first coordinate
    assert knee([[0.07, 0.0], [0.02, 0.002], [0.0, 0.0052]], tolerance=[0.0, 0.005]) == 2


@some
@given(points=flat_clouds)
def test_no_tolerance_and_a_tolerance_of_zero_find_the_same_bend(points):
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
def test_the_most_accurate_within_the_limits_is_chosen(limits, chosen):
    assert select(TRIALS, minimise="mae", subject_to=limits) == chosen
    assert select(pd.DataFrame(TRIALS), minimise="mae", subject_to=limits) == chosen


@some
@given(points=flat_clouds, limit=st.integers(0, 8))
def test_no_allowed_point_is_better_than_the_chosen_one(points, limit):
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
def test_limits_out_of_reach_are_named_with_what_can_be_reached(limits, cause):
    trials = TRIALS | {"other": [0.5, 0.5, 2.0, 0.5]}
    with pytest.raises(ValueError, match=cause):
        select(trials, minimise="mae", subject_to=limits)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: non_dominated([]), "points must be a table of at least one row"),
        (lambda: non_dominated([[1.0, np.nan]]), "points must be finite, got .* in row 0"),
        (lambda: knee([[1, 2, 3]]), "points must have two coordinates here, got 3"),
        (lambda: knee([[1, 2]], tolerance=[1]), "tolerance must be two finite numbers"),
        (lambda: knee([[1, 2]], tolerance=[1, -1]), "tolerance must be two finite numbers"),
        (lambda: hypervolume([[1, 2]], [1, np.inf]), "reference must be two finite numbers"),
        (lambda: hypervolume([[1, 2]], [1]), "reference must be two finite numbers"),
        (
            lambda: select(TRIALS, minimise="mea", subject_to={}),
            "points must have a column 'mea', got mae, gdp, hgr",
        ),
        (
            lambda: select(TRIALS, minimise="mae", subject_to={"gdp": np.nan}),
            "subject_to must hold numbers",
        ),
    ],
)
def test_bad_input_is_named(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()
