"""Curves along a sensitive column with bands, and profiles of predictions built from them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import curves_along, profile_along, profile_of_pair, profile_within
from fkd.measures.profiles import POINTS

BEYOND = BLOCK_ROWS + 409


def bent(s):
    return np.sin(3 * s)


def rows(n, seed):
    """A skewed attribute s, and v whose spread grows with s."""
    rng = np.random.default_rng(seed)
    s = rng.gamma(1.0, 0.4, size=n)
    return s, bent(s) + (0.1 + 0.3 * np.minimum(s, 1.5)) * rng.normal(size=n)


def covered(n, repetitions, of_rows=rows, truth=bent):
    """Return how often points, and whole bands, cover the smoothed truth."""
    single, whole = [], []
    for seed in range(repetitions):
        s, v = of_rows(n, seed)
        rng = np.random.default_rng(seed)
        found, true = curves_along(np.column_stack([v, truth(s)]), s, rng=rng, draws=800)
        single.append(((found.low <= true.mean) & (true.mean <= found.high)).mean())
        whole.append(((found.lowest <= true.mean) & (true.mean <= found.highest)).all())
    return np.mean(single), np.mean(whole)


@pytest.mark.parametrize(("n", "repetitions"), [(200, 300), (BEYOND, 150)])
def test_coverage_of_intervals_and_bands(n, repetitions):
    single, whole = covered(n, repetitions)
    slack = 2.6 * np.sqrt(0.05 * 0.95 / repetitions)
    # Points of one curve go together, so their share wavers no less than that of bands.
    assert abs(single - 0.95) < slack + 0.01
    assert abs(whole - 0.95) < slack + 0.015


def test_coverage_of_a_band_over_levels():
    def levels(n, seed):
        rng = np.random.default_rng(seed)
        s = rng.choice(6, size=n, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02]).astype(float)
        return s, bent(s) + rng.normal(size=n)

    single, whole = covered(300, 300, levels)
    assert abs(single - 0.95) < 0.04
    assert abs(whole - 0.95) < 0.04


def test_pointwise_intervals_do_not_cover_a_whole_curve():
    missed = 0
    for seed in range(100):
        s, v = rows(400, seed)
        found, true = curves_along(
            np.column_stack([v, bent(s)]), s, rng=np.random.default_rng(seed), draws=200
        )
        missed += not ((found.low <= true.mean) & (true.mean <= found.high)).all()
    assert missed > 20


@pytest.mark.parametrize("n", [300, BEYOND])
def test_mean_is_that_of_a_gaussian_window_over_ranks(n):
    s, v = rows(n, 1)
    (found,) = curves_along(v, s, rng=np.random.default_rng(0), draws=50)
    ranks = (stats.rankdata(s) - 0.5) / n
    h = 0.5 * np.sqrt(1 / 12) * (3 * n / 4) ** (-1 / 5)
    for j in (0, POINTS // 2, POINTS - 1):
        at = ranks[np.argsort(s)[round(j * (n - 1) / (POINTS - 1))]]
        w = np.exp(-0.5 * ((at - ranks) / h) ** 2) * (np.abs(at - ranks) <= 3 * h)
        assert_allclose(found.mean[j], w @ v / w.sum(), rtol=1e-10)
        assert_allclose(found.points[j], w @ s / w.sum(), rtol=1e-10)
        error = np.sqrt(((w * (v - found.mean[j])) ** 2).sum() / (1 - (w**2).sum() / w.sum() ** 2))
        reach = stats.t.ppf(0.975, w.sum() ** 2 / (w**2).sum() - 1) * error / w.sum()
        assert_allclose(found.high[j] - found.mean[j], reach, rtol=1e-8)


@pytest.mark.parametrize("n", [60, BEYOND])
def test_few_levels_have_the_plain_means_and_intervals_of_their_rows(n):
    rng = np.random.default_rng(3)
    s = np.repeat([18.0, 40.0, 65.0], n // 3)
    v = rng.normal(size=len(s)) + s
    (found,) = curves_along(v, s, rng=rng)
    assert_allclose(found.points, [18, 40, 65])
    for j, level in enumerate(found.points):
        own = v[s == level]
        assert_allclose(found.mean[j], own.mean())
        low, high = stats.t.interval(0.95, len(own) - 1, own.mean(), stats.sem(own))
        assert_allclose([found.low[j], found.high[j]], [low, high])
    # Three independent means: the band is Sidak's, up to the draws.
    p = stats.t.cdf((found.highest - found.mean) / stats.sem(v[s == 18.0]), n // 3 - 1)[0]
    assert abs((2 * p - 1) ** 3 - 0.95) < 0.02


def test_line_stays_a_line_up_to_the_ends():
    s = np.random.default_rng(2).gamma(1.0, size=BEYOND)
    (found,) = curves_along(2 * s - 1, s, rng=np.random.default_rng(0), draws=10)
    assert_allclose(found.mean, 2 * found.points - 1, atol=1e-10)


def test_unit_and_outliers_of_s_do_not_change_the_means():
    s, v = rows(500, 4)
    (plain,) = curves_along(v, s, rng=np.random.default_rng(0), draws=20)
    far = np.where(s == s.max(), 1e6, s)
    (scaled,) = curves_along(v, 100 * far + 7, rng=np.random.default_rng(0), draws=20)
    assert_allclose(scaled.mean, plain.mean, rtol=1e-10)
    assert_allclose(scaled.highest, plain.highest, rtol=1e-6)


@pytest.mark.parametrize("levels", [6, 40, 10**6])
@pytest.mark.parametrize("n", [500, BEYOND])
def test_level_of_the_values_only_shifts_the_curve(rng, n, levels):
    # Differences of squares would lose the spread.
    s = rng.integers(levels, size=n) / levels
    v, w = s + rng.normal(size=n), rng.uniform(0.5, 3.0, size=n)
    for weights in (None, w):
        options = {"draws": 50, "sample_weight": weights}
        (near,), (far,) = (
            curves_along(column, s, rng=np.random.default_rng(0), **options)
            for column in (v, 1e6 + v)
        )
        for end in ("mean", "low", "high", "lowest", "highest"):
            assert_allclose(getattr(far, end) - 1e6, getattr(near, end), atol=1e-7)


def test_many_equal_values_are_one_point():
    rng = np.random.default_rng(5)
    s = np.where(rng.uniform(size=800) < 0.7, 0.0, rng.uniform(size=800))
    (found,) = curves_along(rng.normal(size=800), s, rng=rng, draws=20)
    assert (np.diff(found.points) > 0).all()
    assert len(found.points) < POINTS


def test_single_row_between_many_equal_ones_is_no_point():
    rng = np.random.default_rng(7)
    s = np.concatenate([np.zeros(200), np.arange(1.0, 3.0), np.full(200, 9.0), np.arange(10.0, 90)])
    (found,) = curves_along(rng.normal(size=len(s)), s, rng=rng, draws=50)
    assert np.isfinite([found.low, found.highest]).all()
    assert (found.rows >= 2).all()


def test_constant_column_has_a_band_of_no_width():
    s, _ = rows(300, 6)
    (found,) = curves_along(np.full(300, 2.5), s, rng=np.random.default_rng(0))
    assert_allclose(np.stack([found.low, found.highest]), 2.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "s", "words"),
    [
        (np.ones(30), np.ones(30), "sensitive must"),
        (np.ones(29), np.arange(30.0), "values must"),
        (np.ones(3), np.arange(3.0), "rows"),
    ],
)
def test_invalid_rows_are_refused_by_name(values, s, words):
    with pytest.raises(ValueError, match=words):
        curves_along(values, s, rng=np.random.default_rng(0))


# Profiles of a prediction


def people(n, seed=0):
    """A model that is too low for the old, one that is not."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, size=n)
    y = 100 + age + rng.normal(scale=10, size=n)
    plain = 100 + age + rng.normal(scale=3, size=n)
    return age, y, plain - np.maximum(age - 60, 0), plain, rng


