"""Generalised demographic parity: hand examples, exact properties, limits of the bandwidth."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd import FairnessWarning
from fkd.measures import gdp

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=20, deadline=None)
both = pytest.mark.parametrize("estimator", ["grid", "plugin"])
HAND_BANDWIDTH = 1 / np.sqrt(2 * np.log(3))  # then exp(-1 / 2h²) = 1/3


def unit_pair(seed, n=80):
    """Predictions with a ragged attribute in [0, 1] that they depend on, ties included."""
    rng = np.random.default_rng(seed)
    s = np.round(rng.beta(1, 3, size=n), 2)
    return s**2 + 0.2 * rng.normal(size=n), s


def published(f, s, h, grid):
    """The formula word for word: softmax weights per grid point, density as a mean of normals."""
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
def test_the_grid_estimator_is_the_published_formula(seed):
    f, s = unit_pair(seed)
    h = (3 * len(s) / 4) ** (-1 / 5)
    grid = np.linspace(0.001, 0.998, 998)
    assert_allclose(gdp(f, s, margins="given"), published(f, s, h, grid), rtol=1e-10)
    low, high = s.min(), s.max()
    scaled = (s - low) / (high - low)
    assert_allclose(gdp(f, s), published(f, scaled, h, grid), rtol=1e-10)
    ranks = ((s[:, None] > s).sum(axis=1) + (s[:, None] >= s).sum(axis=1)) / (2 * len(s))
    assert_allclose(gdp(f, s, margins="rank"), published(f, ranks, h, grid), rtol=1e-10)


@some
@given(seed=seeds)
def test_the_plugin_estimator_is_a_mean_over_the_rows(seed):
    f, s = unit_pair(seed)
    h = s.std() * (3 * len(s) / 4) ** (-1 / 5)
    w = np.exp(-((s[:, None] - s) ** 2) / (2 * h**2))
    expected = np.mean(np.abs(w @ f / w.sum(axis=1) - f.mean()))
    assert_allclose(gdp(f, s, estimator="plugin"), expected, rtol=1e-10)


@both
@some
@given(seed=seeds, shift=st.floats(-100, 100), scale=st.floats(-50, 50).filter(lambda c: c**2 > 1))
def test_gdp_ignores_the_level_of_a_prediction_while_it_scales_with_its_size(
    estimator, seed, shift, scale
):
    f, s = unit_pair(seed)
    value = gdp(f, s, estimator=estimator)
    assert_allclose(gdp(scale * f + shift, s, estimator=estimator), abs(scale) * value, rtol=1e-9)


@both
@some
@given(seed=seeds)
def test_gdp_does_not_see_the_order_of_rows(estimator, seed):
    f, s = unit_pair(seed)
    order = np.random.default_rng(seed).permutation(len(f))
    value = gdp(f[order], s[order], estimator=estimator)
    assert_allclose(value, gdp(f, s, estimator=estimator), rtol=1e-10)


@both
@some
@given(seed=seeds, bandwidth=st.sampled_from([1e-4, 0.1, 10.0, 1e6, None]))
def test_gdp_never_exceeds_the_largest_deviation(estimator, seed, bandwidth):
    f, s = unit_pair(seed)
    value = gdp(f, s, estimator=estimator, bandwidth=bandwidth)
    assert 0 <= value <= np.abs(f - f.mean()).max() * (1 + 1e-12)


@some
@given(seed=seeds)
def test_reversing_the_attribute_changes_nothing(seed):
    f, s = unit_pair(seed)
    assert_allclose(gdp(f, 1 - s, estimator="plugin"), gdp(f, s, estimator="plugin"), rtol=1e-9)
    # The published grid ends at .998, not at .999.
    assert abs(gdp(f, 1 - s) - gdp(f, s)) < 2e-3


@some
@given(seed=seeds, scale=st.sampled_from([-3.0, 1e-3, 70.0]), shift=st.floats(-50, 50))
def test_the_plugin_estimator_does_not_see_affine_maps_of_the_attribute(seed, scale, shift):
    f, s = unit_pair(seed)
    value = gdp(f, scale * s + shift, estimator="plugin")
    assert_allclose(value, gdp(f, s, estimator="plugin"), rtol=1e-6)


def test_a_bandwidth_that_sees_everything_sees_no_difference(rng):
    f, s = rng.normal(size=50), rng.uniform(size=50)
    assert gdp(f, s, estimator="plugin", bandwidth=1e8) < 1e-12
    assert gdp(f, s, estimator="plugin") > 1e-3


def test_a_bandwidth_that_sees_one_row_returns_the_mean_deviation(rng):
    f, s = rng.normal(size=50), rng.permutation(50) / 49
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


def test_points_far_from_all_rows_still_give_a_finite_value(rng):
    f, s = rng.normal(size=(2, 30))
    assert np.isfinite(gdp(f, s, bandwidth=1e-4, grid=[50.0, 1e6]))


def test_a_constant_attribute_explains_nothing(rng):
    f = rng.normal(size=40)
    assert gdp(f, np.full(40, 0.3), estimator="plugin") == 0.0
    assert gdp(f, np.full(40, 0.3)) < 1e-15


def test_the_published_grid_refuses_an_attribute_in_its_own_unit(rng):
    f, age = rng.normal(size=400), rng.uniform(17, 94, size=400)
    with pytest.raises(ValueError, match=r"scaled to \[0, 1\].*got \[17.*margins='range'"):
        gdp(f, age, margins="given")
    assert gdp(f, age, estimator="plugin") > 0
    assert gdp(f, age, grid=np.linspace(17, 94, 100), bandwidth=5.0) > 0


def test_the_default_grid_bears_an_attribute_just_outside_the_range(rng):
    s = rng.uniform(size=400)
    s[0] = 1.1
    assert gdp(s, s, margins="given") > 0


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"estimator": "kde"}, "estimator must be 'grid' or 'plugin', got 'kde'"),
        ({"bandwidth": 0.0}, "bandwidth must be at least"),
        ({"bandwidth": -1.0}, "bandwidth must be at least"),
        ({"bandwidth": np.nan}, "bandwidth must be at least"),
        ({"bandwidth": np.inf}, "bandwidth must be at least"),
        ({"grid": []}, "grid must be a vector of at least one point"),
        ({"grid": [[0.5]]}, "grid must be a vector"),
        ({"grid": [np.nan]}, "grid must be finite"),
        ({"grid": [0.5], "estimator": "plugin"}, "grid must be None for estimator='plugin'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, rule):
    with pytest.raises(ValueError, match=rule):
        gdp([0.0, 1.0], [0.0, 1.0], **options)


@both
def test_memory_does_not_grow_with_points_times_rows(rng, estimator):
    f, s = rng.uniform(size=(2, 6000))
    tracemalloc.start()
    gdp(f, s, estimator=estimator)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # the whole matrix would take 48 MB on the grid, 288 MB at the rows


@pytest.mark.parametrize("estimator", ["grid", "plugin"])
@pytest.mark.parametrize(
    ("scale", "offset"), [(0.01, 0.0), (80.0, 15.0), (-80.0, 2011.0), (1e-9, 0)]
)
def test_the_unit_of_the_attribute_does_not_matter(rng, estimator, scale, offset):
    s = rng.uniform(size=400)
    f = rng.normal(size=400) + s**2
    value = gdp(f, s, estimator=estimator)
    # The published points reach from .001 to .998: turned around they are not quite the same.
    rtol = 2e-3 if scale < 0 else 1e-6
    assert_allclose(gdp(f, offset + scale * s, estimator=estimator), value, rtol=rtol)
    assert value > 0.05


def test_a_share_that_spans_one_percent_reads_as_fair_only_if_it_was_meant(rng):
    s = rng.uniform(size=400)
    f = 3 * s
    assert gdp(f, 0.01 * s, margins="given") < 0.05 * gdp(f, s)
    assert_allclose(gdp(f, 0.01 * s), gdp(f, s), rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_it_is_in_the_unit_of_the_prediction(rng, unit):
    s = rng.uniform(size=400)
    assert_allclose(gdp(unit * s, s), unit * gdp(s, s), rtol=1e-9)


def test_an_outlier_of_the_attribute_is_told_and_ranks_do_not_see_it(rng):
    s = rng.uniform(size=2000)
    outlying = s.copy()
    outlying[7] = 1e4
    with pytest.warns(FairnessWarning, match="outliers widen the window .* margins='rank'"):
        assert gdp(s, outlying) < 0.1 * gdp(s, s)
    assert_allclose(gdp(s, outlying, margins="rank"), gdp(s, s, margins="rank"), rtol=1e-2)


@pytest.mark.parametrize("estimator", ["grid", "plugin"])
@pytest.mark.parametrize("margins", ["range", "rank", "given"])
def test_a_constant_attribute_has_nothing_to_depend_on(rng, estimator, margins):
    assert gdp(rng.normal(size=50), np.full(50, 0.3), estimator=estimator, margins=margins) == 0.0


def test_unknown_margins_are_refused(rng):
    s = rng.uniform(size=50)
    with pytest.raises(ValueError, match="margins must be one of range, rank, given, got"):
        gdp(s, s, margins="standard")


@pytest.mark.parametrize("n", [50, 80, 1000])
@pytest.mark.parametrize("shape", ["uniform", "beta", "normal", "exponential"])
def test_ordinary_attributes_give_no_warning(rng, n, shape):
    draw = {"beta": lambda: rng.beta(3, 1, size=n), "exponential": lambda: rng.exponential(size=n)}
    s = draw.get(shape, lambda: getattr(rng, shape)(size=n))()
    assert gdp(rng.normal(size=n) + s, s) > 0


def test_one_row_at_three_times_the_range_is_told(rng):
    s = np.append(rng.uniform(size=1000), 3.0)
    with pytest.warns(FairnessWarning, match="outliers widen the window"):
        gdp(s, s)
