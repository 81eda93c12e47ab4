"""Smoothed means by way of points at fixed distances against the direct sums over all levels."""

import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import gdp

module = import_module("fkd.measures.gdp")
both = pytest.mark.parametrize("estimator", ["grid", "plugin"])
shapes = pytest.mark.parametrize("shape", ["uniform", "normal", "lognormal", "standard_cauchy"])


def rows_of(shape, rng, n=3000):
    s = rng.standard_cauchy(n) if shape == "standard_cauchy" else getattr(rng, shape)(size=n)
    return np.sin(3 * s / np.quantile(np.abs(s), 0.9)) + rng.normal(size=n), s


@pytest.fixture
def through_points(monkeypatch):
    """Let any number of levels go by way of points."""

    def call(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_CELLS", 0)
            return gdp(*arguments, **options)

    return call


@both
@shapes
def test_points_give_the_direct_value_to_a_millionth_of_the_prediction_s_spread(
    rng, through_points, estimator, shape
):
    f, s = rows_of(shape, rng)
    options = {"estimator": estimator, "margins": "range"}
    direct = gdp(f, s, **options)
    found = through_points(f, s, **options)
    assert abs(found - direct) < 1e-6 * f.std()
    if shape == "normal":
        assert found != direct  # it did go another way


@both
@pytest.mark.parametrize("bandwidth", [1e-9, 1e-4, 0.01, 0.3, 50.0])
def test_any_bandwidth_gives_the_direct_value(rng, through_points, estimator, bandwidth):
    f, s = rows_of("uniform", rng, 1500)
    options = {"estimator": estimator, "bandwidth": bandwidth}
    assert abs(through_points(f, s, **options) - gdp(f, s, **options)) < 1e-6 * f.std()


@pytest.mark.parametrize("bandwidth", [1e-50, 1e-16])
def test_a_window_without_neighbours_leaves_each_level_to_itself(rng, through_points, bandwidth):
    f, s = rng.normal(size=2000), rng.permutation(2000) / 1999
    value = through_points(f, s, estimator="plugin", bandwidth=bandwidth)
    assert_allclose(value, np.abs(f - f.mean()).mean())


def test_few_levels_are_their_own_points(rng, through_points):
    s = rng.integers(17, 94, size=4000).astype(float)
    f = np.sqrt(s) + rng.normal(size=4000)
    for options in ({"margins": "range"}, {"estimator": "plugin", "margins": "range"}):
        assert_allclose(through_points(f, s, **options), gdp(f, s, **options), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 300), digits=st.integers(0, 6))
def test_mean_at_levels_is_a_mean_of_neighbours(seed, n, digits):
    rng = np.random.default_rng(seed)
    s, d = np.round(rng.normal(size=n), digits), rng.normal(size=n)
    levels, totals = module.level_totals(d, s)
    assert_allclose(totals.sum(axis=0), [d.sum(), n], atol=1e-9)
    h = 0.2
    weights = np.exp(-0.5 * ((levels[:, None] - s) / h) ** 2)
    expected = weights @ d / weights.sum(axis=1)
    assert_allclose(module.smooth_at_levels(levels, totals, h), expected, rtol=1e-9, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_CELLS", 0)
        assert_allclose(module.smooth_at_levels(levels, totals, h), expected, rtol=1e-4, atol=1e-4)


def test_the_way_changes_at_a_number_of_cells_not_before(monkeypatch, rng):
    f, s = rows_of("normal", rng, 300)
    direct = gdp(f, s, estimator="plugin")
    monkeypatch.setattr(module, "_nodes", None)  # not to be asked
    monkeypatch.setattr(module, "MOST_CELLS", 300 * 300)
    assert gdp(f, s, estimator="plugin") == direct
    monkeypatch.setattr(module, "MOST_CELLS", 300 * 300 - 1)
    with pytest.raises(TypeError):
        gdp(f, s, estimator="plugin")


def test_many_different_values_take_memory_in_proportion(rng):
    f, s = rng.normal(size=(2, 60_000))  # pairs of levels: 29 GB
    tracemalloc.start()
    value = gdp(f + s, s, estimator="plugin")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert abs(value - np.sqrt(2 / np.pi)) < 0.02  # E|s|, but for the window
    assert peak < 40e6


def gdp_by_rows(f, s, estimator):
    """The value of few levels as it was first written, each level weighed at each point."""
    d, rate = f - f.mean(axis=0), (3 * len(s) / 4) ** (-1 / 5)
    levels, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    points = np.arange(1, 999) / 1000 if estimator == "grid" else levels
    h = rate if estimator == "grid" else float(s.std(axis=0)) * rate
    totals = np.stack([np.bincount(inverse, weights=d), counts], axis=1)
    mean, log_density = [], []
    size = max(1, module.TILE_CELLS // len(levels))
    for start in range(0, len(points), size):
        halves = ((points[start : start + size, None] - levels) * (np.sqrt(0.5) / h)) ** 2
        nearest = halves.min(axis=1)
        sums = np.exp(nearest[:, None] - halves) @ totals
        mean.append(sums[:, 0] / sums[:, 1])
        log_density.append(np.log(sums[:, 1]) - nearest)
    mean, log_density = np.concatenate(mean), np.concatenate(log_density)
    if estimator == "plugin":
        return float(np.abs(mean) @ counts / len(s))
    weights = np.exp(log_density - log_density.max(axis=0))
    return float(np.abs(mean) @ weights / weights.sum(axis=0))


@both
@pytest.mark.parametrize("n", [8, 400, 2000])
@pytest.mark.parametrize("digits", [1, 15])
def test_below_the_threshold_no_bit_has_changed(rng, estimator, n, digits):
    s = np.round(rng.uniform(size=n), digits)
    f = rng.normal(size=n) + s
    options = {"estimator": estimator, "margins": "given"}
    assert gdp(f, s, **options) == gdp_by_rows(f, s, estimator)