@pytest.mark.parametrize("n", [600, BEYOND])
def test_profile_finds_the_rows_that_lose(n):
    age, y, fair, plain, rng = people(n)
    found = profile_along(y, fair, age, other=plain, rng=rng, draws=200)
    gain = found.curves["gain"]
    old = gain.points > 70
    assert (gain.highest[old] < 0).all()
    assert (gain.highest[gain.points < 50] >= 0).all()
    assert_allclose(gain.mean[old], 60 - gain.points[old], atol=2.5)
    worse = found.curves["absolute_error_change"]
    assert worse.low[-1] > 0


def test_difference_of_two_curves_is_the_curve_of_the_difference():
    age, y, fair, plain, rng = people(BEYOND)
    curves = profile_along(y, fair, age, other=plain, rng=rng, draws=50).curves
    mean = {name: curve.mean for name, curve in curves.items()}
    assert_allclose(mean["gain"], mean["prediction"] - mean["other_prediction"], atol=1e-9)
    assert_allclose(mean["error"], mean["prediction"] - mean["target"], atol=1e-9)
    assert_allclose(mean["gain"], mean["error"] - mean["other_error"], atol=1e-9)
    paired = curves["gain"].high - curves["gain"].mean
    apart = curves["prediction"].high - curves["prediction"].mean
    assert (paired < apart).mean() > 0.9  # what both models share cancels


