"""Generalised demographic parity: the formula, its limits, and the fast way for many levels."""

import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd import FairnessWarning
from fkd.measures import gdp

module = import_module("fkd.measures.gdp")  # the package attribute `gdp` is the function
seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=20, deadline=None)
both = pytest.mark.parametrize("estimator", ["grid", "plugin"])
HAND_BANDWIDTH = 1 / np.sqrt(2 * np.log(3))  # then exp(-1 / 2h²) = 1/3


def unit_pair(seed, n=80):
    """Predictions with a skewed attribute in [0, 1] that they depend on, with ties."""
    rng = np.random.default_rng(seed)
    s = np.round(rng.beta(1, 3, size=n), 2)
    return s**2 + 0.2 * rng.normal(size=n), s


def published(f, s, h, grid):
    """The formula: softmax weights per grid point, density as a mean of normals."""
    logits = -((grid[:, None] - s) ** 2) / (2 * h**2)
    w = np.exp(logits - logits.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    p = (np.exp(logits) / (h * np.sqrt(2 * np.pi))).mean(axis=1)
    return np.sum(np.abs(w @ f - f.mean()) * p) / np.sum(p)


def test_two_rows_by_hand():
    s = f = [0.0, 1.0]
    assert_allclose(gdp(f, s, estimator="plugin", bandwidth=HAND_BANDWIDTH), 0.25)
    value = gdp(f, s, bandwidth=HAND_BANDWIDTH, grid=[0, 0.5, 1])
    assert_allclose(value, 0.159248, atol=5e-7)
    assert_allclose(gdp(f, s, estimator="plugin", bandwidth=1e-3), 0.5)
    assert_allclose(gdp(f, s, bandwidth=1e-3, grid=[0, 1]), 0.5)


@some
@given(seed=seeds)
def test_grid_estimator_is_the_published_formula(seed):
    f, s = unit_pair(seed)
    h = (3 * len(s) / 4) ** (-1 / 5)
    grid = np.linspace(0.001, 0.998, 998)
    assert_allclose(gdp(f, s, margins="given"), published(f, s, h, grid), rtol=1e-10)
    scaled = (s - s.min()) / np.ptp(s)
    assert_allclose(gdp(f, s), published(f, scaled, h, grid), rtol=1e-10)
    ranks = ((s[:, None] > s).sum(axis=1) + (s[:, None] >= s).sum(axis=1)) / (2 * len(s))
    assert_allclose(gdp(f, s, margins="rank"), published(f, ranks, h, grid), rtol=1e-10)


@some
@given(seed=seeds)
def test_plugin_estimator_is_a_mean_over_the_rows(seed):
    f, s = unit_pair(seed)
    h = s.std() * (3 * len(s) / 4) ** (-1 / 5)
    w = np.exp(-((s[:, None] - s) ** 2) / (2 * h**2))
    expected = np.mean(np.abs(w @ f / w.sum(axis=1) - f.mean()))
    assert_allclose(gdp(f, s, estimator="plugin"), expected, rtol=1e-10)


@both
@some
@given(seed=seeds, shift=st.floats(-100, 100), scale=st.floats(-50, 50).filter(lambda c: c**2 > 1))
def test_scales_with_the_prediction_and_ignores_its_level_and_row_order(
    estimator, seed, shift, scale
):
    f, s = unit_pair(seed)
    value = gdp(f, s, estimator=estimator)
    assert_allclose(gdp(scale * f + shift, s, estimator=estimator), abs(scale) * value, rtol=1e-9)
    order = np.random.default_rng(seed).permutation(len(f))
    assert_allclose(gdp(f[order], s[order], estimator=estimator), value, rtol=1e-10)


@both
@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_extreme_units_of_the_prediction(rng, estimator, unit):
    s = rng.uniform(size=400)
    expected = unit * gdp(s, s, estimator=estimator)
    assert_allclose(gdp(unit * s, s, estimator=estimator), expected, rtol=1e-9)


@both
@some
@given(seed=seeds, bandwidth=st.sampled_from([1e-4, 0.1, 10.0, 1e6, None]))
def test_never_exceeds_the_largest_deviation(estimator, seed, bandwidth):
    f, s = unit_pair(seed)
    value = gdp(f, s, estimator=estimator, bandwidth=bandwidth)
    assert 0 <= value <= np.abs(f - f.mean()).max() * (1 + 1e-12)


@both
@pytest.mark.parametrize(
    ("scale", "offset"), [(0.01, 0.0), (80.0, 15.0), (-80.0, 2011.0), (1e-9, 0)]
)
def test_unit_of_the_attribute_does_not_matter(rng, estimator, scale, offset):
    s = rng.uniform(size=400)
    f = rng.normal(size=400) + s**2
    value = gdp(f, s, estimator=estimator)
    # The published grid ends at .001 and .998, so reversing s changes the value slightly.
    rtol = 2e-3 if scale < 0 and estimator == "grid" else 1e-6
    assert_allclose(gdp(f, offset + scale * s, estimator=estimator), value, rtol=rtol)
    assert value > 0.05


def test_given_margins_keep_the_unit_of_the_attribute(rng):
    s = rng.uniform(size=400)
    assert gdp(3 * s, 0.01 * s, margins="given") < 0.05 * gdp(3 * s, s)


def test_limits_of_the_bandwidth(rng):
    f, s = rng.normal(size=50), rng.permutation(50) / 49
    assert gdp(f, s, estimator="plugin", bandwidth=1e8) < 1e-12
    assert gdp(f, s, estimator="plugin") > 1e-3
    value = gdp(f, s, estimator="plugin", bandwidth=1e-5)
    assert_allclose(value, np.mean(np.abs(f - f.mean())))


@both
def test_two_groups_in_the_limit_differ_by_their_means(rng, estimator):
    s = (rng.uniform(size=200) < 0.3).astype(float)
    f = rng.normal(size=200) + s
    p1, gap = s.mean(), abs(f[s == 1].mean() - f[s == 0].mean())
    grid = [0.0, 1.0] if estimator == "grid" else None
    value = gdp(f, s, estimator=estimator, bandwidth=1e-6, grid=grid)
    assert_allclose(value, 2 * p1 * (1 - p1) * gap)


def test_grid_points_far_from_all_rows_give_a_finite_value(rng):
    f, s = rng.normal(size=(2, 30))
    assert np.isfinite(gdp(f, s, bandwidth=1e-4, grid=[50.0, 1e6]))


@both
@pytest.mark.parametrize("margins", ["range", "rank", "given"])
def test_constant_attribute_gives_zero(rng, estimator, margins):
    assert gdp(rng.normal(size=50), np.full(50, 0.3), estimator=estimator, margins=margins) == 0.0


def test_default_grid_needs_an_attribute_in_the_unit_interval(rng):
    f, age = rng.normal(size=400), rng.uniform(17, 94, size=400)
    with pytest.raises(ValueError, match=r"^sensitive_features must .*\[0, 1\].*margins='range'"):
        gdp(f, age, margins="given")
    assert gdp(f, age, grid=np.linspace(17, 94, 100), bandwidth=5.0) > 0
    s = rng.uniform(size=400)
    s[0] = 1.1  # within one bandwidth of the range
    assert gdp(s, s, margins="given") > 0


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"estimator": "kde"}, "estimator"),
        ({"margins": "standard"}, "margins"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": np.nan}, "bandwidth"),
        ({"bandwidth": np.inf}, "bandwidth"),
        ({"grid": []}, "grid"),
        ({"grid": [[0.5]]}, "grid"),
        ({"grid": [np.nan]}, "grid"),
        ({"grid": [0.5], "estimator": "plugin"}, "grid"),
    ],
)
def test_invalid_options_are_refused_by_name(options, parameter):
    with pytest.raises(ValueError, match=f"^{parameter} must"):
        gdp([0.0, 1.0], [0.0, 1.0], **options)


