"""Draws of very many rows say of two predictions what draws of rows say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.measures import (
    bootstrap_pair,
    counted_floor,
    counted_interval,
    counted_pair,
    gdp,
    hgr,
    noise_floor,
    pairwise_fairness,
    pairwise_interval,
    pairwise_pair,
)
from fkd.measures import pairwise as pair_parts
from fkd.measures import pairwise as pairwise_intervals
from fkd.measures import resampling as subsamples
from fkd.measures.binned import CountedRows
from fkd.measures.pairwise import gaps_of, pairwise_on_parts
from fkd.measures.resampling import quarter


def sample(rng, n, levels=True):
    """Truth, a fair and an unfair prediction, an attribute of few or of different values."""
    s = rng.integers(17, 94, size=n) / 77.0 if levels else rng.gamma(2.0, size=n)
    y = rng.normal(size=n) + 0.3 * s
    return y, 0.6 * y + 0.4 * rng.normal(size=n), 0.5 * y + 0.5 * s, s


@pytest.mark.parametrize("levels", [True, False])
def test_of_few_values_both_ways_draw_the_same_numbers(rng, levels):
    """Rounding moves nothing, so that the same quarters give the same measures."""
    _, f, g, s = sample(rng, 800, levels)
    f, g = np.round(f, 1), np.round(g, 1)
    s = s if levels else np.round(s, 1)
    options = {"replicates": 40}
    found = counted_pair(("hgr", "gdp"), f, g, s, rng=np.random.default_rng(3), **options)
    for name, measure in (
        ("hgr", lambda a, b: hgr(a, b, margins="standard")),
        ("gdp", lambda a, b: gdp(a, b, margins="range")),
    ):
        direct = bootstrap_pair(
            measure,
            (f, s),
            (g, s),
            rng=np.random.default_rng(3),
            bounds=(0.0, 1.0 if name == "hgr" else np.inf),
            **options,
        )
        for side in ("first", "second", "difference"):
            a, b = getattr(found[name], side), getattr(direct, side)
            assert_allclose([a.estimate, a.low, a.high], [b.estimate, b.low, b.high], atol=2e-6)


def test_many_values_are_rounded_without_moving_an_end_far(rng):
    _, f, g, s = sample(rng, 4000, levels=False)
    found = counted_pair(("hgr",), f, g, s, rng=np.random.default_rng(1), replicates=100)["hgr"]
    direct = bootstrap_pair(
        lambda a, b: hgr(a, b, margins="standard"),
        (f, s),
        (g, s),
        rng=np.random.default_rng(1),
        replicates=100,
        bounds=(0.0, 1.0),
    )
    for side in ("first", "second", "difference"):
        a, b = getattr(found, side), getattr(direct, side)
        assert a.estimate == b.estimate
        assert_allclose([a.low, a.high], [b.low, b.high], atol=0.1 * (b.high - b.low))


def test_a_pair_and_an_interval_alone_agree(rng):
    _, f, g, s = sample(rng, 3000)
    pair = counted_pair(("gdp",), f, g, s, rng=rng, replicates=400)["gdp"]
    alone = counted_interval("gdp", f, s, rng=rng, replicates=400)
    assert pair.first.estimate == alone.estimate
    width = alone.high - alone.low
    assert_allclose([pair.first.low, pair.first.high], [alone.low, alone.high], atol=0.3 * width)


def test_a_constant_prediction_has_no_spread(rng):
    _, f, _, s = sample(rng, 500)
    pair = counted_pair(("hgr", "gdp"), np.ones(500), f, s, rng=rng, replicates=20)
    for found in pair.values():
        assert (found.first.estimate, found.first.low, found.first.high) == (0.0, 0.0, 0.0)
        assert found.second.high > found.second.low


@pytest.mark.parametrize("n", [1000, subsamples._MANY])
def test_a_quarter_has_every_row_as_often_as_any_other(rng, n):
    seen = np.zeros(n)
    for _ in range(200):
        rows = quarter(n, rng)
        assert len(np.unique(rows)) == len(rows) == n // 4
        seen[rows] += 1
    # Rows near either end, or in the middle, are no more likely than others.
    shares = [part.mean() / 200 for part in np.array_split(seen, 8)]
    assert_allclose(shares, 0.25, atol=5 * np.sqrt(0.1875 / 200 / (n / 8)))
    assert abs(seen.std() / np.sqrt(200 * 0.1875) - 1) < 0.1


def test_rows_are_counted_beside_the_attribute_they_have(rng):
    _, f, _, s = sample(rng, 700)
    f = np.round(f, 1)
    rows = CountedRows.of(f, s)
    some = quarter(700, rng)
    state = rows.counted(some, rows.s_index, times=4)
    assert state.rows == 4 * len(some)
    assert_allclose(state.hgr(), hgr(np.tile(f[some], 4), np.tile(s[some], 4), margins="standard"))


def test_the_floor_is_that_of_shuffled_rows(rng):
    _, f, _, s = sample(rng, 3000)
    found = counted_floor(f, s, rng=rng, permutations=150)
    direct = noise_floor(
        f, s, rng=rng, permutations=150, measure=lambda a, b: hgr(a, b, margins="standard")
    )
    assert_allclose(found.mean, direct.mean, rtol=0.1)
    assert_allclose(found.upper, direct.upper, rtol=0.15)
    assert found.upper < float(hgr(s + f, s, margins="standard"))


@pytest.fixture
def _small_parts(monkeypatch):
    monkeypatch.setattr(pair_parts, "PART_ROWS", 400)
    monkeypatch.setattr(pairwise_intervals, "PART_ROWS", 400)


@pytest.mark.usefixtures("_small_parts")
def test_gaps_of_parts_keep_the_sign_of_all_rows(rng):
    y, f, g, s = sample(rng, 6000)
    predictions = [f, g, -g]
    values = pairwise_on_parts(y, predictions, s, gaps_of(y, predictions, s, None), 60, rng)
    estimates = [pairwise_fairness(y, one, s) for one in (f, g, -g)]
    for gaps, estimate in zip(values, estimates, strict=True):
        assert abs(gaps.mean() - estimate) < 4 * gaps.std() / np.sqrt(60)
    # A fair prediction's gaps fall on either side of zero.
    assert (values[0] < 0).any()
    assert (values[1] > 0).all()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("which", [1, 2])
def test_parts_of_many_rows_give_the_interval_of_quarters(rng, monkeypatch, which):
    sample_ = sample(rng, 8000)
    y, f, s = sample_[0], sample_[which], sample_[3]
    quarters = pairwise_interval(y, f, s, rng=rng, replicates=300)
    monkeypatch.setattr(pairwise_intervals, "PARTS_FROM", 8000)
    parts = pairwise_interval(y, f, s, rng=rng, replicates=300)
    assert parts.estimate == quarters.estimate
    width = quarters.high - quarters.low
    assert_allclose([parts.low, parts.high], [quarters.low, quarters.high], atol=0.3 * width)


@pytest.mark.usefixtures("_small_parts")
def test_a_slightly_unfair_prediction_is_covered_where_absolute_gaps_would_fold(rng, monkeypatch):
    """Its gap is small beside a part's noise, large beside that of all rows."""
    monkeypatch.setattr(pairwise_intervals, "PARTS_FROM", 0)
    s = rng.uniform(size=200_000)
    y = rng.normal(size=200_000)
    f = y + 0.05 * s + rng.normal(size=200_000)
    truth = pairwise_fairness(y, f, s)
    hits = 0
    for _ in range(40):
        rows = rng.choice(200_000, 6000, replace=False)
        found = pairwise_interval(y[rows], f[rows], s[rows], rng=rng, replicates=100)
        hits += found.low <= truth <= found.high
    assert hits >= 34


@pytest.mark.usefixtures("_small_parts")
def test_a_pair_sees_the_same_parts(rng, monkeypatch):
    monkeypatch.setattr(pairwise_intervals, "PARTS_FROM", 0)
    y, f, g, s = sample(rng, 5000)
    pair = pairwise_pair(y, g, g + 1e-9 * f, s, rng=rng, replicates=100)
    width = pair.first.high - pair.first.low
    assert pair.difference.high - pair.difference.low < 0.01 * width