def test_deciles_have_the_same_columns_in_the_same_order():
    age, y, fair, plain, rng = people(700)
    found = profile_along(y, fair, age, other=plain, rng=rng, draws=50)
    whole = {
        "target": y,
        "prediction": fair,
        "error": fair - y,
        "absolute_error": np.abs(fair - y),
        "other_prediction": plain,
        "other_error": plain - y,
        "gain": fair - plain,
        "other_absolute_error": np.abs(plain - y),
        "absolute_error_change": np.abs(fair - y) - np.abs(plain - y),
    }
    assert {*found.names} <= {*whole}
    assert len(found.names) >= 7
    weights = [group.rows for group in found.groups]
    for j, name in enumerate(found.names):
        mean = np.average([group.mean[j] for group in found.groups], weights=weights)
        assert_allclose(mean, whole[name].mean(), atol=1e-9)


def test_without_another_model_there_are_four_columns():
    age, y, fair, _, rng = people(300)
    found = profile_along(y, fair, age, rng=rng, draws=50)
    assert found.names == ("target", "prediction", "error", "absolute_error")
    assert found.other_leak is None
    assert found.leak is not None


def test_constant_prediction_has_no_leaking_function():
    age, y, _, _, rng = people(300)
    assert profile_along(y, np.full(300, 5.0), age, rng=rng, draws=50).leak is None


def test_within_groups_thirds_are_those_of_each_group():
    age, y, fair, *_ = people(900)
    job = np.where(age < 50, "young trade", "old trade")
    job[:12] = "rare"
    found, left_out = profile_within(y, fair, age, control_features=job)
    assert [stratum.label for stratum in found] == ["old trade", "young trade"]
    assert [(group.label, group.rows, group.why) for group in left_out] == [
        ("rare", 12, "fewer than 30 rows")
    ]
    own = age[job == "old trade"]
    thirds = found[0].groups
    assert len(thirds) == 3
    assert thirds[0].ranges[0][0] == own.min()
    assert sum(group.rows for group in thirds) == found[0].rows == len(own)


def test_profile_of_a_pair_needs_two_columns():
    age, y, fair, _, rng = people(900)
    other = rng.normal(size=900)
    found, left_out = profile_of_pair(y, fair, np.column_stack([age, other]))
    assert len(found) + len(left_out) == 9
    with pytest.raises(ValueError, match="two columns"):
        profile_of_pair(y, fair, age)


@pytest.mark.parametrize("which", ["y_true", "other"])
def test_columns_of_unequal_length_are_refused_by_name(which):
    age, y, fair, plain, rng = people(60)
    columns = {"y_true": y, "other": plain}
    columns[which] = columns[which][:-1]
    with pytest.raises(ValueError, match=f"^{which} must"):
        profile_along(y_pred=fair, sensitive=age, rng=rng, **columns)
