"""Rows counted at points: what adds adds exactly, and gives the measures of the rows."""

from functools import reduce
from importlib import import_module
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import MeasureState, Nodes, chi2, gdp, hgr
from fkd.measures.cells import SHARES, count_cells

hgr_module = import_module("fkd.measures.hgr")
ages = np.arange(17.0, 94.0)


def rows_of(kind, rng, n=4000):
    s = rng.choice(ages, size=n) if kind == "ages" else rng.uniform(size=n)
    return 0.5 * s / s.std() + rng.gumbel(size=n), s


def nodes_of(kind):
    wide = Nodes.between(-10, 40)
    return {
        "f_nodes": wide,
        "s_nodes": Nodes.levels(ages) if kind == "ages" else Nodes.between(0, 1),
    }


kinds = pytest.mark.parametrize("kind", ["ages", "uniform"])


@kinds
def test_blocks_add_to_the_bit_in_any_order(rng, kind):
    f, s = rows_of(kind, rng)
    whole = MeasureState.of(f, s, **nodes_of(kind))
    cuts = [0, 1, 7, 1000, 1001, 3999, 4000]
    parts = [MeasureState.of(f[a:b], s[a:b], **nodes_of(kind)) for a, b in pairwise(cuts)]
    for order in (parts, parts[::-1]):
        total = reduce(add, order)
        assert np.array_equal(total.cells, whole.cells)
        assert total.rows == 4000
        assert total.value() == whole.value()


@kinds
def test_the_values_are_those_of_the_rows(rng, kind):
    f, s = rows_of(kind, rng)
    found = MeasureState.of(f, s, **nodes_of(kind)).value()
    assert_allclose(found["hgr"], hgr(f, s), atol=2e-6)
    assert_allclose(found["gdp"], gdp(f, s), rtol=1e-5)
    assert_allclose(found["gdp_plugin"], gdp(f, s, estimator="plugin"), rtol=1e-5)


def test_given_margins_are_the_published_ones(rng):
    f, s = rows_of("uniform", rng)
    s = 0.5 * s
    state = MeasureState.of(f, s, **nodes_of("uniform"))
    assert_allclose(state.gdp(margins="given"), gdp(f, s, margins="given"), rtol=1e-5)
    assert state.gdp(margins="given") < 0.8 * state.gdp()
    aged = MeasureState.of(*rows_of("ages", rng), **nodes_of("ages"))
    with pytest.raises(ValueError, match=r"scaled to \[0, 1\] for margins='given'"):
        aged.gdp(margins="given")


def test_a_constant_side_has_nothing_to_depend_on(rng):
    s = rng.choice(ages, size=50)
    for f, other in ((np.full(50, 0.1), s), (rng.normal(size=50), np.full(50, 40.0))):
        found = MeasureState.of(f, other, **nodes_of("ages")).value()
        assert set(found.values()) == {0.0}


def test_what_points_cannot_tell_is_refused(rng):
    s = rng.choice(ages, size=500)
    narrow = MeasureState.of(1e-3 * rng.normal(size=500), s, **nodes_of("ages"))
    with pytest.raises(ValueError, match="y_pred must vary by more than a step of its points"):
        narrow.hgr()
    with pytest.raises(ValueError, match=r"y_pred must lie between .* \[-10, 40\], got \["):
        MeasureState.of(s + 50, s, **nodes_of("ages"))
    with pytest.raises(ValueError, match=r"sensitive must be among its 77 levels, got 17\.5"):
        MeasureState.of([1.0, 2.0], [17.0, 17.5], **nodes_of("ages"))
    with pytest.raises(ValueError, match="sensitive must have one row per prediction"):
        MeasureState.of([1.0, 2.0], [17.0], **nodes_of("ages"))
    with pytest.raises(ValueError, match="y_pred must be one column with rows"):
        MeasureState.of([], [], **nodes_of("ages"))
    with pytest.raises(ValueError, match="points must be closer than the window"):
        Nodes.between(0, 1, 3).window(0.1)
    other = {**nodes_of("ages"), "f_nodes": Nodes.between(-10, 41)}
    with pytest.raises(ValueError, match="states must have the same points to be added"):
        narrow + MeasureState.of([1.0], [17.0], **other)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_shares_keep_every_row_at_its_place(seed, n):
    rng = np.random.default_rng(seed)
    f, s = rng.uniform(-1, 1, size=(2, n))
    f[0], s[-1] = 1.0, -1.0  # the ends themselves belong to the points
    nodes = Nodes.between(-1, 1, 40)
    cells = count_cells(f, nodes, s, nodes)
    assert (cells >= 0).all()
    assert cells.sum() == n * SHARES**2
    half_a_share = nodes.step / SHARES / 2
    assert abs(nodes.points @ cells.sum(axis=1) / SHARES**2 - f.sum()) <= n * half_a_share + 1e-9
    assert abs(cells.sum(axis=0) @ nodes.points / SHARES**2 - s.sum()) <= n * half_a_share + 1e-9


def test_rows_beyond_the_points_are_not_counted():
    nodes = Nodes.between(0, 1, 11)
    f = np.array([-0.01, 0.5, 1.01])
    assert count_cells(f, nodes, f, nodes).sum() == SHARES**2
    levels = Nodes.levels(np.array([1.0, 2.0]))
    assert count_cells(np.array([1.5, 2.0, 9.0]), levels, np.ones(3), levels).sum() == SHARES**2


@pytest.mark.parametrize("measure", [hgr, chi2])
@pytest.mark.parametrize("kind", ["ages", "uniform", "atoms", "lognormal"])
def test_from_some_number_of_rows_on_cells_give_the_value_of_the_rows(
    rng, monkeypatch, measure, kind
):
    f, s = rows_of(kind, rng, 20_000)
    if kind == "atoms":
        f, s = np.round(f, 1), np.round(s, 4)
    if kind == "lognormal":
        s = np.exp(2 * s)
    direct = measure(f, s)
    monkeypatch.setattr(hgr_module, "CELLS_FROM", 20_000)
    assert_allclose(measure(f, s), direct, rtol=2e-6)
    monkeypatch.setattr(hgr_module, "CELLS_FROM", 20_001)
    assert measure(f, s) == direct


def test_cells_of_a_quarter_of_a_million_rows(rng):
    n = hgr_module.CELLS_FROM
    f, s = rows_of("ages", rng, n)
    counted = hgr(f, s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hgr_module, "CELLS_FROM", n + 1)
        direct = hgr(f, s)
    assert 0 < abs(counted - direct) < 1e-7


@pytest.mark.parametrize(
    ("levels", "front"), [(5, 5), (6, 6), (6, 1)], ids=["few", "many at once", "many at last"]
)
def test_few_levels_are_told_from_many_wherever_they_stand(levels, front):
    # As sorted tables have them: the first rows may all be alike.
    values = np.concatenate([np.resize(np.arange(float(front)), 1000), np.arange(float(levels))])
    found = Nodes.few_levels(values, 5)
    expected = list(range(levels)) if levels <= 5 else None
    assert expected == (None if found is None else found.points.tolist())
