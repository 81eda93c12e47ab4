"""Intervals: around their estimate, seeded, of the right width, paired for two predictions."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.validation import FairnessWarning, warn_user
from fkd.measures import (
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_pair,
    gdp,
    hgr,
    pairwise_fairness,
    pairwise_interval,
    pairwise_pair,
)


@pytest.fixture
def rows(rng):
    """Truth, an unfair prediction, a fair one, two sensitive columns."""
    S = rng.uniform(size=(300, 2)) * [1.0, 0.4]
    talent = rng.normal(size=300)
    y = talent + S[:, 0]
    return y, talent + 2 * S[:, 0], talent + 0.1 * rng.normal(size=300), S


def test_the_same_seed_gives_the_same_interval(rows):
    _, f, _, S = rows
    first, again = (
        bootstrap_interval(gdp, f, S, rng=np.random.default_rng(4), replicates=50) for _ in range(2)
    )
    assert_allclose(first.low, again.low, rtol=0, atol=0)
    assert_allclose(first.high, again.high, rtol=0, atol=0)
    other = bootstrap_interval(gdp, f, S, rng=np.random.default_rng(5), replicates=50)
    assert (first.low != other.low).any()


def test_the_interval_surrounds_the_estimate_of_every_column(rng, rows):
    y, f, _, S = rows
    found = bootstrap_interval(pairwise_fairness, y, f, S, rng=rng, replicates=100)
    assert_allclose(found.estimate, pairwise_fairness(y, f, S), rtol=0, atol=0)
    assert found.estimate.shape == found.low.shape == found.high.shape == (2,)
    assert found.low[0] < found.estimate[0] < found.high[0]


@pytest.mark.parametrize("seed", range(30))
def test_the_interval_of_hgr_on_independent_rows_holds_its_estimate(seed):
    rng = np.random.default_rng(seed)
    f, s = rng.normal(size=200), rng.uniform(size=200)
    found = bootstrap_interval(hgr, f, s, rng=rng, replicates=100)
    assert found.low < found.estimate < found.high


def test_a_draw_is_a_quarter_of_the_rows_each_four_times():
    seen = []

    def count(rows):
        seen.append(rows)
        return 0.0

    bootstrap_interval(count, np.arange(203.0), rng=np.random.default_rng(0), replicates=20)
    assert (seen[0] == np.arange(203)).all()
    for rows in seen[1:]:
        assert np.unique(rows, return_counts=True)[1].tolist() == [4] * 50
    assert len({tuple(rows) for rows in seen}) == 21


@pytest.mark.parametrize("n", [11, 401])
def test_the_interval_of_a_mean_has_the_textbook_width(n):
    x = np.random.default_rng(n).normal(size=n)
    found = bootstrap_interval(np.mean, x, rng=np.random.default_rng(1), replicates=4000)
    expected = 2 * 1.96 * x.std(ddof=1) / np.sqrt(n)
    # Ends from 4000 draws are good to about 2 %; two rows out of eleven are not quite normal.
    assert_allclose(found.high - found.low, expected, rtol=0.05 if n > 100 else 0.12)


def test_draws_do_not_repeat_what_was_said_of_all_rows():
    def warned(rows):
        warn_user("so many rows")
        return float(rows.mean())

    with pytest.warns(FairnessWarning) as said:
        bootstrap_interval(warned, np.arange(40.0), rng=np.random.default_rng(0), replicates=5)
    assert len(said) == 1


def test_the_draws_level_does_not_move_the_interval(rng):
    """A measure that is larger on fewer distinct rows: the interval stays around its estimate."""
    x = rng.normal(size=200)

    def inflated(rows):
        return float(rows.mean() + 100 / len(np.unique(rows)))

    plain = bootstrap_interval(np.mean, x, rng=np.random.default_rng(2), replicates=100)
    found = bootstrap_interval(inflated, x, rng=np.random.default_rng(2), replicates=100)
    assert_allclose([found.low - 0.5, found.high - 0.5], [plain.low, plain.high], atol=1e-12)


def test_an_estimate_beyond_most_of_its_draws_is_still_inside():
    x = np.zeros(400)
    x[0] = 1.0
    found = bootstrap_interval(np.max, x, rng=np.random.default_rng(0), replicates=20, level=0.01)
    assert found.low <= found.estimate == 1.0 <= found.high


def test_an_interval_ends_at_the_bounds_of_its_measure(rng):
    x = rng.normal(size=60)
    free, bound = (
        bootstrap_interval(
            np.mean, x - x.mean(), rng=np.random.default_rng(3), replicates=50, bounds=bounds
        )
        for bounds in ((-np.inf, np.inf), (-0.01, 10.0))
    )
    assert free.low < bound.low == -0.01
    assert bound.high == free.high


def test_a_wider_level_gives_a_wider_interval(rows):
    _, f, _, S = rows
    narrow, wide = (
        bootstrap_interval(
            gdp, f, S[:, 0], rng=np.random.default_rng(1), replicates=200, level=level
        )
        for level in (0.5, 0.99)
    )
    assert type(narrow.low) is float
    assert wide.low < narrow.low < narrow.high < wide.high


def test_intervals_of_a_mean_cover_the_truth_as_often_as_they_promise(rng):
    inside = 0
    for _ in range(200):
        found = bootstrap_interval(np.mean, rng.normal(size=40), rng=rng, replicates=150, level=0.9)
        inside += found.low <= 0 <= found.high
    assert abs(inside / 200 - 0.9) < 0.064  # three standard deviations of a binomial of 200


def test_a_paired_difference_tells_apart_what_single_intervals_do_not(rng, rows):
    y, f, _, _ = rows
    slightly_worse = f + 0.05 * np.sign(y - f) * -1
    error = lambda truth, guess: float(np.mean(np.abs(truth - guess)))  # noqa: E731
    paired = bootstrap_difference(error, (y, slightly_worse), (y, f), rng=rng, replicates=200)
    alone = [bootstrap_interval(error, y, g, rng=rng, replicates=200) for g in (f, slightly_worse)]
    assert paired.low > 0  # the pair is told apart
    assert alone[0].high > alone[1].low  # although the two intervals overlap
    assert_allclose(paired.estimate, 0.05)


def test_the_difference_of_a_prediction_from_itself_is_nothing(rng, rows):
    _, f, fair, S = rows
    same = bootstrap_difference(gdp, (f, S), (f, S), rng=rng, replicates=20)
    assert (same.low == 0).all()
    assert (same.high == 0).all()
    differs = bootstrap_difference(gdp, (f, S), (fair, S), rng=rng, replicates=50)
    assert differs.low[0] > 0


def test_options_of_a_measure_go_in_by_partial(rng, rows):
    _, f, _, S = rows
    plugin = partial(gdp, estimator="plugin")
    found = bootstrap_interval(plugin, f, S, rng=rng, replicates=5)
    assert_allclose(found.estimate, plugin(f, S), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("columns", "options", "rule"),
    [
        (([1.0, 2.0], [0.0]), {}, r"argument 1 must have one row per prediction \(2\), got 1"),
        (([1.0, np.nan],), {}, "argument 0 must be finite"),
        ((3.0,), {}, "argument 0 must have rows"),
        ((), {}, "columns must hold at least one array"),
        ((np.arange(7.0),), {}, "argument 0 must have at least 8 rows to resample, got 7"),
        (([1.0, 2.0],), {"replicates": 0}, "replicates must be at least 1, got 0"),
        (([1.0, 2.0],), {"level": 1.0}, "level must lie between 0 and 1, got 1.0"),
    ],
)
def test_what_cannot_be_resampled_is_refused(rng, columns, options, rule):
    with pytest.raises(ValueError, match=rule):
        bootstrap_interval(np.mean, *columns, rng=rng, **options)


def test_the_fast_interval_of_pairwise_fairness_is_the_plain_one(rng):
    s = np.round(rng.uniform(size=120), 1)
    y = s + rng.normal(size=120)
    f = y + rng.normal(size=120)
    plain = bootstrap_interval(
        pairwise_fairness, y, f, s, rng=np.random.default_rng(1), replicates=30, bounds=(0, 1)
    )
    fast = pairwise_interval(y, f, s, rng=np.random.default_rng(1), replicates=30)
    assert (fast.estimate, fast.replicates) == (plain.estimate, 30)
    np.testing.assert_allclose([fast.low, fast.high], [plain.low, plain.high], rtol=1e-13)
    with pytest.raises(ValueError, match="replicates"):
        pairwise_interval(y, f, s, rng=rng, replicates=0)


def test_quarters_without_pairs_are_left_out_until_too_few_are_left(rng):
    y, s = rng.normal(size=80), np.zeros(80)
    f = y + rng.normal(size=80)
    s[np.argsort(y)[[30, 50]]] = 1
    with pytest.raises(ValueError, match=r"in most quarters of the rows, got \d+ of 50"):
        pairwise_interval(y, f, s, rng=rng, replicates=50)
    s[rng.permutation(80)[:8]] = 1
    found = pairwise_interval(y, f, s, rng=rng, replicates=200)
    assert 100 < found.replicates < 200
    assert 0 <= found.low < found.estimate < found.high <= 1


def test_a_pair_has_the_intervals_of_its_sides_and_of_their_difference(rng, rows):
    _, f, fair, S = rows
    seeded = lambda: {"rng": np.random.default_rng(4), "replicates": 40}  # noqa: E731
    pair = bootstrap_pair(gdp, (f, S), (fair, S), bounds=(0.0, 0.03), **seeded())
    first = bootstrap_interval(gdp, f, S, bounds=(0.0, 0.03), **seeded())
    second = bootstrap_interval(gdp, fair, S, bounds=(0.0, 0.03), **seeded())
    difference = bootstrap_difference(gdp, (f, S), (fair, S), **seeded())
    for found, expected in zip(
        (pair.first, pair.second, pair.difference), (first, second, difference), strict=True
    ):
        for end in ("estimate", "low", "high"):
            assert_allclose(getattr(found, end), getattr(expected, end), rtol=1e-13)
    assert (pair.first.high == 0.03).any()  # bounds are those of the measure alone


def test_the_fast_pair_of_pairwise_fairness_is_the_plain_one(rng):
    s = np.round(rng.uniform(size=120), 1)
    y = s + rng.normal(size=120)
    f, g = y + rng.normal(size=120), y - s
    seeded = lambda: {"rng": np.random.default_rng(1), "replicates": 30}  # noqa: E731
    plain = bootstrap_pair(pairwise_fairness, (y, f, s), (y, g, s), bounds=(0, 1), **seeded())
    fast = pairwise_pair(y, f, g, s, **seeded())
    for side in ("first", "second", "difference"):
        found, expected = getattr(fast, side), getattr(plain, side)
        assert_allclose(
            [found.estimate, found.low, found.high],
            [expected.estimate, expected.low, expected.high],
            rtol=1e-12,
            atol=1e-14,
        )
    assert fast.difference.estimate == pytest.approx(
        pairwise_fairness(y, f, s) - pairwise_fairness(y, g, s)
    )


def test_a_constant_prediction_can_be_one_of_a_pair(rng):
    # Few quarters have pairs in both directions; of a constant every quarter reads 0.
    y, s = rng.normal(size=40), np.r_[np.zeros(34), np.ones(6)]
    found = pairwise_pair(y, y + rng.normal(size=40), np.zeros(40), s, rng=rng, replicates=200)
    assert found.second.high == 0
    assert found.first.replicates == found.second.replicates < 200