def test_outlier_of_the_attribute_gives_a_warning_except_with_ranks(rng):
    s = rng.uniform(size=2000)
    outlying = s.copy()
    outlying[7] = 1e4
    with pytest.warns(FairnessWarning, match="outliers"):
        assert gdp(s, outlying) < 0.1 * gdp(s, s)
    assert_allclose(gdp(s, outlying, margins="rank"), gdp(s, s, margins="rank"), rtol=1e-2)
    slightly = np.append(s[:1000], 3.0)
    with pytest.warns(FairnessWarning, match="outliers"):
        gdp(slightly, slightly)


@pytest.mark.parametrize("n", [50, 80, 1000])
@pytest.mark.parametrize("shape", ["uniform", "beta", "normal", "exponential"])
def test_ordinary_attributes_give_no_warning(rng, n, shape):
    s = rng.beta(3, 1, size=n) if shape == "beta" else getattr(rng, shape)(size=n)
    assert gdp(rng.normal(size=n) + s, s) > 0


# Many levels: sums through equidistant points instead of all pairs


def rows_of(shape, rng, n=3000):
    s = rng.standard_cauchy(n) if shape == "standard_cauchy" else getattr(rng, shape)(size=n)
    return np.sin(3 * s / np.quantile(np.abs(s), 0.9)) + rng.normal(size=n), s


