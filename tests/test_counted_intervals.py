"""Intervals from counts of cells against those from rows."""

import sys
from functools import partial

import numpy as np
import pytest
from scipy.stats import hypergeom

from fkd.measures import bootstrap_interval, counted_interval, gdp, hgr
from fkd.measures.binned import POINTS, quarter_of_cells, rounded_state
from fkd.measures.cells import SHARES
from fkd.measures.resampling import PARTS

by_rows = {
    "hgr": partial(hgr, margins="standard"),
    "gdp": partial(gdp, margins="range"),
    "gdp_plugin": partial(gdp, estimator="plugin", margins="range"),
}
names = pytest.mark.parametrize("name", by_rows)


def sample(rng, n=1200):
    s = rng.integers(17, 94, size=n).astype(float)
    return 0.02 * s + rng.gumbel(size=n), s


@names
def test_the_interval_is_that_of_quarters_of_the_rows(rng, name):
    f, s = sample(rng)
    options = {"replicates": 300}
    found = counted_interval(name, f, s, rng=np.random.default_rng(1), **options)
    rows = bootstrap_interval(by_rows[name], f, s, rng=np.random.default_rng(2), **options)
    assert found.estimate == rows.estimate  # of the rows as they are
    assert found.low < found.estimate < found.high
    # The ends of 300 draws are sure to about a tenth of the length, on either side.
    length = rows.high - rows.low
    assert abs(found.low - rows.low) < 0.2 * length
    assert abs(found.high - rows.high) < 0.2 * length


@names
def test_few_values_are_drawn_as_they_are(rng, name):
    f, s = rng.integers(6, size=400).astype(float), rng.integers(4, size=400).astype(float)
    state = rounded_state(f, s)
    assert state.rows == 400
    value = state.value()[name]
    assert value == pytest.approx(by_rows[name](f, s), rel=1e-9)


def test_a_quarter_takes_no_row_twice(rng):
    f, s = np.arange(400.0), np.arange(400.0) % 7
    whole = rounded_state(f, s)
    sums = np.zeros_like(whole.cells)
    for _ in range(50):
        drawn = quarter_of_cells(whole, rng)
        assert drawn.rows == 400
        rows = drawn.cells // SHARES**2
        assert set(np.unique(rows)) == {0, 4}  # once of four, or not at all
        assert (rows.sum(axis=1) > 0).sum() == 100
        sums += rows > 0
    assert sums.sum() == 50 * 100
    assert sums.max() < 30  # no cell is preferred


@pytest.mark.parametrize("rows_a_cell", [0, np.inf], ids=["by cells", "by rows"])
def test_either_way_of_drawing_is_hypergeometric(rng, monkeypatch, rows_a_cell):
    # By its full name: the package has a function of the module's.
    monkeypatch.setattr(sys.modules[quarter_of_cells.__module__], "_ROWS_A_CELL", rows_a_cell)
    s = np.repeat([0.0, 0.5, 1.0], [8, 40, 352])
    whole = rounded_state(s, s)
    cell, n, quarter = 40, len(s), len(s) // PARTS
    drawn = [quarter_of_cells(whole, rng).cells[1, 1] / (PARTS * SHARES**2) for _ in range(4000)]
    expected = hypergeom(n, cell, quarter)
    assert np.mean(drawn, axis=0) == pytest.approx(expected.mean(), rel=0.02)
    assert np.var(drawn, axis=0) == pytest.approx(expected.var(), rel=0.1)


def test_many_values_are_rounded_to_the_next_point(rng):
    f, s = rng.normal(size=(2, 3000))
    state = rounded_state(f, s)
    assert state.cells.shape == (POINTS, POINTS)
    marginal = state.cells.sum(axis=1) / SHARES**2
    step = np.ptp(f) / (POINTS - 1)
    expected = np.bincount(np.rint((f - f.min()) / step).astype(int), minlength=POINTS)
    assert np.array_equal(marginal, expected)
    assert state.value()["hgr"] == pytest.approx(hgr(f, s), abs=2e-4)


def test_the_ends_of_a_quarter_are_its_own(rng):
    f, s = rng.normal(size=40), np.arange(40.0)
    drawn = quarter_of_cells(rounded_state(f, s), rng)
    taken = s[drawn.cells.any(axis=0)]
    assert drawn.s_ends == (taken.min(), taken.max())


def test_a_constant_prediction_has_an_interval_of_no_length(rng):
    found = counted_interval("gdp", np.full(40, 0.1), np.arange(40.0), rng=rng, replicates=5)
    assert (found.estimate, found.low, found.high) == (0.0, 0.0, 0.0)


def test_what_gives_no_interval_is_refused(rng):
    f, s = sample(rng, 40)
    with pytest.raises(ValueError, match="measure must be one of hgr, gdp, gdp_plugin, got 'pf'"):
        counted_interval("pf", f, s, rng=rng)
    with pytest.raises(ValueError, match="at least 8 rows to resample, got 7"):
        counted_interval("hgr", f[:7], s[:7], rng=rng)
    with pytest.raises(ValueError, match="replicates must be at least 1, got 0"):
        counted_interval("hgr", f, s, rng=rng, replicates=0)
    with pytest.raises(ValueError, match="sensitive must have one row per prediction"):
        counted_interval("hgr", f, s[:9], rng=rng)
