"""Rows counted at points: blocks add up exactly and give the measures of the rows."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import BinnedRows, Nodes, gdp, hgr
from fkd.measures.binned import POINTS, RoundedColumn, count_rounded
from fkd.measures.columns import SHARES, count_cells

ages = np.arange(17.0, 94.0)
kinds = pytest.mark.parametrize("kind", ["ages", "uniform"])


def rows_of(kind, rng, n=4000):
    s = rng.choice(ages, size=n) if kind == "ages" else rng.uniform(size=n)
    return 0.5 * s / s.std() + rng.gumbel(size=n), s


def nodes_of(kind):
    s_nodes = Nodes.levels(ages) if kind == "ages" else Nodes.between(0, 1)
    return {"f_nodes": Nodes.between(-10, 40), "s_nodes": s_nodes}


def values(binned):
    return [binned.hgr(), binned.gdp(), binned.gdp(estimator="plugin")]


def by_rows(f, s, w=None):
    return [
        hgr(f, s, margins="standard", sample_weight=w),
        gdp(f, s, margins="range", sample_weight=w),
        gdp(f, s, margins="range", estimator="plugin", sample_weight=w),
    ]


@kinds
@pytest.mark.parametrize("weights", ["none", "whole", "fractions"])
def test_blocks_add_up_in_any_order_to_the_values_of_the_rows(rng, kind, weights):
    f, s = rows_of(kind, rng)
    w = {
        "none": None,
        "whole": rng.integers(1, 5, 4000).astype(float),
        "fractions": rng.uniform(0.5, 2, 4000),
    }[weights]
    whole = BinnedRows.from_rows(f, s, sample_weight=w, **nodes_of(kind))
    cuts = [slice(*ends) for ends in pairwise([0, 1, 7, 1000, 1001, 3999, 4000])]
    parts = [
        BinnedRows.from_rows(
            f[cut], s[cut], sample_weight=None if w is None else w[cut], **nodes_of(kind)
        )
        for cut in cuts
    ]
    for order in (parts, parts[::-1]):
        total = reduce(add, order)
        assert total.rows == whole.rows == 4000
        assert (total.f_ends, total.s_ends) == (whole.f_ends, whole.s_ends)
        if weights == "fractions":
            assert_allclose(values(total), values(whole), rtol=1e-10)
        else:
            assert np.array_equal(total.cells, whole.cells)
            assert total.cells.dtype == np.int64
            assert values(total) == values(whole)
    assert_allclose(values(whole), by_rows(f, s, w), rtol=1e-5)


def test_rows_of_weight_zero_are_absent(rng):
    f, s = rows_of("ages", rng, 500)
    w = np.arange(500) % 3
    f[0] = 1e6  # outside the points, but of weight zero
    found = BinnedRows.from_rows(f, s, sample_weight=w, **nodes_of("ages"))
    kept = w > 0
    known = BinnedRows.from_rows(f[kept], s[kept], sample_weight=w[kept], **nodes_of("ages"))
    assert found.rows == known.rows == kept.sum()
    assert values(found) == values(known)


def test_given_margins_use_the_unit_interval(rng):
    f, s = rows_of("uniform", rng)
    s = 0.5 * s
    found = BinnedRows.from_rows(f, s, **nodes_of("uniform"))
    for estimator in ("grid", "plugin"):
        expected = gdp(f, s, margins="given", estimator=estimator)
        assert_allclose(found.gdp(margins="given", estimator=estimator), expected, rtol=1e-5)
    assert found.gdp(margins="given") < 0.8 * found.gdp()
    aged = BinnedRows.from_rows(*rows_of("ages", rng), **nodes_of("ages"))
    with pytest.raises(ValueError, match=r"^sensitive_features must"):
        aged.gdp(margins="given")


def test_constant_column_gives_zero(rng):
    s = rng.choice(ages, size=50)
    for f, other in ((np.full(50, 0.1), s), (rng.normal(size=50), np.full(50, 40.0))):
        found = BinnedRows.from_rows(f, other, **nodes_of("ages"))
        assert values(found) == [0.0, 0.0, 0.0]


AGES = nodes_of("ages")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f, s: BinnedRows.from_rows(s + 50, s, **AGES), "y_pred must"),
        (lambda f, s: BinnedRows.from_rows([1.0], [17.5], **AGES), "sensitive must .*17.5"),
        (lambda f, s: BinnedRows.from_rows(f, s[:-1], **AGES), "sensitive must"),
        (lambda f, s: BinnedRows.from_rows([], [], **AGES), "y_pred must"),
        (lambda f, s: BinnedRows.from_rows(1e-3 * f, s, **AGES).hgr(), "y_pred must vary"),
        (lambda f, s: BinnedRows.from_rows(f, s, **AGES).gdp(estimator="kde"), "estimator must"),
        (lambda f, s: BinnedRows.from_rows(f, s, **AGES).gdp(margins="rank"), "margins must"),
        (lambda f, s: Nodes.between(0, 1, 3).window(0.1), "points must"),
        (
            lambda f, s: (
                BinnedRows.from_rows(f, s, **AGES)
                + BinnedRows.from_rows(f, s, **{**AGES, "f_nodes": Nodes.between(-10, 41)})
            ),
            "same points",
        ),
    ],
)
def test_invalid_rows_points_and_options_are_refused_by_name(rng, call, words):
    with pytest.raises(ValueError, match=words):
        call(rng.normal(size=500), rng.choice(ages, size=500))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_shares_preserve_the_number_and_the_mean_of_rows(seed, n):
    rng = np.random.default_rng(seed)
    f, s = rng.uniform(-1, 1, size=(2, n))
    f[0], s[-1] = 1.0, -1.0  # the ends themselves
    nodes = Nodes.between(-1, 1, 40)
    cells = count_cells(f, nodes, s, nodes)
    assert (cells >= 0).all()
    assert cells.sum() == n * SHARES**2
    rounding = n * nodes.step / SHARES / 2 + 1e-9
    assert abs(nodes.points @ cells.sum(axis=1) / SHARES**2 - f.sum()) <= rounding
    assert abs(cells.sum(axis=0) @ nodes.points / SHARES**2 - s.sum()) <= rounding


def test_rows_outside_the_points_are_not_counted():
    nodes = Nodes.between(0, 1, 11)
    f = np.array([-0.01, 0.5, 1.01])
    assert count_cells(f, nodes, f, nodes).sum() == SHARES**2
    levels = Nodes.levels(np.array([1.0, 2.0]))
    assert count_cells(np.array([1.5, 2.0, 9.0]), levels, np.ones(3), levels).sum() == SHARES**2


@pytest.mark.parametrize(
    ("levels", "front"), [(5, 5), (6, 6), (6, 1)], ids=["few", "many early", "many late"]
)
def test_number_of_levels_is_found_anywhere_in_a_column(levels, front):
    # In a sorted table the first rows may all be equal.
    column = np.concatenate([np.resize(np.arange(float(front)), 1000), np.arange(float(levels))])
    found = Nodes.few_levels(column, 5)
    expected = list(range(levels)) if levels <= 5 else None
    assert expected == (None if found is None else found.points.tolist())


# Rounded columns, of which subsamples are counted


@pytest.mark.parametrize("digits", [1, 15], ids=["few values", "many values"])
def test_rounded_rows_are_counted_any_number_of_times(rng, digits):
    columns = np.round(rng.normal(size=(2, 3000)), digits)
    f, s = (RoundedColumn.from_column(column) for column in columns)
    assert all(len(column.nodes.points) <= POINTS for column in (f, s))
    rows = rng.permutation(3000)[:750]
    found = count_rounded(f.take(rows), s.take(rows), times=4)
    own = columns[:, np.tile(rows, 4)]
    assert found.rows == 3000
    if digits == 1:
        assert_allclose(values(found), by_rows(*own), rtol=1e-9)
        assert (found.f_ends, found.s_ends) == tuple((x.min(), x.max()) for x in own)
    else:
        assert_allclose(values(found), by_rows(*own), atol=2e-4)
        nearest = np.abs(columns[0][:, None] - f.nodes.points).argmin(axis=1)
        assert np.array_equal(f.index, nearest)


def test_column_whose_points_would_be_farther_apart_than_the_bandwidth_is_not_rounded(rng):
    s = rng.uniform(size=3000)
    assert RoundedColumn.from_column(s) is not None
    s[0] = 1e4
    assert RoundedColumn.from_column(s) is None
    few = RoundedColumn.from_column(np.round(s, 2))  # an outlier among few levels moves no row
    assert few.nodes.points[-1] == 1e4


def test_column_that_varies_by_rounding_only_is_rounded_to_one_point(rng):
    constant = RoundedColumn.from_column(0.3 + 1e-16 * rng.normal(size=3000))
    assert len(constant.nodes.points) == 1
    other = RoundedColumn.from_column(rng.normal(size=3000))
    assert values(count_rounded(constant, other)) == [0.0, 0.0, 0.0]


def test_large_weights_do_not_overflow(rng):
    s = rng.integers(3, size=100).astype(float)
    f, w = s + 0.1 * rng.normal(size=100), np.full(100, 1e12)
    nodes = {"f_nodes": Nodes.between(-1.0, 3.0), "s_nodes": Nodes.levels(s)}
    rows = BinnedRows.from_rows(f, s, sample_weight=w, **nodes)
    assert_allclose(rows.gdp(), gdp(f, s, margins="range", sample_weight=w), rtol=0.05)


def test_unknown_margins_are_refused(rng):
    f, s = rng.uniform(size=(2, 100))
    nodes = Nodes.between(0.0, 1.0)
    rows = BinnedRows.from_rows(f, s, f_nodes=nodes, s_nodes=nodes)
    for measure in (rows.hgr, rows.gdp):
        with pytest.raises(ValueError, match="margins"):
            measure(margins="rank")