@pytest.fixture
def through_points(monkeypatch):
    """gdp that uses equidistant points for any number of levels."""

    def call(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_CELLS", 0)
            return gdp(*arguments, **options)

    return call


@both
@pytest.mark.parametrize("shape", ["uniform", "normal", "lognormal", "standard_cauchy"])
def test_points_give_the_direct_value_for_any_distribution(rng, through_points, estimator, shape):
    f, s = rows_of(shape, rng)
    options = {"estimator": estimator, "margins": "range"}
    direct, found = gdp(f, s, **options), through_points(f, s, **options)
    assert abs(found - direct) < 1e-6 * f.std()
    if shape == "normal":
        assert found != direct


@both
@pytest.mark.parametrize("bandwidth", [1e-9, 1e-4, 0.01, 0.3, 50.0])
def test_points_give_the_direct_value_for_any_bandwidth(rng, through_points, estimator, bandwidth):
    f, s = rows_of("uniform", rng, 1500)
    options = {"estimator": estimator, "bandwidth": bandwidth}
    assert abs(through_points(f, s, **options) - gdp(f, s, **options)) < 1e-6 * f.std()


@pytest.mark.parametrize("bandwidth", [1e-50, 1e-16])
def test_window_narrower_than_any_gap_leaves_each_level_alone(rng, through_points, bandwidth):
    f, s = rng.normal(size=2000), rng.permutation(2000) / 1999
    value = through_points(f, s, estimator="plugin", bandwidth=bandwidth)
    assert_allclose(value, np.abs(f - f.mean()).mean())


@both
def test_few_levels_are_their_own_points(rng, through_points, estimator):
    s = rng.integers(17, 94, size=4000).astype(float)
    options = {"estimator": estimator, "margins": "range"}
    f = np.sqrt(s) + rng.normal(size=4000)
    assert_allclose(through_points(f, s, **options), gdp(f, s, **options), rtol=1e-12)


@both
def test_points_are_used_from_a_number_of_cells(rng, monkeypatch, estimator):
    f, s = rows_of("normal", rng)
    cells = 3000 * (3000 if estimator == "plugin" else 998)
    direct = gdp(f, s, estimator=estimator)
    monkeypatch.setattr(module, "MOST_CELLS", cells)
    assert gdp(f, s, estimator=estimator) == direct
    monkeypatch.setattr(module, "MOST_CELLS", cells - 1)
    assert 0 < abs(gdp(f, s, estimator=estimator) - direct) < 1e-6


@both
def test_memory_does_not_grow_with_points_times_rows(rng, estimator):
    # All pairs at once would take 48 MB on the grid, 288 MB at the rows.
    f, s = rng.uniform(size=(2, 6000))
    tracemalloc.start()
    gdp(f, s, estimator=estimator)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_sixty_thousand_different_values_need_memory_in_proportion(rng):
    f, s = rng.normal(size=(2, 60_000))  # pairs of levels: 29 GB
    tracemalloc.start()
    value = gdp(f + s, s, estimator="plugin")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert abs(value - np.sqrt(2 / np.pi)) < 0.02  # E|s|, up to the window
    assert peak < 40e6
