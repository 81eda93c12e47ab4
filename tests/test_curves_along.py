import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import curves_along
from fkd.measures.profiles import POINTS

BEYOND = BLOCK_ROWS + 409


def bent(s):
    return np.sin(3 * s)


def rows(n, seed):
    """A skewed attribute; the spread of v grows with it."""
    rng = np.random.default_rng(seed)
    s = rng.gamma(1.0, 0.4, size=n)
    return s, bent(s) + (0.1 + 0.3 * np.minimum(s, 1.5)) * rng.normal(size=n)


def covered(n, repetitions, of_rows=rows, truth=bent):
    """How often points, and whole bands, hold the smoothed truth."""
    single, whole = [], []
    for seed in range(repetitions):
        s, v = of_rows(n, seed)
        rng = np.random.default_rng(seed)
        found, true = curves_along(np.column_stack([v, truth(s)]), s, rng=rng, draws=800)
        single.append(((found.low <= true.mean) & (true.mean <= found.high)).mean())
        whole.append(((found.lowest <= true.mean) & (true.mean <= found.highest)).all())
    return np.mean(single), np.mean(whole)


@pytest.mark.parametrize(("n", "repetitions"), [(200, 300), (BEYOND, 150)])
def test_intervals_and_bands_cover_as_often_as_they_promise(n, repetitions):
    single, whole = covered(n, repetitions)
    slack = 2.6 * np.sqrt(0.05 * 0.95 / repetitions)
    # Points of one curve go together, so their share wavers no less than that of bands.
    assert abs(single - 0.95) < slack + 0.01
    assert abs(whole - 0.95) < slack + 0.015


def test_a_band_of_levels_covers_them_all_at_once():
    def levels(n, seed):
        rng = np.random.default_rng(seed)
        s = rng.choice(6, size=n, p=[0.4, 0.3, 0.15, 0.1, 0.03, 0.02]).astype(float)
        return s, bent(s) + rng.normal(size=n)

    single, whole = covered(300, 300, levels)
    assert abs(single - 0.95) < 0.04
    assert abs(whole - 0.95) < 0.04


def test_intervals_of_single_points_do_not_hold_a_whole_curve():
    """What the wider band is for: forty intervals of 95 % are no band of 95 %."""
    missed = 0
    for seed in range(100):
        s, v = rows(400, seed)
        found, true = curves_along(
            np.column_stack([v, bent(s)]), s, rng=np.random.default_rng(seed), draws=200
        )
        missed += not ((found.low <= true.mean) & (true.mean <= found.high)).all()
    assert missed > 20


@pytest.mark.parametrize("n", [300, BEYOND])
def test_the_mean_is_that_of_a_gaussian_window_over_ranks(n):
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


def test_a_line_stays_a_line_up_to_the_ends():
    s = np.random.default_rng(2).gamma(1.0, size=BEYOND)
    (found,) = curves_along(2 * s - 1, s, rng=np.random.default_rng(0), draws=10)
    assert_allclose(found.mean, 2 * found.points - 1, atol=1e-10)


def test_neither_unit_nor_outlier_of_s_moves_the_means():
    s, v = rows(500, 4)
    (plain,) = curves_along(v, s, rng=np.random.default_rng(0), draws=20)
    far = np.where(s == s.max(), 1e6, s)
    (scaled,) = curves_along(v, 100 * far + 7, rng=np.random.default_rng(0), draws=20)
    assert_allclose(scaled.mean, plain.mean, rtol=1e-10)
    assert_allclose(scaled.highest, plain.highest, rtol=1e-6)


def test_many_equal_values_are_one_point():
    rng = np.random.default_rng(5)
    s = np.where(rng.uniform(size=800) < 0.7, 0.0, rng.uniform(size=800))
    (found,) = curves_along(rng.normal(size=800), s, rng=rng, draws=20)
    assert (np.diff(found.points) > 0).all()
    assert len(found.points) < POINTS


def test_a_lone_row_between_many_equal_ones_is_no_point():
    rng = np.random.default_rng(7)
    s = np.concatenate([np.zeros(200), np.arange(1.0, 3.0), np.full(200, 9.0), np.arange(10.0, 90)])
    (found,) = curves_along(rng.normal(size=len(s)), s, rng=rng, draws=50)
    assert np.isfinite([found.low, found.highest]).all()
    assert (found.rows >= 2).all()


def test_a_constant_column_has_no_doubt():
    s, _ = rows(300, 6)
    (found,) = curves_along(np.full(300, 2.5), s, rng=np.random.default_rng(0))
    assert_allclose(np.stack([found.low, found.highest]), 2.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "s", "words"),
    [
        (np.ones(30), np.ones(30), "sensitive must vary .* got 30 times 1; name another"),
        (np.ones(29), np.arange(30.0), "values must have one row"),
        (np.ones(3), np.arange(3.0), "more rows are needed"),
    ],
)
def test_bad_rows_are_refused_in_a_sentence(values, s, words):
    with pytest.raises(ValueError, match=words):
        curves_along(values, s, rng=np.random.default_rng(0))
